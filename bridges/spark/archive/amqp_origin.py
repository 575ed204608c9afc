"""An event-stream node as an origin of the archive: the data source reads the offsets that its `$info` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from bridges.spark.amqp.reconnecting_client import ReconnectingClient
from bridges.spark.archive.decode import RECORD
from bridges.spark.archive.ranges import Log, Range
from bridges.spark.datasource import plan, read
from bridges.spark.datasource.options import ReadOptions, read_options
from bridges.spark.datasource.plan import fetch_current_info, fetch_info, first_offsets, offsets_json
from bridges.spark.datasource.source import BatchReader, ScopeGateDataSource
from bridges.spark.errors import PipelineError
from gateway.errors import AmqpError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from bridges.spark.archive.written import WriteMonitor


_MONITORED: Final = "scopegate-archive"


class _MonitoredReader(BatchReader):
    """Reads a batch and passes its record batches to the archive's monitor, in the task that writes them."""

    def __init__(self, options: ReadOptions, monitor: WriteMonitor | None, address: str) -> None:
        super().__init__(options)
        self._monitor, self._address = monitor, address

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        batches = super().read(partition)
        yield from batches if self._monitor is None else self._monitor.monitored(batches, self._address)


def _monitored(monitor: WriteMonitor | None, address: str) -> type[ScopeGateDataSource]:
    class Monitored(ScopeGateDataSource):  # defined here: Spark sends it to the tasks with its closure
        @classmethod
        def name(cls) -> str:
            return _MONITORED

        def reader(self, schema: StructType) -> DataSourceReader:
            return _MonitoredReader(read_options(dict(self.options)), monitor, address)

    return Monitored


class AmqpOrigin:
    """One node, under an address of the archive."""

    def __init__(self, options: Mapping[str, str], name: str) -> None:
        """`options` are those of the data source; `name` is the address in the archive. Raises `PipelineError`."""
        self._given: Final = dict(options)
        self._options: Final = read_options(options)
        self._name: Final = name

    def logs(self) -> Iterator[Log]:
        """The node's offsets; without partitions that are empty and whose next offset the node does not tell."""
        found = fetch_current_info(self._options)
        bounds = {each: (at.low, at.high) for each, at in found.bounds.items() if at.known}
        yield Log(self._name, found.log, bounds, first_offsets(self._options, found.bounds))

    def holding(self, gaps: Sequence[Range]) -> Iterator[Range]:
        """Those of these ranges in which the node has an event; the driver reads them on its own link."""
        if not gaps:
            return
        try:
            with ReconnectingClient(self._options) as connection:
                for each in gaps:
                    wanted = plan.OffsetRange(each.partition, each.start, each.end)
                    if any(len(batch) for batch in read.events(connection, self._options, wanted)):
                        yield each
        except AmqpError as error:
            raise PipelineError(plan.error_text(self._options, error)) from None

    def rows(self, spark: SparkSession, ranges: Sequence[Range], monitor: WriteMonitor | None = None) -> DataFrame:
        """The events of these ranges as rows of the archive, whose `record` is null."""
        from pyspark.sql import functions as F

        spark.dataSource.register(_monitored(monitor, self._name))
        bounds = fetch_info(self._options).bounds
        # a partition without a range gets an empty one
        starts = {each: at.low for each, at in bounds.items()} | {each.partition: each.start for each in ranges}
        ends = {each: at.low for each, at in bounds.items()} | {each.partition: each.end for each in ranges}
        reader = spark.read.format(_MONITORED).options(**self._given)
        reader = reader.option("startingOffsets", offsets_json(starts)).option("endingOffsets", offsets_json(ends))
        frame = reader.load()
        named = frame.withColumns({
            "address": F.lit(self._name),
            "date": F.to_date("timestamp"),
            "record": F.lit(None).cast(RECORD),
        })  # fmt: skip
        return named.select("address", "date", *frame.columns, "record")
