"""Spark may compute for longer between two batches than a peer bears silence: a task goes on all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from bridges.spark.datasource.options import read_options, write_options
from bridges.spark.datasource.sink import BatchSink, WrittenRows
from bridges.spark.datasource.source import BatchReader
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import consumed, produce

CONNECTIONS = "scopegate_connections"
ACCEPTED = "scopegate_connections_accepted_total"


@pytest.fixture(scope="module")
def gateway(kafka_broker: KafkaBroker, start_module_gateway: Gateways) -> Gateway:
    """One that closes connections that are silent for three seconds."""
    document = Document()
    document.kafka(kafka_broker.bootstrap)
    document.scope()["listen"][0]["limits"] = {"idle_timeout": "3s"}
    return start_module_gateway(document.text)


class Pauses:
    """Each waits until the gateway has lost its patience, and tells that what was before had another connection."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._accepted = gateway.metrics().get(ACCEPTED, 0.0)

    def pause(self) -> None:
        """Be silent."""
        before, self._accepted = self._accepted, self._gateway.metrics()[ACCEPTED]
        assert self._accepted > before
        self._gateway.wait_metric(CONNECTIONS, lambda value: value == 0)


def test_a_reader_goes_on_where_it_was(gateway: Gateway, kafka_broker: KafkaBroker) -> None:
    topic = kafka_broker.create_topic(partitions=2)
    produce(kafka_broker, topic, 12_000, 2)  # of each partition a batch of 5,000, and one of a thousand
    given = {"url": f"amqp://127.0.0.1:{gateway.ports[0]}", "address": f"events/{topic}", "maxTasks": "1"}
    reader = BatchReader(read_options(given))
    (span,) = reader.partitions()
    pauses = Pauses(gateway)
    places: list[tuple[int, int]] = []
    for batch in reader.read(span):
        places += zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
        pauses.pause()
    assert places == [(partition, offset) for partition in range(2) for offset in range(6000)]


def test_a_writer_goes_on_where_it_was(gateway: Gateway, kafka_broker: KafkaBroker) -> None:
    topic = kafka_broker.create_topic()
    options = write_options({"url": f"amqp://127.0.0.1:{gateway.ports[0]}", "address": f"events/{topic}"})
    sink = BatchSink(options, T.StructType([T.StructField("body", T.BinaryType())]), overwrite=False)
    pauses = Pauses(gateway)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            yield pa.RecordBatch.from_pydict({"body": [b"%d" % number] * 10})
            pauses.pause()

    assert sink.write(batches()) == WrittenRows(30, 0)
    assert [record.value for record in consumed(kafka_broker, topic)] == [
        b"%d" % (number // 10) for number in range(30)
    ]
