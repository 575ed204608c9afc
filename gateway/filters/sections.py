"""The sections of a message as filters name them, and the fields of those that have a fixed list (AMQP 3.2)."""

from __future__ import annotations

from typing import Final

from gateway.filters.access import HEADER, PROPERTIES
from gateway.filters.predicate import Section

FIXED: Final = {Section.HEADER: HEADER, Section.PROPERTIES: PROPERTIES}
"""Sections that are lists of known fields."""

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
