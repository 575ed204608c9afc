"""Topics as an origin of the archive: the driver asks Kafka for offsets, and tasks read the records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from bridges.kafka.admin.offsets import Offsets
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.consume.range_reader import TopicRange, count_before, read_ranges
from bridges.spark.archive.contents.ranges import Log, Range
from bridges.spark.archive.write.records import PartitionRecords, RecordDecoder, count_unknown
from bridges.spark.archive.write.task import ArchiveBatch
from bridges.spark.errors import PipelineError
from bridges.spark.kafka_settings import RenewedClient
from gateway.errors import AmqpError
from policies.values.archived import shared_addresses

Start = str | datetime


class KafkaOrigin:
    """Topics of one cluster, each under an address of the archive."""

    def __init__(self, settings: Mapping[str, str], topics: Mapping[str, str], start: Start = "earliest") -> None:
        """`settings` are librdkafka's; `topics` maps topics to addresses; `start` is for topics not yet archived.

        Raises `PipelineError` if two topics have one address.
        """
        for _, problem in shared_addresses(topics):
            raise PipelineError(problem)
        self._topics: Final = dict(topics)
        self._start: Final = start
        self._client: Final = RenewedClient(settings, Offsets)

    def logs(self) -> Iterator[Log]:
        """The topics as they are now. Raises `PipelineError` if Kafka does not answer or has no such topic."""
        offsets = self._client.current()
        for topic, address in self._topics.items():
            try:
                found = offsets.topic(topic)
                bounds = {number: (each.low, each.high) for number, each in offsets.bounds(found).items()}
                yield Log(address, found.identity, bounds, self._first(offsets, topic, bounds))
            except AmqpError as error:
                raise PipelineError(error.description) from None

    def _first(self, offsets: Offsets, topic: str, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        if self._start == "earliest":
            return {}
        ends = {number: high for number, (_, high) in bounds.items()}
        if not isinstance(self._start, datetime):
            return ends
        since = offsets.first_since(topic, bounds, int(self._start.timestamp() * 1000))
        return {number: since[number] if since[number] >= 0 else end for number, end in ends.items()}

    def identities(self, addresses: Collection[str]) -> dict[str, str | None]:
        """See `ArchiveOrigin`. Raises `PipelineError`."""
        offsets = self._client.current()
        wanted = {address: topic for topic, address in self._topics.items() if address in addresses}
        try:
            return {address: offsets.topic(topic).identity for address, topic in wanted.items()}
        except AmqpError as error:
            raise PipelineError(error.description) from None

    def holding(self, gaps: Sequence[Range]) -> Iterator[Range]:
        """The ranges among these that have a committed record, read with a second client."""
        for topic, address in self._topics.items():
            spans = [(each.partition, each.start, each.end) for each in gaps if each.address == address]
            try:
                for partition, start, end in self._client.current().holding(topic, spans):
                    yield Range(address, partition, start, end)
            except AmqpError as error:
                raise PipelineError(error.description) from None

    def source(self) -> KafkaSource:
        """A source that reads these topics in a task."""
        return KafkaSource(self._client.settings, {address: topic for topic, address in self._topics.items()})


class KafkaSource:
    """Reads ranges of topics with a client of its own, in a task of Spark."""

    def __init__(self, settings: ClientSettings, topics: Mapping[str, str]) -> None:
        """`settings` are librdkafka's, and `topics` maps addresses to topics."""
        self._settings: Final = settings
        self._topics: Final = topics

    def batches(self, ranges: Sequence[Range]) -> Iterator[ArchiveBatch]:
        """The records of these ranges. Raises `PipelineError`."""
        wanted = {(self._topics[each.address], each.partition): each for each in ranges}
        decoders = {topic: RecordDecoder() for topic, _ in wanted}
        spans = [TopicRange(*key, each.start, each.end) for key, each in wanted.items()]
        addresses = {topic: address for address, topic in self._topics.items()}
        try:
            for found in read_ranges(self._settings, spans):
                for topic, decoder in decoders.items():
                    parts = [
                        PartitionRecords(key[1], found[key], count_before(found[key], wanted[key].end))
                        for key in sorted(found)
                        if key[0] == topic
                    ]
                    if any(each.taken for each in parts):
                        rows = decoder.rows(parts)
                        yield ArchiveBatch(addresses[topic], rows, count_unknown(rows))
        except AmqpError as error:
            raise PipelineError(error.description) from None
