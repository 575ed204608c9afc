"""Selects the rows of an archive to replay, on record batches in the tasks (docs/columns.md)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bridges.spark.archive.read import ArchiveSelection
from bridges.spark.columns import schema
from bridges.spark.columns.arrow import compile_filter
from bridges.spark.errors import PipelineError
from gateway.errors import AmqpError
from gateway.filters.parse.sql import parse_sql
from gateway.filters.predicate import fields_of

_PLACES: Final = ("partition", "offset")
_NOT_SHOWN: Final = "not_shown"
_TIMESTAMP: Final = pa.timestamp("us", "UTC")


class RowSelection:
    """The rows of a selection that were not sent before. Raises `PipelineError` for an invalid filter."""

    def __init__(self, selection: ArchiveSelection, next_offsets: Mapping[int, int]) -> None:
        """`next_offsets`: the first offset that was not sent, by partition."""
        self._selection: Final = selection
        self._next_offsets: Final = dict(next_offsets)
        columns = set(_PLACES)
        try:
            if selection.filter is not None:
                predicate = parse_sql(selection.filter)
                self._filter = compile_filter(predicate, strict=selection.strict)
                read = {each.section for each in fields_of(predicate)}
                columns |= {_NOT_SHOWN, *(name for section, name in schema.SECTIONS.items() if section in read)}
        except AmqpError as error:
            raise PipelineError(f"the filter: {error.description}") from None
        if selection.since is not None or selection.until is not None:
            columns.add("timestamp")
        self.columns: Final = frozenset(columns)
        """The columns that it reads."""

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The selected rows of a batch. Raises `PipelineError` if its columns cannot answer the filter."""
        mask = self._mask(batch)
        batch = batch if mask is None else batch.filter(mask)
        if self._selection.filter is None or not len(batch):
            return batch
        try:
            return batch.filter(self._filter(batch))
        except AmqpError as error:
            raise PipelineError(f"the filter: {error.description}") from None

    def _mask(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """By time and offset; null counts as false."""
        chosen, found = self._selection, []
        if chosen.since is not None:
            found.append(pc.greater_equal(_times(batch), _scalar(chosen.since)))
        if chosen.until is not None:
            found.append(pc.less(_times(batch), _scalar(chosen.until)))
        if chosen.offsets:
            found.append(_inside(batch, chosen.offsets))
        for partition, offset in self._next_offsets.items():
            same = pc.equal(batch.column("partition"), partition)
            found.append(pc.or_(pc.invert(same), pc.greater_equal(batch.column("offset"), offset)))
        if not found:
            return None
        mask = found[0]
        for each in found[1:]:
            mask = pc.and_(mask, each)
        return mask


def _times(batch: pa.RecordBatch) -> pa.TimestampArray:
    return batch.column("timestamp").cast(_TIMESTAMP)  # files of older versions have no time zone


def _scalar(time: datetime) -> pa.Scalar:
    return pa.scalar(time.astimezone(UTC), _TIMESTAMP)


def _inside(batch: pa.RecordBatch, offsets: Mapping[int, tuple[int, int]]) -> pa.BooleanArray:
    mask = pa.array([False] * len(batch))
    for partition, (start, end) in offsets.items():
        same = pc.equal(batch.column("partition"), partition)
        at = batch.column("offset")
        mask = pc.or_(mask, pc.and_(same, pc.and_(pc.greater_equal(at, start), pc.less(at, end))))
    return mask
