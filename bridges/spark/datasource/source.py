"""`format("scopegate")`: event-stream nodes over AMQP in Spark, batch and streaming, both ways (docs/pipeline.md).

Reads are deterministic: a task reads [start, end) of its partitions, and a repeated task reads the same events. The
peer evaluates the filter. Planning and reading run in different processes, which share only `ReadTask`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bridges.spark.columns import schema as columns
from bridges.spark.datasource import plan, read
from bridges.spark.datasource.options import ReadOptions, read_options, selected_columns, write_options
from bridges.spark.datasource.plan import (
    NodeInfo,
    OffsetBounds,
    ReadTask,
    available_ranges,
    first_offsets,
    last_offsets,
    limit_offsets,
    plan_tasks,
    same_log,
)
from bridges.spark.datasource.progress import LOG
from bridges.spark.datasource.sink import BatchSink, StreamSink
from bridges.spark.errors import PipelineError

_FRESH: Final = 0.25
"""Seconds for which a node's bounds are cached, since Spark requests them many times a second for an idle query."""
StreamOffset: TypeAlias = dict[str, Any]
"""A JSON object: the next offset by partition, the identity of the log, and the offsets of the start."""
_FIRST, _NEW = "first", "new"
"""Keys of a stream's offset besides the next offset of each partition and the log."""


class ScopeGateDataSource(DataSource):
    """Register once: `spark.dataSource.register(ScopeGateDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "scopegate"

    def schema(self) -> str:
        return columns.ddl(selected_columns(dict(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(read_options(dict(self.options)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(read_options(dict(self.options)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return BatchSink(write_options(dict(self.options)), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return StreamSink(write_options(dict(self.options)), schema, overwrite=False)


class _BaseReader:
    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The events of a task as record batches."""
        if isinstance(partition, ReadTask) and partition.ranges:
            yield from read.read(self._options, partition)


class BatchReader(_BaseReader, DataSourceReader):
    """Reads a batch: the events in the log when the batch is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        node = plan.fetch_current_info(options)
        starts, ends = first_offsets(options, node.bounds), last_offsets(options, node.bounds)
        ranges = available_ranges(options, starts, ends, node.bounds)
        return plan_tasks(options, ranges, node.log) or [ReadTask(())]


class StreamReader(_BaseReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream; its offset is the next offset of each partition as JSON, and the identity of the log.

    Spark asks for the first offsets again after a restart. They are stored with the end of the first micro-batch, so
    that they are resolved only once.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        if options.ending != "latest" or options.ending_time is not None:
            raise PipelineError("format scopegate: endingOffsets and endingTimestamp are for batches, not streams")
        self._initial: StreamOffset | None = None
        self._target: NodeInfo | None = None
        self._node: NodeInfo | None = None
        self._fetched_at = 0.0

    def initialOffset(self) -> StreamOffset:
        if self._initial is None:  # resolved once: `latest` must not move
            node = plan.fetch_current_info(self._options)
            self._initial = {**_written(first_offsets(self._options, node.bounds), node.log), _NEW: True}
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_events
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = plan.fetch_current_info(self._options)

    def reportLatestOffset(self) -> StreamOffset:
        node = self._now()
        return _written({partition: at.high for partition, at in node.bounds.items()}, node.log)

    def _now(self) -> NodeInfo:
        if self._node is None or time.monotonic() - self._fetched_at > _FRESH:
            self._node, self._fetched_at = plan.fetch_info(self._options), time.monotonic()
        return self._node

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        node = self._target or self._now()
        same = same_log(self._options, start.get(LOG), node.log)
        offsets = _offsets_in(start) if same else {}
        before = {partition: offsets.get(partition, at.low) for partition, at in node.bounds.items()}
        available_ranges(self._options, before, before, node.bounds)  # reports a truncated log before it is read
        ends = {partition: _end(at, before[partition]) for partition, at in node.bounds.items()}
        if isinstance(limit, ReadMaxRows):
            ends = limit_offsets(before, ends, limit.max_rows)
        log = node.log or start.get(LOG)
        if same and log == start.get(LOG) and {**offsets, **ends} == offsets:
            return start
        found = _written({**offsets, **ends}, log)
        return {**found, _FIRST: _written(_offsets_in(start), start.get(LOG))} if start.get(_NEW) else found

    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[InputPartition]:
        options, node, log = self._options, plan.fetch_info(self._options), end.get(LOG)
        if not same_log(options, log, node.log):
            return []
        begin = end.get(_FIRST, start)
        starts = _offsets_in(begin) if begin.get(LOG) in (None, log) else {}
        return plan_tasks(options, available_ranges(options, starts, _offsets_in(end), node.bounds), log)

    def commit(self, end: StreamOffset) -> None:
        """Nothing to do: Spark's checkpoint has the offsets."""


def _written(offsets: Mapping[int, int], log: str | None = None) -> StreamOffset:
    found: StreamOffset = {str(partition): offset for partition, offset in sorted(offsets.items())}
    return found if log is None else {**found, LOG: log}


def _end(at: OffsetBounds, offset_before: int) -> int:
    """The end of a partition; an empty one with an unknown next offset keeps its previous end."""
    return at.high if at.known else max(at.high, offset_before)


def _offsets_in(offset: StreamOffset) -> dict[int, int]:
    return {int(name): next_offset for name, next_offset in offset.items() if name.isdigit()}
