"""Topics as an origin of the archive: it asks Kafka for offsets, and Spark's own Kafka source reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from bridges.kafka.admin.offsets import Offsets
from bridges.spark.archive.decode import DDL, decoder
from bridges.spark.archive.ranges import Log, Range
from bridges.spark.errors import PipelineError
from bridges.spark.kafka_settings import java_settings
from gateway.errors import AmqpError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bridges.spark.archive.written import WriteMonitor

Start = str | datetime


class KafkaOrigin:
    """Topics of one cluster, each under an address of the archive."""

    def __init__(self, settings: Mapping[str, str], topics: Mapping[str, str], start: Start = "earliest") -> None:
        """`settings` are librdkafka's; `topics` maps topics to addresses; `start` is for topics not yet archived."""
        self._topics: Final = dict(topics)
        self._start: Final = start
        self._spark_options: Final = java_settings(settings)
        self._offsets: Final = Offsets(settings)

    def logs(self) -> Iterator[Log]:
        """The topics as they are now. Raises `PipelineError` if Kafka does not answer or has no such topic."""
        for topic, address in self._topics.items():
            try:
                found = self._offsets.topic(topic)
                bounds = {number: (each.low, each.high) for number, each in self._offsets.bounds(found).items()}
                yield Log(address, found.identity, bounds, self._first(topic, bounds))
            except AmqpError as error:
                raise PipelineError(error.description) from None

    def _first(self, topic: str, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        if self._start == "earliest":
            return {}
        ends = {number: high for number, (_, high) in bounds.items()}
        if not isinstance(self._start, datetime):
            return ends
        since = self._offsets.first_since(topic, bounds, int(self._start.timestamp() * 1000))
        return {number: since[number] if since[number] >= 0 else end for number, end in ends.items()}

    def holding(self, gaps: Sequence[Range]) -> Iterator[Range]:
        """Those of these ranges with a committed record, as a client other than Spark's reads them."""
        for topic, address in self._topics.items():
            spans = [(each.partition, each.start, each.end) for each in gaps if each.address == address]
            try:
                for partition, start, end in self._offsets.holding(topic, spans):
                    yield Range(address, partition, start, end)
            except AmqpError as error:
                raise PipelineError(error.description) from None

    def rows(self, spark: SparkSession, ranges: Sequence[Range], monitor: WriteMonitor | None = None) -> DataFrame:
        """The records of these ranges as rows of the archive."""
        topics = {address: topic for topic, address in self._topics.items()}
        starts: dict[str, dict[str, int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for each in ranges:
            starts.setdefault(topics[each.address], {})[str(each.partition)] = each.start
            ends.setdefault(topics[each.address], {})[str(each.partition)] = each.end
        assigned = {topic: sorted(map(int, partitions)) for topic, partitions in starts.items()}
        reader = spark.read.format("kafka").options(**self._spark_options)
        reader = reader.option("assign", json.dumps(assigned)).option("includeHeaders", "true")
        reader = reader.option("startingOffsets", json.dumps(starts)).option("endingOffsets", json.dumps(ends))
        reader = reader.option("minPartitions", str(spark.sparkContext.defaultParallelism))
        records = reader.option("failOnDataLoss", "true").option("kafka.max.poll.records", "5000").load()
        return records.mapInArrow(decoder(self._topics, monitor), DDL)
