"""The sections of a message as filters name them, and the fields of those that have a fixed list (AMQP 3.2)."""

from __future__ import annotations

from typing import Final

from gateway.filters.access import HEADER, PROPERTIES
from gateway.filters.predicate import Section
from gateway.filters.values import Family

FIXED: Final = {Section.HEADER: HEADER, Section.PROPERTIES: PROPERTIES}
"""Sections that are lists of known fields."""

_ID: Final = (Family.TEXT, Family.INTEGER, Family.UUID, Family.BINARY)
FAMILIES: Final[dict[str, tuple[Family, ...]]] = {
    **dict.fromkeys(("durable", "first-acquirer"), (Family.BOOLEAN,)),
    **dict.fromkeys(("priority", "ttl", "delivery-count", "group-sequence"), (Family.INTEGER,)),
    **dict.fromkeys(("message-id", "correlation-id"), _ID),
    "user-id": (Family.BINARY,),
    **dict.fromkeys(("to", "subject", "reply-to", "group-id", "reply-to-group-id"), (Family.TEXT,)),
    **dict.fromkeys(("content-type", "content-encoding"), (Family.TEXT,)),
    **dict.fromkeys(("absolute-expiry-time", "creation-time"), (Family.TIME,)),
}
"""What each of these fields may be (AMQP 3.2.1, 3.2.4); an id's ulong matches any integer type (FX-4-8)."""

SHORT: Final = {
    "h": Section.HEADER,
    "d": Section.DELIVERY_ANNOTATIONS,
    "m": Section.MESSAGE_ANNOTATIONS,
    "p": Section.PROPERTIES,
    "a": Section.APPLICATION_PROPERTIES,
    "v": Section.AMQP_VALUE,
    "s": Section.AMQP_SEQUENCE,
    "f": Section.FOOTER,
}


def section(word: str) -> Section:
    """What `word` of an expression means: long or short, hyphen or underscore, any case (FX-5-19)."""
    word = word.lower()
    return SHORT[word] if word in SHORT else Section(word.replace("_", "-"))
