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
from bridges.spark.datasource.plan import first_offsets, node, offsets_json, present
from bridges.spark.datasource.source import ScopeGateDataSource, StreamReaderBase
from bridges.spark.errors import PipelineError
from gateway.errors import AmqpError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from bridges.spark.archive.written import Watch


_WATCHED: Final = "scopegate-archive"


class _WatchedReader(StreamReaderBase):
    """A batch whose record batches the archive sees in the task that writes them."""

    def __init__(self, options: ReadOptions, watch: Watch | None, address: str) -> None:
        super().__init__(options)
        self._watch, self._address = watch, address

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        batches = super().read(partition)
        yield from batches if self._watch is None else self._watch.watched(batches, self._address)


def _watched(watch: Watch | None, address: str) -> type[ScopeGateDataSource]:
    class Watched(ScopeGateDataSource):  # made here: Spark sends it to the tasks with what it refers to
        @classmethod
        def name(cls) -> str:
            return _WATCHED

        def reader(self, schema: StructType) -> DataSourceReader:
            return _WatchedReader(read_options(dict(self.options)), watch, address)

    return Watched


class AmqpOrigin:
    """One node, under an address of the archive."""

    def __init__(self, options: Mapping[str, str], name: str) -> None:
        """`options` are those of the data source; `name` is the address in the archive. Raises `PipelineError`."""
        self._given: Final = dict(options)
        self._options: Final = read_options(options)
        self._name: Final = name

    def logs(self) -> Iterator[Log]:
        """What the node holds; a partition that holds nothing and does not say where it is, is left out."""
        found = present(self._options)
        held = {each: (at.low, at.high) for each, at in found.held.items() if at.known}
        yield Log(self._name, found.log, held, first_offsets(self._options, found.held))

    def holding(self, gaps: Sequence[Range]) -> Iterator[Range]:
        """Those of these offsets of which the node has an event; read on a link of the driver's own."""
        if not gaps:
            return
        try:
            with ReconnectingClient(self._options) as line:
                for each in gaps:
                    wanted = plan.OffsetRange(each.partition, each.start, each.end)
                    if any(len(batch) for batch in read.events(line, self._options, wanted)):
                        yield each
        except AmqpError as error:
            raise PipelineError(plan.said(self._options, error)) from None

    def rows(self, spark: SparkSession, ranges: Sequence[Range], watch: Watch | None = None) -> DataFrame:
        """The events of these ranges as rows of the archive; there is no record of them."""
        from pyspark.sql import functions as F

        spark.dataSource.register(_watched(watch, self._name))
        held = node(self._options).held
        # a partition that has nothing to be read begins where it ends
        starts = {each: at.low for each, at in held.items()} | {each.partition: each.start for each in ranges}
        ends = {each: at.low for each, at in held.items()} | {each.partition: each.end for each in ranges}
        reader = spark.read.format(_WATCHED).options(**self._given)
        reader = reader.option("startingOffsets", offsets_json(starts)).option("endingOffsets", offsets_json(ends))
        frame = reader.load()
        named = frame.withColumns({
            "address": F.lit(self._name),
            "date": F.to_date("timestamp"),
            "record": F.lit(None).cast(RECORD),
        })  # fmt: skip
        return named.select("address", "date", *frame.columns, "record")
