"""The annotations of response routing in the headers of records (RA 2.3, 2.4; KM-22).

A request that entered the topic with a cookie has its three annotations in headers; a responder that uses Kafka puts
the cookie of its response into one. Any producer of the topic may write them: an invalid header is ignored, and a
cookie is verified when it is used. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bridges.kafka.records.envelope import Header
from bridges.kafka.records.headers import RESERVED
from gateway.amqp.codec.codec import Timestamp, encode, encode_binary

RoutingValue = bytes | str | Timestamp
COOKIE: Final = "address-cookie"
COOKIE_HEADER: Final = RESERVED + COOKIE
REQUEST_HEADERS: Final = RESERVED + "response-"
"""The prefix of the headers of a request."""
_DIGITS: Final = 18
"""The most digits of a time that fits an AMQP timestamp."""


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _time(content: bytes) -> Timestamp | None:
    return Timestamp(int(content)) if content.isdigit() and len(content) <= _DIGITS else None


_READ: Final[Mapping[str, Callable[[bytes], RoutingValue | None]]] = {
    COOKIE: bytes,
    "response-address-cookie": bytes,
    "response-link-target-address": _text,
    "response-address-cookie-expiry": _time,
}
"""Converts the content of a header to the annotation of the same name."""
ROUTING: Final = tuple(_READ)


def routing_value(headers: list[Header] | None, name: str) -> RoutingValue | None:
    """The annotation `name` of a record with these headers, from the first header with content; None: it has none."""
    wanted = RESERVED + name
    found = next((content for key, content in headers or () if key == wanted and content is not None), None)
    return None if found is None else _READ[name](found)


def routing_annotations(headers: list[Header]) -> dict[str, bytes]:
    """All annotations of a record with these headers, encoded."""
    if not any(name == COOKIE_HEADER or name.startswith(REQUEST_HEADERS) for name, _ in headers):
        return {}
    values = ((name, routing_value(headers, name)) for name in ROUTING)
    return {name: _encoded(value) for name, value in values if value is not None}


def _encoded(value: RoutingValue) -> bytes:
    return encode_binary(value) if isinstance(value, bytes) else encode(value)
