"""Events as HTTP requests (HTTP Protocol Binding 1.0): header fields and body, in each of the three modes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from bridges.cloudevents.events.bindings.json_format import JSON_BATCH, JSON_EVENT, json_batch, json_event
from bridges.cloudevents.events.event import CloudEvent

HeaderFields = list[tuple[str, str]]
PREFIX: Final = "ce-"
_CONTENT_TYPE: Final = "content-type"
_AS_IS: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
"""Characters that are not percent-encoded (3.1.3.2); space, quotation mark and percent sign are encoded."""
_PLAIN: Final = re.compile(f"[{re.escape(_AS_IS)}]*").fullmatch
"""Matches text without characters to encode: most text, for which the check takes a tenth of the time of encoding."""


def http_binary(event: CloudEvent) -> tuple[HeaderFields, bytes]:
    """Header fields and body in binary mode (3.1); an event with unreadable attributes is sent unchanged."""
    attributes = event.attributes.items()
    if _PLAIN("".join(event.attributes.values())):
        fields = [(PREFIX + name, value) for name, value in attributes]
    else:
        fields = [(PREFIX + name, percent_encoded(value)) for name, value in attributes]
    if event.content_type is not None:
        fields.append((_CONTENT_TYPE, header_text(event.content_type)))
    return fields, event.data or b""


def http_structured(event: CloudEvent) -> tuple[HeaderFields, bytes]:
    """Header fields and body in structured mode (3.2): unchanged if it was structured, otherwise in the JSON format."""
    if event.structured is not None:
        return [(_CONTENT_TYPE, header_text(event.structured.content_type))], event.structured.body
    return [(_CONTENT_TYPE, JSON_EVENT)], json_event(event)


def http_batched(events: Sequence[CloudEvent]) -> tuple[HeaderFields, bytes]:
    """Header fields and body in batched mode (3.3).

    An event in a format other than JSON cannot be in a batch: alone, it is sent unchanged; with others, NotEncodable is
    raised, so that they are sent one by one.
    """
    if len(events) == 1 and not events[0].attributes:
        return http_structured(events[0])
    return [(_CONTENT_TYPE, JSON_BATCH)], json_batch(events)


def is_plain(text: str) -> bool:
    """Whether nothing in a text has to be percent-encoded."""
    return _PLAIN(text) is not None


def percent_encoded(text: str) -> str:
    """Encode an attribute as the value of a header field (3.1.3.2)."""
    return text if _PLAIN(text) else quote(text, safe=_AS_IS)


def header_text(text: str) -> str:
    """A content type as the value of a header field, without the characters that no field may contain."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character for character in text if " " <= character <= "~").strip()
