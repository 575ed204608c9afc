"""Topics as an origin of the archive: Spark's own Kafka source reads the offsets that this asks Kafka for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from bridges.kafka.offsets import Offsets
from bridges.spark.decode import DDL, decoder
from bridges.spark.errors import PipelineError
from bridges.spark.ranges import Log, Range
from gateway.errors import AmqpError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Start = str | datetime


class KafkaOrigin:
    """Topics of one cluster, each under an address of the archive."""

    def __init__(self, settings: Mapping[str, str], topics: Mapping[str, str], start: Start = "earliest") -> None:
        """`settings` are librdkafka's; `topics` leads from topic to address; `start` is for logs not yet archived."""
        self._topics: Final = dict(topics)
        self._start: Final = start
        self._spark_options: Final = java_settings(settings)
        self._offsets: Final = Offsets(settings)

    def logs(self) -> Iterator[Log]:
        """Every topic as it is now; raises `PipelineError` where Kafka is away or has no such topic."""
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

    def rows(self, spark: SparkSession, ranges: Sequence[Range]) -> DataFrame:
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
        return records.mapInArrow(decoder(self._topics), DDL)


_PLAIN: Final = {
    "bootstrap.servers": "bootstrap.servers",
    "client.id": "client.id",
    "security.protocol": "security.protocol",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
}
_LOGIN: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's Kafka source for librdkafka settings; raises `PipelineError` for what it has no words for."""
    left = {name: value for name, value in settings.items() if name != "log_level"}
    found = {ours: left.pop(name) for name, ours in _PLAIN.items() if name in left}
    if "security.protocol" in found:
        found["security.protocol"] = found["security.protocol"].upper()
    if "ssl.ca.location" in left:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": left.pop("ssl.ca.location")}
    mechanism = left.pop("sasl.mechanism", None) or left.pop("sasl.mechanisms", None)
    if mechanism is not None:
        found |= _login(mechanism, left.pop("sasl.username", ""), left.pop("sasl.password", ""))
    if left:
        raise PipelineError(f"the archive does not know how to tell Spark's Kafka source of {', '.join(sorted(left))}")
    found["isolation.level"] = "read_committed"
    return {f"kafka.{name}": value for name, value in found.items()}


def _login(mechanism: str, user: str, password: str) -> dict[str, str]:
    if mechanism not in _LOGIN:
        raise PipelineError(f"the archive cannot log in to Kafka with {mechanism} (it can: {', '.join(_LOGIN)})")
    user, password = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password))
    login = f'{_LOGIN[mechanism]} required username="{user}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
