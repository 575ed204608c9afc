"""The delivery annotations of response routing: their names, and reading those of a peer (RA 2.3, 2.4).

The specification prints most names with U+2011; on the wire they are ASCII (A32).
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

from gateway.amqp.codec.codec import Symbol, Timestamp, decode_all
from gateway.amqp.message.sections import map_entry
from gateway.errors import INVALID_FIELD, AmqpError

T = TypeVar("T")

REQUEST_COOKIE: Final = "response-address-cookie"
REQUEST_TARGET: Final = "response-link-target-address"
REQUEST_EXPIRY: Final = "response-address-cookie-expiry"
REQUEST_ANNOTATIONS: Final = (REQUEST_COOKIE, REQUEST_TARGET, REQUEST_EXPIRY)
RESPONSE_COOKIE: Final = "address-cookie"


class Previous(NamedTuple):
    """The annotations that a previous gateway put on a request; each may be missing (RA-2.3-10, -11)."""

    cookie: bytes | None = None
    target: str | None = None
    expiry_ms: int | None = None


NO_PREVIOUS: Final = Previous()


def previous_annotations(section: bytes) -> Previous:
    """Reads an encoded delivery annotations section (or b""); a wrong type is INVALID_FIELD (RA-2.3-2, -13)."""
    if b"response-" not in section:
        return NO_PREVIOUS
    return Previous(
        typed_entry(section, REQUEST_COOKIE, bytes),
        typed_entry(section, REQUEST_TARGET, str),
        typed_entry(section, REQUEST_EXPIRY, Timestamp),
    )


def typed_entry(section: bytes, name: str, kind: type[T]) -> T | None:
    """The value of one annotation, or None; null is a wrong type like any other."""
    encoded = map_entry(section, name)
    if encoded is None:
        return None
    value: T = decode_all(encoded)
    if type(value) is not kind:
        raise AmqpError(
            INVALID_FIELD,
            f"delivery annotation {name} has a wrong type",
            info={"field": Symbol(name)},
        )
    return value
