"""Event attributes as the fields of a filter's predicate (CE 3.2.3.1); all values are strings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridges.cloudevents.events.event import CloudEvent
from gateway.amqp.codec.codec import Value
from gateway.filters.evaluate.access import ABSENT, Access, Entries, Reader, Slotted
from gateway.filters.predicate import FieldReference, MessageSection

CONTENT_TYPE: Final = "datacontenttype"
"""The attribute that becomes the event's content type, and is not in `attributes`."""
_SECTION: Final = MessageSection.APPLICATION_PROPERTIES


def attribute(name: str) -> FieldReference:
    """The predicate field for this attribute: in the AMQP binding, attributes are application properties."""
    return FieldReference(_SECTION, name)


class AttributeAccess(Access[CloudEvent]):
    """Looks up event attributes by name."""

    def reader(self, section: MessageSection, names: tuple[str, ...]) -> Reader[CloudEvent]:
        """See `Access`."""
        if section is not _SECTION:
            nothing: Sequence[Value] = [ABSENT] * len(names)
            return lambda event: nothing
        if CONTENT_TYPE in names:
            return lambda event: [_value(event, name) for name in names]
        if len(names) == 1:
            (only,) = names
            return lambda event: (event.attributes.get(only, ABSENT),)

        def read(event: CloudEvent) -> Sequence[Value]:
            get = event.attributes.get
            return [get(name, ABSENT) for name in names]

        return read

    def entries(self, section: MessageSection) -> Entries[CloudEvent]:
        """See `Access`."""
        return _AttributeEntries() if section is _SECTION else super().entries(section)


ATTRIBUTES: Final = AttributeAccess()


def _value(event: CloudEvent, name: str) -> Value:
    if name == CONTENT_TYPE:
        return ABSENT if event.content_type is None or not event.attributes else event.content_type
    return event.attributes.get(name, ABSENT)


class _AttributeEntries:
    """Looks up attributes of a changing set of names: an event has few attributes, but filters may name many."""

    def __init__(self) -> None:
        self._slots: Final[dict[str, int]] = {}

    def add(self, name: str, slot: int) -> None:
        self._slots[name] = slot

    def remove(self, name: str) -> None:
        del self._slots[name]

    def read(self, event: CloudEvent, values: Slotted) -> None:
        slots, attributes = self._slots, event.attributes
        for name in slots.keys() & attributes.keys():
            values[slots[name]] = attributes[name]
        if CONTENT_TYPE in slots and attributes and event.content_type is not None:
            values[slots[CONTENT_TYPE]] = event.content_type

    def salvage(self, event: CloudEvent, values: Slotted) -> set[int]:
        self.read(event, values)
        return set()
