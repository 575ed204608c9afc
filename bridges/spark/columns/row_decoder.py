"""Decodes messages to columns one by one, for messages that `batch_decoder` does not decode (docs/columns.md).

It accepts every message: `not_shown` names the sections whose values columns cannot show, and `head` and `bare_message`
always contain every byte. Values are collected per column and become arrays at the end, which adds little to the cost
of decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias
from uuid import UUID

import pyarrow as pa

from bridges.spark.columns import schema
from bridges.spark.columns.arrays import BODY_KINDS, STRUCTS
from bridges.spark.columns.schema import DEPTH, ENTRIES_LIMIT, NAME_LIMIT
from bridges.spark.columns.value_arrays import COMPOSITES, TYPES, VALUE, EntryArrays, Values
from gateway.amqp.codec.codec import Array, Char, MapKey, Symbol, Timestamp, Ubyte, Uint, Ulong
from gateway.amqp.codec.types import Value
from gateway.amqp.message import sections
from gateway.amqp.message.sections import SectionOffsets
from gateway.errors import AmqpError
from gateway.filters.predicate import MessageSection

AmqpMap: TypeAlias = dict[Value, Value]
Fields: TypeAlias = Sequence[Value]
"""Fields of the header or the properties in the order of the specification; trailing ones may be left out."""
FixedSection: TypeAlias = Callable[[bytes, SectionOffsets], tuple[Fields | None, bool]]
"""Reads a section with fixed fields; returns the fields of the right types, and whether all types are right."""
MapSection: TypeAlias = Callable[[bytes, SectionOffsets], AmqpMap]
_MAPS: Final = (
    (MessageSection.DELIVERY_ANNOTATIONS, sections.delivery_annotations),
    (MessageSection.MESSAGE_ANNOTATIONS, sections.message_annotations),
    (MessageSection.APPLICATION_PROPERTIES, sections.application_properties),
    (MessageSection.FOOTER, sections.footer),
)
_HEADER_TYPES: Final = (bool, Ubyte, Uint, bool, Uint)
_ID: Final = (str, Ulong, UUID, bytes)
_PROPERTY_TYPES: Final = (
    _ID, (bytes,), (str,), (str,), (str,), _ID, (Symbol,), (Symbol,), (Timestamp,), (Timestamp,), (str,), (Uint,),
    (str,),
)  # fmt: skip
_HEADER: Final = STRUCTS["header"]
_PROPERTIES: Final = STRUCTS["properties"]
_PLAIN: Final = {
    name: TYPES[schema.COLUMNS[name]]
    for name in ("head", "bare_message", "body_kind", "body", "body_value", "not_shown")
}
"""Columns whose values are stored unchanged."""

# -- nested values


class _TooMuch(Exception):
    """There are more nested values than columns show."""


def _text_entries(value: AmqpMap) -> tuple[dict[str, Value], bool]:
    """The entries with text keys, and whether any is hidden: a string hides a symbol that is equal to it."""
    found: dict[str, Value] = {}
    hidden = False
    for key, item in value.items():
        name = key.value if isinstance(key, MapKey) else key
        if not isinstance(name, str):
            continue
        hidden = hidden or name in found or type(name) is Char
        if name not in found or type(name) is str:
            found[str(name)] = item
    return found, hidden


class _Nested:
    """The nested entries of one section of one message, within the limits of `schema`."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Value]] = []
        self.complete = True

    def below(self, name: str, value: Value, depth: int = DEPTH) -> None:
        """Add everything below the entry `name`. Raises `_TooMuch`."""
        for step, item in self._steps(value):
            path = name + step
            if depth == 0 or len(self.found) == ENTRIES_LIMIT or len(path) > NAME_LIMIT:
                raise _TooMuch
            self.found.append((path, item))
            if type(item) in _COMPOSITE:
                self.below(path, item, depth - 1)

    def _steps(self, value: Value) -> Iterator[tuple[str, Value]]:
        if type(value) is dict:
            entries, hidden = _text_entries(value)
            self.complete = self.complete and not hidden
            return ((f".{schema.step(key)}", item) for key, item in entries.items())
        items = value.items if type(value) is Array else value
        return ((f"[{index}]", item) for index, item in enumerate(items))


_COMPOSITE: Final = frozenset((list, dict, Array))
_TEXT_KEYS: Final = frozenset((str, Symbol))
_simple_name: Final = lru_cache(maxsize=1024)(schema.step)
"""Cached: there are few names of annotations, which are in every message."""


# -- messages


class RowDecoder:
    """Collects messages, and makes their columns at the end."""

    def __init__(self) -> None:
        self._plain: dict[str, list[Value]] = {name: [] for name in _PLAIN}
        self._entries = {section: EntryArrays() for section, _ in _MAPS} | {MessageSection.AMQP_VALUE: EntryArrays()}
        self._header: list[Fields | None] = []
        self._properties: list[Fields | None] = []
        self._marks: list[str] = []

    def add(self, data: bytes) -> None:
        """Append a message."""
        plain = self._plain
        self._marks = []
        try:
            layout = sections.walk(data)
        except AmqpError:  # not decodable: all bytes are the bare message, and every section is marked
            layout = SectionOffsets(0, 0, 0, 0, 0, 0, 0, 0, 0)
            self._marks = [*schema.SECTIONS.values(), "body"]
        plain["head"].append(data[: layout.bare])
        plain["bare_message"].append(data[layout.bare :])
        self._header.append(self._fixed("header", _header, data, layout))
        self._properties.append(self._fixed("properties", _properties, data, layout))
        for section, read in _MAPS:
            self._map(section, read, data, layout)
        self._body(data, layout)
        plain["not_shown"].append(self._marks or None)

    def _fixed(self, name: str, read: FixedSection, data: bytes, layout: SectionOffsets) -> Fields | None:
        try:
            found, typed = read(data, layout)
        except AmqpError:
            self._marks.append(name)
            return None
        if not typed:
            self._marks.append(f"{name}.*")
        return found

    def _map(
        self, section: MessageSection, read: MapSection, data: bytes, layout: SectionOffsets
    ) -> None:
        entries = self._entries[section]
        try:
            found = read(data, layout)
        except AmqpError:
            self._marks.append(schema.SECTIONS[section])
            found = {}
        if found:
            self._fill(section, found, entries)
        entries.end()

    def _fill(self, section: MessageSection, found: AmqpMap, entries: EntryArrays) -> None:
        if _TEXT_KEYS.issuperset(map(type, found)):
            application = section is MessageSection.APPLICATION_PROPERTIES
            names = found if application else map(_simple_name, found)
            if entries.add_plain(names, found.values()):
                return
        seen: set[str] = set()
        composite = []
        for key, value in found.items():
            name = key.value if type(key) is MapKey else key
            if type(name) not in _TEXT_KEYS or name in seen:  # the first counts, as at the gateway
                continue
            seen.add(name)
            name = schema.entry(section, name)
            entries.add(name, value)
            if type(value) in _COMPOSITE:
                composite.append((name, value))
        if composite:
            self._nested(section, composite, entries)

    def _nested(self, section: MessageSection, composite: list[tuple[str, Value]], entries: EntryArrays) -> None:
        nested = _Nested()
        try:
            if section is MessageSection.APPLICATION_PROPERTIES:
                raise _TooMuch
            for name, value in composite:
                nested.below(name, value)
        except _TooMuch:
            self._marks.append(f"{schema.SECTIONS[section]}.*")
            return
        for name, value in nested.found:
            entries.add(name, value)
        if not nested.complete:
            self._marks.append(f"{schema.SECTIONS[section]}.*")

    def _body(self, data: bytes, layout: SectionOffsets) -> None:
        plain = self._plain
        kind, value, body = 0, None, None
        fields: AmqpMap = {}
        try:
            kind = sections.body_kind(data, layout)
            values = sections.body_values(data, layout)
            body = b"".join(values) if kind == sections.DATA else data[layout.body : layout.footer] if kind else None
            value = values[0] if kind == sections.AMQP_VALUE else None
            fields = value if type(value) is dict else fields
        except AmqpError:
            self._marks += ["body", "body_fields"]
        plain["body_kind"].append(BODY_KINDS[kind])
        plain["body"].append(body)
        plain["body_value"].append((kind == sections.AMQP_VALUE, value))
        entries = self._entries[MessageSection.AMQP_VALUE]
        if fields:
            self._fill(MessageSection.AMQP_VALUE, fields, entries)
        entries.end()

    def arrays(self) -> dict[str, pa.Array]:
        """The columns of all messages that were added."""
        plain = self._plain
        return {
            "header": _structs(self._header, _HEADER),
            "properties": _structs(self._properties, _PROPERTIES),
            **{schema.SECTIONS[section]: entries.array() for section, entries in self._entries.items()},
            **{name: pa.array(plain[name], kind) for name, kind in _PLAIN.items() if kind != VALUE},
            "body_value": _optional_values(plain["body_value"]),
        }


def _header(data: bytes, layout: SectionOffsets) -> tuple[Fields | None, bool]:
    if layout.header == layout.da:
        return None, True
    fields = sections.header(data, layout)[: len(_HEADER_TYPES)]
    typed = [value is None or type(value) is kind for value, kind in zip(fields, _HEADER_TYPES, strict=False)]
    return [value if right else None for value, right in zip(fields, typed, strict=True)], all(typed)


def _properties(data: bytes, layout: SectionOffsets) -> tuple[Fields | None, bool]:
    if layout.properties == layout.app:
        return None, True
    view = sections.properties(data, layout)
    fields = [view.value(index) for index in range(len(_PROPERTY_TYPES))]
    typed = [value is None or type(value) in kinds for value, kinds in zip(fields, _PROPERTY_TYPES, strict=True)]
    return [value if right else None for value, right in zip(fields, typed, strict=True)], all(typed)


def _structs(rows: list[Fields | None], kind: pa.StructType) -> pa.Array:
    """A column of structs from fields in order; `None` for a section that is absent."""
    children = []
    for index, field in enumerate(kind):
        items = [None if row is None or index >= len(row) else row[index] for row in rows]
        values = field.type == VALUE
        children.append(
            _optional_values([(item is not None, item) for item in items]) if values else pa.array(items, field.type)
        )
    absent = pa.array([row is None for row in rows], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=absent)


def _optional_values(rows: list[tuple[bool, Value]]) -> pa.Array:
    """Values, null if absent; a composite value has only its type, since its bytes are in `body`."""
    values = Values()
    for _, value in rows:
        if type(value) in COMPOSITES:
            values.add_type(value)
        else:
            values.add(value)
    return values.array(pa.array([not there for there, _ in rows], pa.bool_()))
