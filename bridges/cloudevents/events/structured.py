"""Parses events in structured mode with the JSON format (CloudEvents JSON Format 1.0). Pure."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Final, NamedTuple

from bridges.cloudevents.model.values import Json

JSON_EVENT: Final = "application/cloudevents+json"
_NAME: Final = re.compile(r"[a-z0-9]+")
_DATA, _BASE64, _MEDIA = "data", "data_base64", "datacontenttype"
_JSON_MEDIA: Final = re.compile(r"[^/;]+/(?:[^;]*\+)?json\s*(?:;.*)?", re.IGNORECASE)
_SPACE: Final = r"[ \t\n\r]*"
_OPEN: Final = re.compile(rf'{_SPACE}\{{{_SPACE}(?:(?=")|\}}{_SPACE}\Z)')
_COLON: Final = re.compile(f"{_SPACE}:{_SPACE}")
_NEXT: Final = re.compile(rf'{_SPACE}(?:,{_SPACE}(?=")|\}}{_SPACE}\Z)')
"""Between two members, before a name; at the end of the object it matches up to the end of the text."""


class ParsedEvent(NamedTuple):
    """An event from JSON: attributes as strings, data as in binary mode; `body` is the JSON in UTF-8."""

    attributes: dict[str, str]
    content_type: str | None
    data: bytes | None
    body: bytes


def parse_json(body: bytes) -> ParsedEvent | None:
    """Parse the event in `body`; None if it is not a JSON object, or a member is invalid in an event. Never raises."""
    try:
        return _parsed(_in_utf8(body))
    except (ValueError, RecursionError):  # from JSON, UTF-8 or base64
        return None


def is_json(content_type: str | None) -> bool:
    """Whether data of this type is JSON, as data without a type is (JSON Format, 3.1)."""
    return content_type is None or _JSON_MEDIA.fullmatch(content_type) is not None


def is_json_event(content_type: str) -> bool:
    """Whether this is the content type of a single event in the JSON format, with any parameters."""
    return content_type.partition(";")[0].strip().lower() == JSON_EVENT


def refuse_constant(name: str) -> float:
    """For `json.loads`: reject NaN and the infinities, which are not JSON; raises ValueError."""
    raise ValueError(name)


def base64_text(data: bytes) -> str:
    """Encode data as base64 text (RFC 4648)."""
    return base64.b64encode(data).decode()


_DECODER: Final = json.JSONDecoder(parse_constant=refuse_constant)
_UNREAD: Final = json.JSONDecoder(parse_constant=refuse_constant, parse_int=str, parse_float=str)
"""For data, which is passed on as it was written: a number may be longer or more precise than those of Python."""


def _in_utf8(body: bytes) -> bytes:
    """JSON in the only encoding that may be sent, without a byte order mark (RFC 8259, 8.1)."""
    encoding = json.detect_encoding(body)
    return body if encoding == "utf-8" else body.decode(encoding).encode()


def _members(text: str) -> tuple[dict[str, Json], str]:
    """The members of the object, and `data` as it was written; raises ValueError."""
    members: dict[str, Json] = {}
    data, at = "", _end(_OPEN, text, 0)
    while at < len(text):
        name, at = _DECODER.raw_decode(text, at)
        at = _end(_COLON, text, at)
        members[name], end = (_UNREAD if name == _DATA else _DECODER).raw_decode(text, at)
        if name == _DATA:
            data = text[at:end]
        at = _end(_NEXT, text, end)
    return members, data


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise ValueError("not a JSON object")
    return found.end()


def _parsed(body: bytes) -> ParsedEvent | None:
    members, written = _members(body.decode())
    attributes: dict[str, str] = {}
    for name, value in members.items():
        if name in (_DATA, _BASE64) or value is None:
            continue
        text = _text(value)
        if text is None or _NAME.fullmatch(name) is None:
            return None
        attributes[name] = text
    content_type = attributes.pop(_MEDIA, None) or None
    data = _data(members, written, content_type)
    if data is not None and content_type is None and _BASE64 not in members:
        content_type = "application/json"
    return ParsedEvent(attributes, content_type, data, body)


def _text(value: Json) -> str | None:
    """The string of an attribute (CE 1.0, Type System); None for a number with a fraction, an array or an object."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        value.encode()  # a lone surrogate is not valid text
        return value
    return None


def _data(members: dict[str, Json], written: str, content_type: str | None) -> bytes | None:
    """The data as bytes (JSON Format, 3.1.1): JSON as it was `written`, text, or from base64."""
    encoded, data = members.get(_BASE64), members.get(_DATA)
    if encoded is not None:
        if not isinstance(encoded, str) or data is not None:
            raise binascii.Error("data_base64 is not text, or is present beside data")
        return base64.b64decode(encoded, validate=True)
    if _DATA not in members or (data is None and not is_json(content_type)):
        return None
    if isinstance(data, str) and written[0] == '"' and not is_json(content_type):
        return data.encode()
    return written.encode()
