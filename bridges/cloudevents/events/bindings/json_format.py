"""Events in the JSON format (CloudEvents JSON Format 1.0), for structured mode and batches."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final

from bridges.cloudevents.events.bindings.errors import NotEncodable
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.events.structured import base64_text, is_json, is_json_event, refuse_constant

JSON_EVENT: Final = "application/cloudevents+json; charset=UTF-8"
JSON_BATCH: Final = "application/cloudevents-batch+json; charset=UTF-8"
_TEXT: Final = re.compile(r"(?:text/[^;]+|[^;]+[/+]xml)\s*(?:;.*)?", re.IGNORECASE)
_DECODER: Final = json.JSONDecoder(parse_constant=refuse_constant)
_OTHER_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?(?!utf-8|us-ascii)", re.IGNORECASE)


def json_event(event: CloudEvent) -> bytes:
    """The event as a JSON object; an event that was received as one is returned unchanged.

    JSON data is embedded byte for byte, text as a string, everything else as base64. Raises NotEncodable for
    an event with unreadable attributes.
    """
    if event.structured is not None and is_json_event(event.structured.content_type):
        return event.structured.body
    if not event.attributes:
        raise NotEncodable("an event in another format cannot be put into JSON")
    # Names of attributes are lower-case letters and digits, which need no escapes.
    members = [f'"{name}":{encode_basestring(value)}' for name, value in event.attributes.items()]
    if event.content_type is not None:
        members.append(f'"datacontenttype":{encode_basestring(event.content_type)}')
    if event.data is not None:
        members.append(_data(event.data, event.content_type))
    return ("{" + ",".join(members) + "}").encode()


def json_batch(events: Sequence[CloudEvent]) -> bytes:
    """The events as a JSON array; raises NotEncodable as `json_event` does."""
    return b"[" + b",".join(map(json_event, events)) + b"]"


def _data(data: bytes, content_type: str | None) -> str:
    """The member `data` or `data_base64` (3.1.1); data without a content type is not assumed to be JSON."""
    as_json, as_text = _forms(content_type)
    text = _utf8(data) if as_json or as_text else None
    if text is not None and as_json and _is_value(text):
        return '"data":' + text
    if text is not None and as_text:
        return '"data":' + encode_basestring(text)
    return f'"data_base64":"{base64_text(data)}"'


@lru_cache(maxsize=256)
def _forms(content_type: str | None) -> tuple[bool, bool]:
    """Whether data of a content type may be embedded as JSON, and as text; events of a topic usually have the same."""
    if content_type is None or _OTHER_CHARSET.search(content_type):
        return False, False
    return is_json(content_type), _TEXT.fullmatch(content_type) is not None


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_value(text: str) -> bool:
    """Whether the text is a single JSON value."""
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True
