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


class ParsedEvent(NamedTuple):
    """An event from JSON: attributes as strings, data as in binary mode."""

    attributes: dict[str, str]
    content_type: str | None
    data: bytes | None


def parse_json(body: bytes) -> ParsedEvent | None:
    """Parse the event in `body`; None if it is not a JSON object, or a member is invalid in an event. Never raises."""
    try:
        found = json.loads(body, parse_constant=refuse_constant)
        return _parsed(found) if isinstance(found, dict) else None
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


def _parsed(members: dict[str, Json]) -> ParsedEvent | None:
    attributes: dict[str, str] = {}
    for name, value in members.items():
        if name in (_DATA, _BASE64) or value is None:
            continue
        text = _text(value)
        if text is None or _NAME.fullmatch(name) is None:
            return None
        attributes[name] = text
    content_type = attributes.pop(_MEDIA, None) or None
    data = _data(members, content_type)
    if data is not None and content_type is None and _BASE64 not in members:
        content_type = "application/json"
    return ParsedEvent(attributes, content_type, data)


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


def _data(members: dict[str, Json], content_type: str | None) -> bytes | None:
    """The data as bytes (JSON Format, 3.1.1): from JSON, text or base64."""
    encoded, data = members.get(_BASE64), members.get(_DATA)
    if encoded is not None:
        if not isinstance(encoded, str) or data is not None:
            raise binascii.Error("data_base64 is not text, or is present beside data")
        return base64.b64decode(encoded, validate=True)
    if _DATA not in members or (data is None and not is_json(content_type)):
        return None
    if isinstance(data, str) and not is_json(content_type):
        return data.encode()
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
