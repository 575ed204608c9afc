"""Reads the fields that a filter names: the protocol of sources, and its implementation for encoded messages (FX-2-3).

Filters are evaluated on sources: encoded messages here, Kafka records in `bridges.kafka`. For each filter, an `Access`
creates a function that reads only the fields of this filter; for a message only that function is called. The defaults
of the header apply here (FX-4-4), and data sections cannot be read at all (FX-2-4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from gateway.amqp.codec.codec import Ubyte, Uint, Value
from gateway.filters.evaluate.readers import (
    ABSENT,
    Absent,
    Encoded,
    MapEntries,
    Slotted,
    list_reader,
    map_reader,
    value_reader,
)
from gateway.filters.evaluate.salvage import MALFORMED
from gateway.filters.predicate import MessageSection

__all__ = [
    "ABSENT", "HEADER", "HEADER_DEFAULTS", "MALFORMED", "PROPERTIES", "Absent", "Access", "Encoded", "Entries",
    "MessageAccess", "Reader", "Slotted",
]  # fmt: skip

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)
Reader = Callable[[S], Sequence[Value]]

PROPERTIES: Final = (
    "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
    "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id",
)  # fmt: skip
"""The fields of the properties section in their order (AMQP 3.2.4)."""
HEADER: Final = ("durable", "priority", "ttl", "first-acquirer", "delivery-count")
"""The fields of the header in their order (AMQP 3.2.1)."""
HEADER_DEFAULTS: Final = {"durable": False, "priority": Ubyte(4), "first-acquirer": False, "delivery-count": Uint(0)}
"""The values of absent and null fields of the header."""


class Entries(Protocol[S_contra]):
    """The fields of one section that a set of filters names; fields are added and removed one by one."""

    def add(self, name: str, slot: int) -> None:
        """Begin to read the field `name` into `slot`; the field must not be read already."""

    def remove(self, name: str) -> None:
        """Stop reading the field `name`."""

    def read(self, source: S_contra, values: Slotted) -> None:
        """Put the values of present fields into `values`, as `Access.reader` does; may raise `MALFORMED`."""

    def salvage(self, source: S_contra, values: Slotted) -> set[int]:
        """As `read`, for a malformed source: returns the slots of the fields that cannot be decoded."""


class FewEntries(Generic[S]):
    """`Entries` for a section with few fields: the reader is rebuilt after each change."""

    def __init__(self, reader: Callable[[tuple[str, ...]], Reader[S]]) -> None:
        """`reader`: as `Access.reader`, for one section."""
        self._reader: Final = reader
        self._slots: Final[dict[str, int]] = {}
        self._read: Reader[S] | None = None

    def add(self, name: str, slot: int) -> None:
        """See `Entries`."""
        self._slots[name] = slot
        self._read = None

    def remove(self, name: str) -> None:
        """See `Entries`."""
        del self._slots[name]
        self._read = None

    def read(self, source: S, values: Slotted) -> None:
        """See `Entries`."""
        read = self._read
        if read is None:
            read = self._read = self._reader(tuple(self._slots))
        values.update(zip(self._slots.values(), read(source), strict=True))

    def salvage(self, source: S, values: Slotted) -> set[int]:
        """See `Entries`."""
        bad: set[int] = set()
        for name, slot in self._slots.items():
            try:
                (values[slot],) = self._reader((name,))(source)
            except MALFORMED:
                bad.add(slot)
        return bad


class Access(ABC, Generic[S]):
    """Reads the fields of one kind of source."""

    @abstractmethod
    def reader(self, section: MessageSection, names: tuple[str, ...]) -> Reader[S]:
        """A function that returns the fields `names` of `section`, in this order, `ABSENT` for absent ones.

        Values have the codec's types. If a section has a name both as string and as symbol, the first one counts. In
        header and properties, null counts as absent, and the defaults of the header apply. The function may raise
        `MALFORMED`.
        """

    def entries(self, section: MessageSection) -> Entries[S]:
        """The same for fields that are added and removed; initially there are none."""
        return FewEntries(partial(self.reader, section))

    def prefilter(self, section: MessageSection, texts: tuple[bytes, ...]) -> Callable[[S], bool] | None:
        """A cheap test that passes every source with one of these texts in `section`; None if there is no such test.

        It saves reading the fields of most messages that do not match.
        """
        return None


class MessageAccess(Access[Encoded]):
    """Encoded messages: finds the fields without decoding the others."""

    def reader(self, section: MessageSection, names: tuple[str, ...]) -> Reader[Encoded]:
        if section in _LISTS:
            place, order, defaults = _LISTS[section]
            slots = {order.index(name): slot for slot, name in enumerate(names) if name in order}
            return list_reader(place, slots, [defaults.get(name, ABSENT) for name in names])
        if section is MessageSection.AMQP_VALUE:
            return value_reader(names)
        if section is MessageSection.AMQP_SEQUENCE:  # FX-5-24: a filter cannot name an item of a sequence
            return _nothing(names)
        return map_reader(_PLACES[section], names)

    def entries(self, section: MessageSection) -> Entries[Encoded]:
        """See `Access`."""
        if section is MessageSection.AMQP_VALUE:
            return MapEntries(None)
        if section in _PLACES and section not in _LISTS:
            return MapEntries(_PLACES[section])
        return super().entries(section)

    def prefilter(self, section: MessageSection, texts: tuple[bytes, ...]) -> Callable[[Encoded], bool] | None:
        place = _PLACES.get(section)
        if place is None:
            return None
        if len(texts) == 1:
            return _one_text(place, texts[0])

        def has(source: Encoded) -> bool:
            data, layout = source
            start, end = layout[place], layout[place + 1]
            return any(data.find(text, start, end) >= 0 for text in texts)

        return has


_PLACES: Final = {
    MessageSection.DELIVERY_ANNOTATIONS: 1,
    MessageSection.MESSAGE_ANNOTATIONS: 2,
    MessageSection.PROPERTIES: 4,
    MessageSection.APPLICATION_PROPERTIES: 5,
    MessageSection.AMQP_VALUE: 6,
    MessageSection.FOOTER: 7,
}
"""The index in `Layout` of the offset at which a section starts; it ends at the next offset."""
_LISTS: Final[dict[MessageSection, tuple[int, tuple[str, ...], dict[str, Value]]]] = {
    MessageSection.HEADER: (0, HEADER, HEADER_DEFAULTS),
    MessageSection.PROPERTIES: (4, PROPERTIES, {}),
}


def _nothing(names: tuple[str, ...]) -> Reader[Encoded]:
    values = (ABSENT,) * len(names)
    return lambda source: values


def _one_text(place: int, text: bytes) -> Callable[[Encoded], bool]:
    after = place + 1

    def has(source: Encoded) -> bool:
        data, layout = source
        return data.find(text, layout[place], layout[after]) >= 0

    return has
