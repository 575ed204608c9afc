"""Reads the members of JSON objects with checks, and records every mistake with its JSON pointer. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from bridges.cloudevents.model.strict_json import pointer
from bridges.cloudevents.model.values import Json, Mistake
from policies.values.units import parse_duration

T = TypeVar("T")
D = TypeVar("D")
Check = Callable[[Json], T]
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_MAX_UNKNOWN: Final = 20
"""Maximum number of unknown members of an object that are reported one by one."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class InvalidMember(ValueError):
    """A value that failed a check; `below` is a JSON pointer relative to it."""

    def __init__(self, message: str, below: str = "") -> None:
        super().__init__(message)
        self.message: Final = message
        self.below: Final = below


class Members:
    """The members of one object; those that are never read are unknown."""

    def __init__(self, value: Mapping[str, Json], at: str, mistakes: list[Mistake]) -> None:
        self._value: Final = value
        self._at: Final = at
        self._mistakes: Final = mistakes
        self._names_read: Final[list[str]] = []

    def __contains__(self, name: str) -> bool:
        """Whether the member is present."""
        return name in self._value

    def report(self, name: str, message: str) -> None:
        """Record a mistake in a member."""
        self._mistakes.append(Mistake(self._at + pointer(name), message))

    def take(self, name: str, check: Check[T], default: D) -> T | D:
        """The checked member; the default if it is missing or wrong."""
        self._names_read.append(name)
        if name not in self._value:
            return default
        try:
            return check(self._value[name])
        except InvalidMember as wrong:
            self._mistakes.append(Mistake(self._at + pointer(name) + wrong.below, wrong.message))
            return default

    def require(self, name: str, check: Check[T], default: D) -> T | D:
        """As `take`, but a missing member is a mistake."""
        if name not in self._value:
            self.report(name, "required")
        return self.take(name, check, default)

    def section(self, name: str) -> Members:
        """The object in a member; an empty one if it is missing. A wrong one is reported once."""
        found: dict[str, Json] | None = self.take(name, object_value, None)
        mistakes = self._mistakes if found is not None or name not in self._value else []
        return Members(found or {}, self._at + pointer(name), mistakes)

    def finish(self, hints: Mapping[str, str] = {}) -> None:
        """Record the unknown members, each with its hint or the nearest known name."""
        unknown = [name for name in self._value if name not in self._names_read]
        for name in unknown[:_MAX_UNKNOWN]:
            self.report(name, hints.get(name) or _unknown(name, self._names_read))
        if len(unknown) > _MAX_UNKNOWN:
            self._mistakes.append(Mistake(self._at, f"{len(unknown) - _MAX_UNKNOWN} more unknown members"))


def _unknown(name: str, known: list[str]) -> str:
    folded = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f"unknown; did you mean {folded[near[0]]}?" if near else f"unknown; known are {', '.join(known)}"


def object_value(value: Json) -> dict[str, Json]:
    """Check for an object."""
    if isinstance(value, dict):
        return value
    raise InvalidMember("an object")


def list_value(value: Json) -> list[Json]:
    """Check for an array."""
    if isinstance(value, list):
        return value
    raise InvalidMember("an array")


def boolean(value: Json) -> bool:
    """Check for true or false."""
    if isinstance(value, bool):
        return value
    raise InvalidMember("true or false")


def one_of(*allowed: T) -> Check[T]:
    """Check for one of these values, with the same type."""

    def check(value: Json) -> T:
        for each in allowed:
            if type(each) is type(value) and each == value:
                return each
        *most, last = map(str, allowed)
        raise InvalidMember(f"{', '.join(most)} or {last}" if most else f"only {last}")

    return check


def integer(least: int, most: int) -> Check[int]:
    """Check for an integer in a range."""

    def check(value: Json) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise InvalidMember(f"a whole number from {least} to {most}")

    return check


def text(longest: int, pattern: re.Pattern[str] | None = None, what: str = "text") -> Check[str]:
    """Check for text of 1 to `longest` characters without control characters; `what` describes the pattern."""

    def check(value: Json) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= longest:
            raise InvalidMember(f"{what} of 1 to {longest} characters")
        if _CONTROL.search(value) or (pattern is not None and not pattern.fullmatch(value)):
            raise InvalidMember(f"{what}, without control characters")
        return value

    return check


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")


def duration(least: int, most: int) -> Check[float]:
    """Check for a duration in the policy's syntax; returns seconds; the range is in milliseconds."""

    def check(value: Json) -> float:
        try:
            found = parse_duration(value)
        except ValueError as error:
            raise InvalidMember(str(error)) from None
        if least <= found <= most:
            return found.seconds
        raise InvalidMember(f"a duration from {least / 1000:g}s to {most / 1000:g}s")

    return check


def time_value(value: Json) -> int:
    """Check for an RFC 3339 time; returns milliseconds since 1970."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        day, clock, fraction, zone = found.groups()
        try:
            whole = datetime.fromisoformat(f"{day}T{clock}{zone.upper().replace('Z', '+00:00')}")
            return (whole - _EPOCH) // timedelta(milliseconds=1) + int(float(f"0{fraction or '.0'}") * 1000)
        except (ValueError, OverflowError):
            pass
    raise InvalidMember('a time like "2027-01-01T00:00:00Z" (RFC 3339)')
