"""Records as columns in Arrow's layout, for C code that produces them without a Python object for each (decision 38).

This room knows buffers only; `bridges.spark.replay.records` makes them from Arrow arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer

Header = tuple[str, bytes | None]


class BinaryColumn(NamedTuple):
    """Texts or binaries: `ends` are 32-bit positions in `data`, one more than there are rows."""

    ends: Buffer
    data: Buffer | None
    valid: Buffer | None
    """A bitmap of the rows that are not null; `None`: all of them."""
    first: int
    """The number of the column's first row in its buffers."""

    def at(self, row: int) -> bytes | None:
        """The value of a row."""
        row += self.first
        if self.valid is not None and not memoryview(self.valid)[row >> 3] >> (row & 7) & 1:
            return None
        start, end = struct.unpack_from("=2i", self.ends, 4 * row)
        return bytes(memoryview(self.data or b"")[start:end])


class OutgoingColumns(NamedTuple):
    """Records of one topic. `headers` are 32-bit positions in `names` and `contents`, one more than there are rows."""

    size: int
    partitions: Buffer
    """32-bit numbers of the partitions to write to."""
    times_ms: Buffer
    """64-bit milliseconds since 1970; 0: the time when the record is produced."""
    keys: BinaryColumn
    values: BinaryColumn
    headers: Buffer
    first_header: int
    """The number of the first row in `headers`."""
    names: BinaryColumn
    contents: BinaryColumn

    def rows(self) -> Iterator[tuple[int, int, bytes | None, bytes | None, list[Header]]]:
        """Partition, time, key, value and headers of each record, for clients that C code does not support."""
        partitions, times = memoryview(self.partitions).cast("B").cast("i"), memoryview(self.times_ms).cast("B")
        for row, time in enumerate(times.cast("q")[: self.size]):
            yield partitions[row], time, self.keys.at(row), self.values.at(row), self._headers(row)

    def _headers(self, row: int) -> list[Header]:
        start, end = struct.unpack_from("=2i", self.headers, 4 * (row + self.first_header))
        return [((self.names.at(at) or b"").decode(), self.contents.at(at)) for at in range(start, end)]
