"""An event-stream node as an origin of the archive: the data source reads the offsets that its `$info` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from bridges.spark.decode import RECORD
from bridges.spark.ranges import Log, Range
from bridges.spark.source import ScopeGateDataSource
from bridges.spark.source_options import read_options
from bridges.spark.source_plan import first_offsets, node, offsets_json, present

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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

    def rows(self, spark: SparkSession, ranges: Sequence[Range]) -> DataFrame:
        """The events of these ranges as rows of the archive; there is no record of them."""
        from pyspark.sql import functions as F

        spark.dataSource.register(ScopeGateDataSource)
        held = node(self._options).held
        # a partition that has nothing to be read begins where it ends
        starts = {each: at.low for each, at in held.items()} | {each.partition: each.start for each in ranges}
        ends = {each: at.low for each, at in held.items()} | {each.partition: each.end for each in ranges}
        reader = spark.read.format("scopegate").options(**self._given)
        reader = reader.option("startingOffsets", offsets_json(starts)).option("endingOffsets", offsets_json(ends))
        frame = reader.load()
        named = frame.withColumns({
            "address": F.lit(self._name),
            "date": F.to_date("timestamp"),
            "record": F.lit(None).cast(RECORD),
        })  # fmt: skip
        return named.select("address", "date", *frame.columns, "record")
