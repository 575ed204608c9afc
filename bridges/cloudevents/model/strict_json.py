"""A strict JSON parser for subscriptions: an object, no duplicate members, no NaN, limited depth. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import Final

from bridges.cloudevents.model.values import InvalidSubscription, Json, Mistake

MAX_DEPTH: Final = 16
# An unterminated string is one token, too: otherwise each quotation mark in it would be tried as a start.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)


def read_object(body: bytes, depth: int = MAX_DEPTH) -> dict[str, Json]:
    """Parse the object in `body`; raises `InvalidSubscription` with line and column."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _invalid(body[: error.start].decode("utf-8", "replace"), error.start, "not UTF-8") from None
    _check_structure(text, depth)
    try:
        found: Json = json.loads(text, parse_constant=_refused, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise _invalid(text, error.pos, f"not JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise _invalid(text, _bad_number(text), "not JSON: a number that is none, or too long") from None
    if not isinstance(found, dict):
        raise _invalid(text, 0, "a JSON object is needed")
    if where := _lone_surrogate(found):
        raise InvalidSubscription((Mistake(where[0], "half of a surrogate pair"),))
    return found


def json_text(value: Json) -> bytes:
    """Encode as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def pointer(*parts: str | int) -> str:
    """The JSON pointer to these members (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _invalid(text: str, at: int, message: str) -> InvalidSubscription:
    before = text[:at]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return InvalidSubscription((Mistake("", f"line {line}, column {column}: {message}"),))


def _check_structure(text: str, depth: int) -> None:
    """Check depth and duplicate members; the parser checks the rest."""
    open_objects: list[set[str] | None] = []
    expects_name = False
    for found in _TOKEN.finditer(text):
        part = found[0]
        if part in "{[":
            open_objects.append(set() if part == "{" else None)
            if len(open_objects) > depth:
                raise _invalid(text, found.start(), f"nested more than {depth} deep")
        elif part in "}]" and open_objects:
            open_objects.pop()
        elif part[0] == '"' and expects_name and open_objects and (names := open_objects[-1]) is not None:
            name = _decoded(part)
            if name in names:
                raise _invalid(text, found.start(), f"the member {part[:64]} appears twice")
            names.add(name)
        expects_name = part in "{,"


def _decoded(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text


def _refused(name: str) -> Json:
    raise ValueError(name)


def _bad_number(text: str) -> int:
    """The position of the first number that JSON does not have, or that is too long."""
    plain = (found for found in _TOKEN.finditer(text) if found[0][0] not in '"{}[]:,')
    return next((found.start() for found in plain if not _is_read(found[0])), 0)


def _is_read(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refused, parse_float=_finite)
    except ValueError:
        return False
    return True


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _lone_surrogate(value: Json, at: str = "") -> tuple[str] | None:
    """The position of a string that UTF-8 cannot encode."""
    if isinstance(value, str):
        return None if _encodable(value) else (at,)
    if isinstance(value, dict):
        below = ((pointer(name) if _encodable(name) else "", item) for name, item in value.items())
        if not all(map(_encodable, value)):
            return (at,)
        return next((found for name, item in below if (found := _lone_surrogate(item, at + name))), None)
    if isinstance(value, list):
        return next((found for n, item in enumerate(value) if (found := _lone_surrogate(item, f"{at}/{n}"))), None)
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
