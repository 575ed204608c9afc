"""The sections of a message as filters name them, and the fields of those that have a fixed list (AMQP 3.2)."""

from __future__ import annotations

from typing import Final

from gateway.filters.evaluate.access import HEADER, PROPERTIES
from gateway.filters.predicate import MessageSection
from gateway.filters.values import Family

FIXED: Final = {MessageSection.HEADER: HEADER, MessageSection.PROPERTIES: PROPERTIES}
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
"""The families of each of these fields (AMQP 3.2.1, 3.2.4); an id's ulong matches any integer type (FX-4-8)."""

SHORT: Final = {
    "h": MessageSection.HEADER,
    "d": MessageSection.DELIVERY_ANNOTATIONS,
    "m": MessageSection.MESSAGE_ANNOTATIONS,
    "p": MessageSection.PROPERTIES,
    "a": MessageSection.APPLICATION_PROPERTIES,
    "v": MessageSection.AMQP_VALUE,
    "s": MessageSection.AMQP_SEQUENCE,
    "f": MessageSection.FOOTER,
}


def section(word: str) -> MessageSection:
    """The section that `word` of an expression names: long or short, hyphen or underscore, any case (FX-5-19)."""
    word = word.lower()
    return SHORT[word] if word in SHORT else MessageSection(word.replace("_", "-"))
