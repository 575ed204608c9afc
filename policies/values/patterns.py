"""Address patterns: segments between "/"; `{name}` and `*` take one segment, a last `**` takes the rest.

A segment may mix text and one capture (`orders-{n}`). Every character of an address is literal: wildcards,
dots and percent escapes in it mean nothing. `routable` decides which addresses can match a pattern at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

MAX_ADDRESS: Final = 1024
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_CAPTURE: Final = re.compile(r"\{([A-Za-z][A-Za-z0-9_]{0,31})\}")
_ONE: Final = "[^/]+"
_REST: Final = "**"


class PatternError(ValueError):
    """A pattern or template that cannot be read; the text suggests a correction."""


def routable(address: str) -> bool:
    """Whether an address may match a pattern: not empty, no control characters, at most 1024 characters."""
    return 0 < len(address) <= MAX_ADDRESS and _CONTROL.search(address) is None


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of a pattern: literal text around at most one wildcard."""

    before: str
    wild: bool = False
    capture: str | None = None
    after: str = ""

    def regex(self) -> str:
        """This segment as a regular expression with one group per capture."""
        wild = f"({_ONE})" if self.capture else _ONE if self.wild else ""
        return re.escape(self.before) + wild + re.escape(self.after)

    def matches(self, part: str) -> bool:
        """Whether this segment matches a part of an address."""
        if not self.wild:
            return part == self.before
        around = len(self.before) + len(self.after)
        return len(part) > around and part.startswith(self.before) and part.endswith(self.after)

    def fits(self, before: str, after: str) -> bool:
        """Whether both this wildcard and one with these literal ends match some text."""
        begins = before.startswith(self.before) or self.before.startswith(before)
        return begins and (after.endswith(self.after) or self.after.endswith(after))


@dataclass(frozen=True)
class Pattern:
    """A pattern; equal patterns have equal text."""

    text: str
    segments: tuple[Segment, ...] = field(compare=False)
    rest: bool = field(compare=False)
    captures: tuple[str, ...] = field(compare=False)

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The pattern as a regular expression, compiled when it is first used: of thousands of rules, few are."""
        return _compiled(self.segments, self.rest)

    def match(self, address: str) -> dict[str, str] | None:
        """The captured segments, or None; the address must be `routable`."""
        found = self.regex.fullmatch(address)
        return None if found is None else dict(zip(self.captures, found.groups(), strict=True))

    def example(self) -> str:
        """An address that matches."""
        fixed = [segment.before + "x" * segment.wild + segment.after for segment in self.segments]
        return "/".join([*fixed, "x"] if self.rest else fixed)

    @property
    def shape(self) -> PatternShape:
        """The addresses that match."""
        return PatternShape(self.segments, self.rest)


def parse_pattern(text: object) -> Pattern:
    """Read a pattern; raises `PatternError`."""
    if not isinstance(text, str):
        raise PatternError('must be an address pattern in text, like "events/{topic}"')
    if not routable(text):
        raise PatternError(f"must have 1 to {MAX_ADDRESS} characters and no control characters")
    parts = text.split("/")
    rest = parts[-1] == _REST
    segments = tuple(_segment(part) for part in (parts[:-1] if rest else parts))
    captures = tuple(segment.capture for segment in segments if segment.capture)
    if len(set(captures)) < len(captures):
        raise PatternError("uses the same capture name twice")
    return Pattern(text, segments, rest, captures)


def _segment(part: str) -> Segment:
    if part == "*":
        return Segment("", wild=True)
    if _REST in part:
        raise PatternError('"**" must be the whole last segment: it matches the rest of the address')
    if "*" in part:
        raise PatternError('"*" must be a whole segment; inside one use a capture, like "orders-{n}"')
    return _mixed(part)


def _mixed(part: str) -> Segment:
    found = _CAPTURE.search(part)
    before, after = (part[: found.start()], part[found.end() :]) if found else (part, "")
    if any(brace in before + after for brace in "{}"):
        raise PatternError("a segment may have at most one capture, like {name}: a letter, then letters, digits or _")
    return Segment(before, found is not None, found[1] if found else None, after)


def _compiled(segments: tuple[Segment, ...], rest: bool) -> re.Pattern[str]:
    fixed = "/".join(segment.regex() for segment in segments)
    # "a/**" takes zero or more further segments, so "a" itself matches; "**" alone takes everything.
    tail = ("(?:/.*)?" if segments else ".*") if rest else ""
    return re.compile(fixed + tail, re.DOTALL)


@dataclass(frozen=True, slots=True)
class Template:
    """Text with `{name}` places, filled from the captures of a match."""

    text: str
    parts: tuple[str, ...] = field(compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The captures this template needs."""
        return self.parts[1::2]

    def fill(self, captures: dict[str, str]) -> str:
        """The text with every place filled; captured text is never read as a template again."""
        if len(self.parts) == 1:
            return self.text
        return "".join(captures[part] if at % 2 else part for at, part in enumerate(self.parts))


@dataclass(frozen=True, slots=True)
class PatternShape:
    """The addresses that a template can make or a pattern matches: their segments, and whether more may follow."""

    segments: tuple[Segment, ...]
    rest: bool = False


def shape(template: Template) -> PatternShape:
    """The addresses that a template can make; text between two captures of a segment is ignored."""
    return PatternShape(tuple(_blurred(part) for part in template.text.split("/")))


def _blurred(part: str) -> Segment:
    before, found, _ = part.partition("{")
    return Segment(before, wild=bool(found), after=part.rpartition("}")[2] if found else "")


def parse_template(text: object) -> Template:
    """Compile a template; raises `PatternError`."""
    if not isinstance(text, str) or not routable(text):
        raise PatternError(f"must be text of 1 to {MAX_ADDRESS} characters without control characters")
    parts = tuple(_CAPTURE.split(text))
    if any(brace in literal for literal in parts[::2] for brace in "{}*"):
        raise PatternError("may contain captures of the match, like {name}, but no wildcards")
    return Template(text, parts)
