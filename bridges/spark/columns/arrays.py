"""Arrow arrays of messages that were decoded together (`batch_decoder`).

The buffers of texts and binaries are made in C, from the positions of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from typing import Final

import numpy as np
import pyarrow as pa

from bridges.spark.columns import schema
from bridges.spark.columns._decode import interleave
from bridges.spark.columns.batch_decoder import Bools, Column, DecodedBatch, Int64s, MessageBuffer
from bridges.spark.columns.message_shape import MessageShape, ShapeEntry
from bridges.spark.columns.value_arrays import TYPES, VALUE
from gateway.amqp.message import sections

BODY_KINDS: Final = {
    0: "none",
    sections.DATA: "data",
    sections.AMQP_SEQUENCE: "amqp-sequence",
    sections.AMQP_VALUE: "amqp-value",
}


class NotText(Exception):
    """A string is not UTF-8, or a symbol not ASCII: decode these messages one by one."""


def arrays(
    messages: MessageBuffer, shape: MessageShape, found: DecodedBatch, wanted: Collection[str]
) -> dict[str, pa.Array]:
    """The columns with these names, of those of `schema.COLUMNS` that are from the message itself. Raises `NotText`.

    A name may also be that of an entry of a section with annotations, as `schema.promoted` has it: its values as one
    column, null in messages without the entry.
    """
    try:
        return _Arrays(messages, found).all(shape, wanted)
    except pa.ArrowInvalid:
        raise NotText from None


class _Arrays:
    def __init__(self, messages: MessageBuffer, found: DecodedBatch) -> None:
        self._buffer: Final = messages.buffer
        self._octets: Final = messages.octets
        self._found: Final = found
        self._starts: Final = messages.starts[found.rows]
        self._ends: Final = messages.ends[found.rows]
        self._count: Final = len(found.rows)

    def all(self, shape: MessageShape, wanted: Collection[str]) -> dict[str, pa.Array]:
        found = self._found
        sections_of = {
            "delivery_annotations": (shape.delivery_annotations, found.delivery_annotations),
            "message_annotations": (shape.message_annotations, found.message_annotations),
            "application_properties": (shape.application_properties, found.application_properties),
            "body_fields": (None, None),
            "footer": (shape.footer, found.footer),
        }
        makers: dict[str, Callable[[], pa.Array]] = {
            "header": lambda: self._struct("header", found.header),
            "properties": lambda: self._struct("properties", found.properties),
            "body_kind": lambda: pa.repeat(BODY_KINDS[shape.body], self._count),
            "body": lambda: self._body(shape),
            "body_value": lambda: self._body_value(shape),
            "head": lambda: self._cut(self._starts, found.bare),
            "bare_message": lambda: self._cut(found.bare, self._ends),
            "not_shown": lambda: self._nulls(TYPES["array<string>"]),
            **{name: partial(self._entries, *each) for name, each in sections_of.items()},
        }
        columns = {name: make() for name, make in makers.items() if name in wanted}
        for name in set(wanted).difference(makers, schema.COLUMNS):
            section, _, entry = name.partition(".")
            columns[name] = self._entry(*sections_of[section], entry)
        return columns

    def _nulls(self, kind: pa.DataType) -> pa.Array:
        return pa.nulls(self._count, kind)

    def _body(self, shape: MessageShape) -> pa.Array:
        found = self._found
        if found.value is None:
            return self._nulls(pa.binary())
        return self._cut(*(found.value.places if shape.body == sections.DATA else (found.body, found.body_end)))

    def _body_value(self, shape: MessageShape) -> pa.Array:
        value = self._found.value
        return self._nulls(VALUE) if value is None or shape.body == sections.DATA else self._values([value])

    def _cut(self, starts: Int64s, ends: Int64s) -> pa.Array:
        """The bytes between these positions of the buffer."""
        valid, offsets, content, _ = interleave(self._buffer, self._count, ((starts, ends, None),))
        return _array(pa.binary(), self._count, valid, offsets, content)

    # -- sections

    def _struct(self, name: str, found: Sequence[Column] | None) -> pa.Array:
        kind = STRUCTS[name]
        if found is None:
            return self._nulls(kind)
        children = []
        for index, field in enumerate(kind):
            column = found[index] if index < len(found) else None
            children.append(self._field(column, field.type))
        return pa.StructArray.from_arrays(children, fields=list(kind))

    def _field(self, column: Column | None, kind: pa.DataType) -> pa.Array:
        if column is None or column.kind.member is None:
            return self._nulls(kind)
        if kind == VALUE:
            return self._values([column], column.missing)
        if column.numbers is not None:
            return pa.array(column.numbers, mask=column.missing).cast(kind)
        return self._texts([column], [column], kind)

    def _entries(self, entries: Sequence[ShapeEntry] | None, found: Sequence[Column] | None) -> pa.Array:
        width = 0 if found is None else len(found)
        ends = np.arange(self._count + 1, dtype=np.int32) * width
        names = _repeated(tuple(entry.name for entry in entries or ()), self._count)
        return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), names, self._values(found or ()))

    def _entry(self, entries: Sequence[ShapeEntry] | None, found: Sequence[Column] | None, name: str) -> pa.Array:
        """The values of one entry."""
        for entry, column in zip(entries or (), found or (), strict=True):
            if entry.name == name:
                return self._values([column])
        return self._nulls(VALUE)

    # -- values

    def _values(self, found: Sequence[Column], absent: Bools | None = None) -> pa.Array:
        """One value of each column for each message, message by message."""
        total = self._count * len(found)
        members = {name: [each for each in found if each.kind.member == name] for name in schema.MEMBERS}
        children = [self._types(found)]
        for name, kind in ((field.name, field.type) for field in list(VALUE)[1:]):
            group = members[name]
            if not group or name == "decimal":
                children.append(pa.nulls(total, kind))
            elif group[0].numbers is not None:
                children.append(self._numbers(found, group, kind))
            elif name == "uuid":
                children.append(self._uuids(found, group))
            else:
                children.append(self._texts(found, group, kind))
        mask = None if absent is None else pa.array(absent)
        return pa.StructArray.from_arrays(children, fields=list(VALUE), mask=mask)

    def _types(self, found: Sequence[Column]) -> pa.Array:
        names = tuple(each.kind.name for each in found)
        without_nulls = _repeated(names, self._count)
        if all(each.missing is None for each in found):
            return without_nulls
        kinds = np.tile(np.arange(len(names), dtype=np.int8), (self._count, 1))
        for index, each in enumerate(found):
            if each.missing is not None:
                kinds[each.missing, index] = len(names)
        return pa.array([*names, "null"]).take(pa.array(kinds.reshape(-1)))

    def _numbers(self, found: Sequence[Column], group: Sequence[Column], kind: pa.DataType) -> pa.Array:
        assert group[0].numbers is not None
        values = np.zeros((self._count, len(found)), group[0].numbers.dtype)
        absent = np.ones((self._count, len(found)), bool)
        for index, each in enumerate(found):
            if each.numbers is not None and any(each is one for one in group):
                values[:, index] = each.numbers
                absent[:, index] = False if each.missing is None else each.missing
        return pa.array(values.reshape(-1), kind, mask=absent.reshape(-1))

    def _texts(self, found: Sequence[Column], group: Sequence[Column], kind: pa.DataType) -> pa.Array:
        """Texts or binaries of some columns, at their places among all columns; checks that text is UTF-8."""
        total = self._count * len(found)
        pieces = tuple((*each.places, each.missing) if any(each is one for one in group) else None for each in found)
        valid, offsets, content, ascii_only = interleave(self._buffer, self._count, pieces)
        if ascii_only or kind != pa.string():
            return _array(kind, total, valid, offsets, content)
        if any(each.kind.name == "symbol" and not self._ascii(each) for each in group):
            raise NotText
        return _array(pa.binary(), total, valid, offsets, content).cast(kind)

    def _ascii(self, column: Column) -> bool:
        *_, ascii_only = interleave(self._buffer, self._count, ((*column.places, column.missing),))
        return ascii_only

    def _uuids(self, found: Sequence[Column], group: Sequence[Column]) -> pa.Array:
        texts = np.zeros((self._count, len(found), 36), np.uint8)
        absent = np.ones((self._count, len(found)), bool)
        for index, each in enumerate(found):
            if any(each is one for one in group):
                rows = np.arange(self._count) if each.missing is None else np.flatnonzero(~each.missing)
                raw = self._octets[each.places[0][rows, None] + np.arange(16)]
                texts[rows, index] = _HEXADECIMAL[raw].reshape(len(rows), 32)[:, _DIGITS]
                texts[:, index, _HYPHENS] = ord("-")
                absent[rows, index] = False
        edges = np.arange(0, texts.size + 1, 36, dtype=np.int32)
        whole = pa.Array.from_buffers(pa.string(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(texts)])
        return whole.take(pa.array(np.arange(len(edges) - 1), mask=absent.reshape(-1)))


_HEXADECIMAL: Final = np.array([list(b"%02x" % octet) for octet in range(256)], np.uint8)
_HYPHENS: Final = [8, 13, 18, 23]
_DIGITS: Final = [0 if place in _HYPHENS else place - sum(each < place for each in _HYPHENS) for place in range(36)]
STRUCTS: Final = {
    name: pa.struct([pa.field(field, TYPES[kind]) for field, kind in fields.items()])
    for name, fields in (("header", schema.HEADER), ("properties", schema.PROPERTIES))
}


@lru_cache(maxsize=32)
def _repeated(texts: tuple[str, ...], count: int) -> pa.Array:
    """The same texts for each message; batches of a stream have the same names and often the same size."""
    return pa.array(texts, pa.string()).take(pa.array(np.tile(np.arange(len(texts)), count)))


def _array(kind: pa.DataType, count: int, valid: bytes | None, offsets: bytes, content: bytes) -> pa.Array:
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, count, buffers)
