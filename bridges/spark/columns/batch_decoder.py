"""Decodes many messages of one shape at once, in C (`_decode.c`).

The messages are in one buffer, one after the other. The shape becomes a program of steps, which C takes through each
message. A message that differs from the shape, or whose sizes are inconsistent, is left out; the caller decodes it by
itself. In the others every byte was checked, except the characters of texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bridges.spark.columns import _decode
from bridges.spark.columns.message_shape import BINARY, NULL, MessageShape, ShapeEntry, ShapeKind
from gateway.amqp.message import sections

if TYPE_CHECKING:
    from bridges.spark.columns._decode import Found

Bools: TypeAlias = NDArray[np.bool_]
Int64s: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = Int64s | NDArray[np.float64] | Bools
Step: TypeAlias = tuple[object, ...]
_SECTION: Final = b"\x00\x53"
_LIST, _MAP = 0xC0, 0xC1
_FORMS: Final = {
    "text": _decode.BINARY,
    "binary": _decode.BINARY,
    "uuid": _decode.BINARY,
    "boolean": _decode.BOOLEAN,
    "double": _decode.DOUBLE,
    None: _decode.NOTHING,
}
_NUMBERS: Final[dict[int, type[np.generic]]] = {_decode.DOUBLE: np.float64}


class Column(NamedTuple):
    """One value per message: numbers, or the positions of a text, binary or uuid; `missing` values are null."""

    kind: ShapeKind
    numbers: Numbers | None = None
    starts: Int64s | None = None
    ends: Int64s | None = None
    missing: Bools | None = None

    def at(self, rows: Int64s) -> Column:
        """The column of these messages only."""
        return Column(
            self.kind,
            None if self.numbers is None else self.numbers[rows],
            None if self.starts is None else self.starts[rows],
            None if self.ends is None else self.ends[rows],
            None if self.missing is None else self.missing[rows],
        )

    @property
    def places(self) -> tuple[Int64s, Int64s]:
        """Where the bytes of a text, binary or uuid begin and end in the buffer."""
        assert self.starts is not None
        assert self.ends is not None, "only numbers have no places"
        return self.starts, self.ends


class DecodedBatch(NamedTuple):
    """The columns of the messages that have the shape; `rows` are their numbers."""

    rows: Int64s
    header: tuple[Column, ...] | None
    delivery_annotations: tuple[Column, ...] | None
    message_annotations: tuple[Column, ...] | None
    bare: Int64s
    """Where the bare message starts."""
    properties: tuple[Column, ...] | None
    application_properties: tuple[Column, ...] | None
    body: Int64s
    """Where the body starts."""
    value: Column | None
    """The content of a data section, or an amqp-value."""
    body_end: Int64s
    footer: tuple[Column, ...] | None


class MessageBuffer:
    """Encoded messages in one buffer."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.buffer: Final = b"".join(messages)
        self.octets: Final = np.frombuffer(self.buffer, dtype=np.uint8)
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        self.ends: Final = np.cumsum(sizes)
        self.starts: Final = self.ends - sizes

    def read(self, shape: MessageShape, rows: Int64s) -> DecodedBatch:
        """Decode the messages with numbers `rows` that have this shape."""
        mask, found = _decode.decode(self.buffer, self.starts, self.ends, rows, _program(shape))
        fits = np.frombuffer(mask, bool)
        return _Columns(shape, found, rows, None if fits.all() else np.flatnonzero(fits)).batch()


class _Columns:
    """The results of a program by the parts of its shape; `fit`: the rows that have the shape, if not all have it."""

    def __init__(self, shape: MessageShape, found: Sequence[Found], rows: Int64s, fit: Int64s | None) -> None:
        self._shape, self._found, self._rows, self._fit = shape, iter(found), rows, fit

    def batch(self) -> DecodedBatch:
        shape, fit = self._shape, self._fit
        return DecodedBatch(
            self._rows if fit is None else self._rows[fit],
            self._fields(shape.header),
            self._entries(shape.delivery_annotations),
            self._entries(shape.message_annotations),
            self._place(),
            self._fields(shape.properties),
            self._entries(shape.application_properties),
            self._place(),
            None if (content := _content(shape)) is None else self._column(content),
            self._place(),
            self._entries(shape.footer),
        )

    def _fields(self, kinds: Sequence[ShapeKind] | None) -> tuple[Column, ...] | None:
        return None if kinds is None else tuple(map(self._column, kinds))

    def _entries(self, entries: Sequence[ShapeEntry] | None) -> tuple[Column, ...] | None:
        return None if entries is None else tuple(self._column(entry.kind) for entry in entries)

    def _place(self) -> Int64s:
        places, _, _ = next(self._found)
        assert places is not None, "a MARK has places"
        found = np.frombuffer(places, np.int64)
        return found if self._fit is None else found[self._fit]

    def _column(self, kind: ShapeKind) -> Column:
        first, ends, missing = next(self._found)
        absent = None if missing is None else np.frombuffer(missing, bool)
        if ends is not None and first is not None:
            column = Column(kind, None, np.frombuffer(first, np.int64), np.frombuffer(ends, np.int64), absent)
        else:
            column = Column(kind, None if first is None else _numbers(kind, first), missing=absent)
        return column if self._fit is None else column.at(self._fit)


def _numbers(kind: ShapeKind, raw: bytes) -> Numbers:
    form = _form(kind)
    if form == _decode.BOOLEAN:
        return np.frombuffer(raw, np.int64).astype(bool)
    return np.frombuffer(raw, _NUMBERS.get(form, np.int64))


# -- programs


@lru_cache(maxsize=64)
def _program(shape: MessageShape) -> tuple[Step, ...]:
    return tuple(_steps(shape))


def _steps(shape: MessageShape) -> Iterator[Step]:
    """The steps through a message; `_Columns` reads the results of each MARK and VALUE in this order."""
    yield from _fields(sections.HEADER, shape.header)
    yield from _entries(sections.DELIVERY_ANNOTATIONS, shape.delivery_annotations)
    yield from _entries(sections.MESSAGE_ANNOTATIONS, shape.message_annotations)
    yield (_decode.MARK,)
    yield from _fields(sections.PROPERTIES, shape.properties)
    yield from _entries(sections.APPLICATION_PROPERTIES, shape.application_properties)
    yield (_decode.MARK,)
    if (content := _content(shape)) is not None:
        yield _decode.EXPECT, _SECTION + bytes((shape.body,))
        yield _value(content, nullable=shape.body == sections.AMQP_VALUE)
    yield (_decode.MARK,)
    yield from _entries(sections.FOOTER, shape.footer)


def _content(shape: MessageShape) -> ShapeKind | None:
    """The type of what is in the body, if there is one."""
    return None if shape.body == 0 else shape.value or BINARY


def _fields(code: int, kinds: Sequence[ShapeKind] | None) -> Iterator[Step]:
    if kinds is not None:
        yield from _opened(code, _LIST, len(kinds))
        yield from map(_value, kinds)
        yield (_decode.CLOSE,)


def _entries(code: int, entries: Sequence[ShapeEntry] | None) -> Iterator[Step]:
    if entries is not None:
        yield from _opened(code, _MAP, 2 * len(entries))
        for entry in entries:
            yield _decode.EXPECT, entry.key
            yield _value(entry.kind)
        yield (_decode.CLOSE,)


def _opened(code: int, form: int, count: int) -> Iterator[Step]:
    yield _decode.EXPECT, _SECTION + bytes((code,))
    yield _decode.OPEN, form, count


def _value(kind: ShapeKind, nullable: bool = True) -> Step:
    return _decode.VALUE, _form(kind), kind.widths, nullable and kind is not NULL


def _form(kind: ShapeKind) -> int:
    return _FORMS.get(kind.member, _decode.SIGNED if kind.signed else _decode.UNSIGNED)
