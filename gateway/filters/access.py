"""How a filter gets at the fields it names: the contract of a source, and encoded messages as one (FX-2-3).

A source is whatever a filter is asked about: an encoded message here, a Kafka record in `bridges.kafka`. An `Access`
makes, once for each filter, the function that reads just the fields this filter names; per message nothing but that
function is called. The header's defaults apply here (FX-4-4), and data sections cannot be read at all (FX-2-4).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from gateway.amqp.codec import Ubyte, Uint, malformed, skip
from gateway.amqp.decoder import LIMITS, READERS
from gateway.amqp.layout import AMQP_VALUE, Layout, descriptor, opened
from gateway.errors import AmqpError
from gateway.filters.predicate import Section

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)
Reader = Callable[[S], Sequence[Any]]
Encoded = tuple[bytes, Layout]
"""A message as it is on the wire, and where its sections are."""


class Absent:
    """What a field is that is not there: like null to everything but `Exists` and the maps of property filters."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()

MALFORMED: Final = (AmqpError, IndexError, struct.error, UnicodeDecodeError)
"""What a reader may raise for bytes that cannot be decoded: then the message matches no filter that asked for them."""

PROPERTIES: Final = (
    "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
    "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id",
)  # fmt: skip
"""The fields of the properties section in their order (AMQP 3.2.4)."""
HEADER: Final = ("durable", "priority", "ttl", "first-acquirer", "delivery-count")
"""The fields of the header in their order (AMQP 3.2.1)."""
HEADER_DEFAULTS: Final = {"durable": False, "priority": Ubyte(4), "first-acquirer": False, "delivery-count": Uint(0)}
"""What absent and null fields of the header stand for."""


class Access(Generic[S]):
    """Reads the fields of one kind of source."""

    def reader(self, section: Section, names: tuple[str, ...]) -> Reader[S]:
        """A function that gives the fields `names` of `section`, in this order, `ABSENT` for what is not there.

        Values are the codec's, with their AMQP types. Where the section has the key as string and as symbol, the
        first counts. In header and properties null is absent, too, and the header's defaults apply. The function may
        raise `MALFORMED`.
        """
        raise NotImplementedError


class MessageAccess(Access[Encoded]):
    """Encoded messages: finds the fields without decoding the others."""

    def reader(self, section: Section, names: tuple[str, ...]) -> Reader[Encoded]:
        if section is Section.HEADER:
            return _list_reader(0, HEADER, HEADER_DEFAULTS, names)
        if section is Section.PROPERTIES:
            return _list_reader(4, PROPERTIES, {}, names)
        if section is Section.AMQP_VALUE:
            return _value_reader(names)
        if section is Section.AMQP_SEQUENCE:  # FX-5-24: there is no way to name what is in it
            return _nothing(names)
        return _map_reader(_MAPS[section], names)


_MAPS: Final = {
    Section.DELIVERY_ANNOTATIONS: 1,
    Section.MESSAGE_ANNOTATIONS: 2,
    Section.APPLICATION_PROPERTIES: 5,
    Section.FOOTER: 7,
}
"""The index in `Layout` at which each section of this kind starts; the next one is where it ends."""
_STRINGS8: Final = (0xA1, 0xA3)
_STRINGS32: Final = (0xB1, 0xB3)
_DEPTH: Final = LIMITS.depth - 1


def _nothing(names: tuple[str, ...]) -> Reader[Encoded]:
    values = (ABSENT,) * len(names)
    return lambda source: values


def _list_reader(
    place: int, order: tuple[str, ...], defaults: dict[str, Any], names: tuple[str, ...]
) -> Reader[Encoded]:
    """For header and properties: skips to the fields, decodes only them."""
    slots = {order.index(name): slot for slot, name in enumerate(names) if name in order}
    last = max(slots, default=-1)
    blank = [defaults.get(name, ABSENT) for name in names]

    def read(source: Encoded) -> Sequence[Any]:
        data, layout = source
        start = layout[place]
        if start == layout[place + 1]:
            return blank
        values = blank.copy()
        position, end, count = opened(data, start)
        for index in range(min(count, last + 1)):
            slot = slots.get(index)
            if slot is None or data[position] == 0x40:
                position = skip(data, position)
            else:
                values[slot], position = READERS[data[position]](data, position + 1, _DEPTH)
        if position > end:
            raise malformed("fields do not fill their section")
        return values

    return read


def _map_reader(place: int, names: tuple[str, ...]) -> Reader[Encoded]:
    """For maps: walks over the entries until all names are found, decodes only theirs."""
    slots = {name.encode("utf-8", "surrogatepass"): slot for slot, name in enumerate(names)}
    blank: list[Any] = [ABSENT] * len(names)

    def read(source: Encoded) -> Sequence[Any]:
        data, layout = source
        start = layout[place]
        if start == layout[place + 1]:
            return blank
        return _entries(data, opened(data, start), slots, blank.copy())

    return read


def _value_reader(names: tuple[str, ...]) -> Reader[Encoded]:
    """For a body that is one value: the entries of a map; nothing of any other value."""
    slots = {name.encode("utf-8", "surrogatepass"): slot for slot, name in enumerate(names)}
    blank: list[Any] = [ABSENT] * len(names)

    def read(source: Encoded) -> Sequence[Any]:
        data, layout = source
        if layout.body == layout.footer:
            return blank
        code, position = descriptor(data, layout.body)
        if code != AMQP_VALUE or data[position] not in (0xC1, 0xD1):
            return blank
        return _entries(data, opened(data, layout.body), slots, blank.copy())

    return read


def _entries(data: bytes, extent: tuple[int, int, int], slots: dict[bytes, int], values: list[Any]) -> list[Any]:
    position, end, _ = extent
    left = len(slots)
    while position < end:
        form = data[position]
        if form in _STRINGS8:
            after = position + 2 + data[position + 1]
            slot = slots.get(data[position + 2 : after])
        else:
            after = skip(data, position)
            slot = slots.get(data[position + 5 : after]) if form in _STRINGS32 else None
        if slot is None or values[slot] is not ABSENT:
            position = skip(data, after)
            continue
        values[slot], position = READERS[data[after]](data, after + 1, _DEPTH)
        left -= 1
        if not left:
            break
    if position > end:
        raise malformed("entries do not fill their section")
    return values
