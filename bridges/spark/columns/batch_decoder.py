"""Decodes many messages of one shape at once, with one numpy step per field for all of them.

The messages are in one buffer, one after the other, and a cursor has a position in each of them. A message that differs
from the shape, or whose sizes are inconsistent, is no longer `ok`; the caller decodes it by itself. In messages that
are `ok` at the end, every byte was checked, except the characters of texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bridges.spark.columns.message_shape import BINARY, NULL, MessageShape, ShapeEntry, ShapeKind
from gateway.amqp.message import sections

Bools: TypeAlias = NDArray[np.bool_]
Int64s: TypeAlias = NDArray[np.int64]
Octets: TypeAlias = NDArray[np.uint8]
Numbers: TypeAlias = Int64s | NDArray[np.float64] | Bools
RowSelection: TypeAlias = Bools | slice
Constructor: TypeAlias = tuple[int, int, Bools | None]
"""The code of a constructor, the width of its value, and the messages that have it; `None`: all."""
_NULL: Final = 0x40
_SECTION: Final = b"\x00\x53"
_TRUE, _BOOLEAN = 0x41, 0x56
_ARRAYS: Final[dict[str, type[np.generic]]] = {"boolean": np.bool_, "double": np.float64}
PADDING: Final = 4096
"""Bytes after the last message, because the cursor of a message that is not `ok` may be beyond its end."""


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
    """Where the body starts, and where it ends."""
    body_end: Int64s
    value: Column | None
    """The content of a data section, or an amqp-value."""
    footer: tuple[Column, ...] | None


class MessageBuffer:
    """Encoded messages in one buffer."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.buffer: Final = b"".join([*messages, bytes(PADDING)])
        self.octets: Final = np.frombuffer(self.buffer, dtype=np.uint8)
        self.words: Final = np.ndarray((len(self.buffer) - 7,), ">u8", self.buffer, strides=(1,))
        """The eight bytes from each position on."""
        self.ends: Final = np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)))
        self.starts: Final = self.ends - np.fromiter(map(len, messages), np.int64, len(messages))

    def read(self, shape: MessageShape, rows: Int64s) -> DecodedBatch:
        """Decode the messages with numbers `rows` that have this shape."""
        return _BatchDecoder(self, shape, rows).found()


class _BatchDecoder:
    def __init__(self, messages: MessageBuffer, shape: MessageShape, rows: Int64s) -> None:
        self._octets, self._words = messages.octets, messages.words
        self._shape, self._rows = shape, rows
        self._ends = messages.ends[rows]
        self._at = messages.starts[rows]
        self._limit = self._ends + 1
        self._ok = np.ones(len(rows), bool)

    def found(self) -> DecodedBatch:
        shape = self._shape
        header = self._fields(sections.HEADER, shape.header)
        da = self._map(sections.DELIVERY_ANNOTATIONS, shape.delivery_annotations)
        ma = self._map(sections.MESSAGE_ANNOTATIONS, shape.message_annotations)
        bare = self._at
        properties = self._fields(sections.PROPERTIES, shape.properties)
        app = self._map(sections.APPLICATION_PROPERTIES, shape.application_properties)
        body, value = self._at, self._body()
        body_end = self._at
        footer = self._map(sections.FOOTER, shape.footer)
        self._ok &= self._at == self._ends
        fit = np.flatnonzero(self._ok)
        whole = len(fit) == len(self._rows)

        def columns(group: list[Column] | None) -> tuple[Column, ...] | None:
            return None if group is None else tuple(each if whole else each.at(fit) for each in group)

        def places(found: Int64s) -> Int64s:
            return found if whole else found[fit]

        return DecodedBatch(
            places(self._rows), columns(header), columns(da), columns(ma), places(bare), columns(properties),
            columns(app), places(body), places(body_end), (columns(value) or (None,))[0], columns(footer),
        )  # fmt: skip

    # -- sections

    def _fields(self, code: int, kinds: Sequence[ShapeKind] | None) -> list[Column] | None:
        if kinds is None:
            return None
        end = self._opened(code, 0xC0, len(kinds))
        found = [self._value(kind) for kind in kinds]
        self._ok &= self._at == end
        return found

    def _map(self, code: int, entries: Sequence[ShapeEntry] | None) -> list[Column] | None:
        if entries is None:
            return None
        end = self._opened(code, 0xC1, 2 * len(entries))
        found = []
        for entry in entries:
            self._expect(entry.key)
            found.append(self._value(entry.kind))
        self._ok &= self._at == end
        return found

    def _body(self) -> list[Column] | None:
        shape = self._shape
        if shape.body == 0:
            return None
        self._expect(_SECTION + bytes((shape.body,)))
        if shape.value is not None:
            return [self._value(shape.value)]
        content = self._value(BINARY)
        if content.missing is not None:
            self._ok &= ~content.missing
        return [content]

    def _opened(self, code: int, form: int, count: int) -> Int64s:
        """Enter a list or map of `count` items; returns the position of its end."""
        self._expect(_SECTION + bytes((code,)))
        at = self._at
        head = self._words[at]
        small = head >> 56 == form
        if small.all():
            self._ok &= head >> 40 & 0xFF == count
            self._at = at + 3
            return at + 2 + (head >> 48 & 0xFF).astype(np.int64)
        self._ok &= small | (head >> 56 == form + 0x10)
        counted = np.where(small, head >> 40 & 0xFF, self._words[at + 1] & 0xFFFFFFFF)
        self._ok &= counted == count
        self._at = self._bounded(at + np.where(small, 3, 9))
        size = np.where(small, head >> 48 & 0xFF, head >> 24 & 0xFFFFFFFF).astype(np.int64)
        return at + np.where(small, 2, 5) + size

    def _bounded(self, places: Int64s) -> Int64s:
        """Limit cursors to one byte after the end of their message."""
        return np.minimum(places, self._limit)

    def _expect(self, raw: bytes) -> None:
        """Check that every message continues with these bytes, and skip them."""
        at, size = self._at, len(raw)
        for first in range(0, size, 8):
            part = raw[first : first + 8]
            word = self._words[at + first if first else at]
            if len(part) < 8:
                word = word >> (64 - 8 * len(part))
            self._ok &= word == int.from_bytes(part, "big")
        self._at = self._bounded(at + size)

    # -- values

    def _value(self, kind: ShapeKind) -> Column:
        codes = self._octets[self._at]
        constructors = list(self._split(codes, kind))
        if kind.member in ("text", "binary", "uuid"):
            return self._bytes(kind, constructors)
        return self._numbers(kind, constructors)

    def _split(self, codes: Octets, kind: ShapeKind) -> Iterator[Constructor]:
        """The constructors that occur."""
        for code, width in kind.widths:
            same = codes == code
            if same.all():
                yield code, width, None
                return
            if same.any():
                yield code, width, same
        if kind is not NULL:
            missing = codes == _NULL
            if missing.any():
                yield _NULL, 0, missing

    def _bytes(self, kind: ShapeKind, constructors: list[Constructor]) -> Column:
        at = self._at
        if len(constructors) == 1 and constructors[0][2] is None:
            _, width, _ = constructors[0]
            starts = at + (1 + max(-width, 0))
            ends = starts + self._size(at, width)
            self._leave(ends)
            return Column(kind, None, starts, self._at)
        heads, sizes = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
        known, missing = np.zeros(len(at), bool), None
        for code, width, mask in constructors:
            known |= mask
            missing = mask if code == _NULL else missing
            heads[mask] = 1 + max(-width, 0)
            sizes[mask] = self._size(at[mask], width)
        self._ok &= known
        starts = self._bounded(at + heads)
        self._leave(starts + sizes)
        return Column(kind, None, starts, self._at, missing)

    def _size(self, at: Int64s, width: int) -> Int64s | int:
        if width >= 0:
            return width
        if width == -1:
            return self._octets[at + 1].astype(np.int64)
        return (self._words[at + 1] >> 32).astype(np.int64)

    def _leave(self, ends: Int64s) -> None:
        self._ok &= ends <= self._ends
        self._at = self._bounded(ends)

    def _numbers(self, kind: ShapeKind, constructors: list[Constructor]) -> Column:
        at = self._at
        if len(constructors) == 1 and constructors[0][2] is None:
            code, width, _ = constructors[0]
            self._at = self._bounded(at + (1 + width))
            return Column(kind, self._number(kind, code, width, at, slice(None)))
        numbers: Numbers = np.zeros(len(at), _ARRAYS.get(kind.member or "", np.int64))
        steps, missing = np.zeros(len(at), np.int64), None
        for code, width, mask in constructors:
            assert mask is not None, "it is None only for the one constructor of all messages"
            steps[mask] = 1 + width
            if code == _NULL:
                missing = mask
            else:
                numbers[mask] = self._number(kind, code, width, at[mask], mask)
        self._ok &= steps > 0
        self._at = self._bounded(at + steps)
        return Column(kind, numbers, missing=missing)

    def _number(self, kind: ShapeKind, code: int, width: int, at: Int64s, rows: RowSelection) -> Numbers:
        """The numbers of these messages; a message with a number that does not fit the column is no longer `ok`."""
        if kind.member == "boolean":
            return self._booleans(code, at, rows)
        if not width:
            return np.zeros(len(at), np.int64)
        raw = self._words[at + 1].astype(np.uint64)
        if kind.member == "double":
            return self._doubles(raw, width, rows)
        shift = np.uint64(64 - 8 * width)
        if kind.signed:
            return raw.view(np.int64) >> np.int64(shift)
        found = (raw >> shift).view(np.int64)
        if width == 8:
            self._ok[rows] &= found >= 0
        return found

    def _booleans(self, code: int, at: Int64s, rows: RowSelection) -> Bools:
        if code != _BOOLEAN:
            return np.full(len(at), code == _TRUE)
        octets = self._octets[at + 1]
        self._ok[rows] &= octets <= 1
        found: Bools = octets == 1
        return found

    def _doubles(self, raw: NDArray[np.uint64], width: int, rows: RowSelection) -> NDArray[np.float64]:
        if width == 8:
            return raw.view(np.float64)
        found = (raw >> np.uint64(32)).astype(np.uint32).view(np.float32)
        self._ok[rows] &= ~np.isnan(found)  # a conversion would change its bits
        return found.astype(np.float64)
