"""`format("scopegate")` on the real gateway and a real Kafka: what Kafka's own source sees, column by column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from bridges.spark.amqp_origin import AmqpOrigin
from bridges.spark.archive import Archive
from bridges.spark.archiving import Bounds, step, verify
from bridges.spark.errors import sentence
from bridges.spark.kafka_origin import KafkaOrigin
from bridges.spark.ranges import Range
from bridges.spark.reading import Selection, read_archive
from bridges.spark.source import ScopeGateDataSource
from gateway.filters import columns
from tests.support.gateway import Gateways
from tests.support.kafka import KafkaBroker
from tests.support.pipeline import ODD, consumed, produce
from tests.support.process import free_port

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLICY = """
kafka: {{main: {{bootstrap: "{bootstrap}"}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{port}"}}]
    addresses:
      - {{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}
      - {{match: "direct", direct: balanced}}
    access: [{{who: "*", may: [receive, info], on: "**"}}]
"""


@pytest.fixture
def url(kafka_broker: KafkaBroker, start_gateway: Gateways) -> str:
    port = free_port()
    start_gateway(POLICY.format(bootstrap=kafka_broker.bootstrap, port=port))
    return f"amqp://127.0.0.1:{port}"


def loaded(spark: SparkSession, url: str, topic: str, **options: object) -> DataFrame:
    spark.dataSource.register(ScopeGateDataSource)
    texts = {name: str(value) for name, value in options.items()}
    return spark.read.format("scopegate").options(url=url, address=f"events/{topic}", **texts).load()


def table(frame: DataFrame) -> Any:
    return frame.select(*columns.COLUMNS).orderBy("partition", "offset").toArrow()


def test_a_batch_is_what_kafkas_own_source_sees(spark: SparkSession, kafka_broker: KafkaBroker, url: str) -> None:
    topic = kafka_broker.create_topic(partitions=3)
    produce(kafka_broker, topic, 60, 3)
    origin = KafkaOrigin({"bootstrap.servers": kafka_broker.bootstrap}, {topic: "x"})
    ranges = [Range("x", partition, 0, 20) for partition in range(3)]
    over_amqp = loaded(spark, url, topic, maxTasks=2)
    assert table(over_amqp).equals(table(origin.rows(spark, ranges)))
    some = loaded(spark, url, topic, startingOffsets='{"0": 5, "2": 19}', endingOffsets='{"0": 8, "1": 0}')
    places = [(row.partition, row.offset) for row in some.orderBy("partition", "offset").collect()]
    assert places == [(0, 5), (0, 6), (0, 7), (2, 19)]
    red = loaded(spark, url, topic, filter="a.color = 'red'").collect()
    wanted = [each for each in consumed(kafka_broker, topic) if ("color", b"red") in each.headers]
    assert sorted((row.partition, row.offset) for row in red) == [record[:2] for record in wanted]


def drain(spark: SparkSession, url: str, topic: str, place: Path, **options: object) -> None:
    """Run a stream to the end of what there is, from its checkpoint."""
    spark.dataSource.register(ScopeGateDataSource)
    texts = {name: str(value) for name, value in options.items()}
    stream = spark.readStream.format("scopegate").options(url=url, address=f"events/{topic}", **texts).load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(place / "rows"))
    query.awaitTermination()


def test_a_stream_goes_on_from_its_checkpoint_and_notices_what_changed(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic(partitions=1)
    produce(kafka_broker, topic, 30, 1)
    drain(spark, url, topic, tmp_path, maxEventsPerTrigger=20)
    admin = kafka_broker.admin()
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    produce(kafka_broker, topic, 20, 2, first=len(ODD) + 100)
    drain(spark, url, topic, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted((row.partition, row.offset) for row in rows) == [each[:2] for each in consumed(kafka_broker, topic)]

    produce(kafka_broker, topic, 20, 2, first=200)
    place = TopicPartition(topic, 0, 45)
    admin.delete_records([place])[place].result(30)
    with pytest.raises(Exception, match=r"offsets 40 to 44 are gone from the log; failOnDataLoss=false") as raised:
        drain(spark, url, topic, tmp_path)
    assert sentence(raised.value).startswith(f"events/{topic}, partition 0: offsets 40 to 44 are gone")
    drain(spark, url, topic, tmp_path, failOnDataLoss="false")
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 65


def test_an_archive_over_amqp_has_every_event_once(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic(partitions=3)
    produce(kafka_broker, topic, 40, 2)  # the third partition stays empty
    archive = Archive(tmp_path)
    origin = AmqpOrigin({"url": url, "address": f"events/{topic}"}, "orders")
    with archive.writing():
        assert step(spark, archive, origin, Bounds(offsets=30)) is not None
        produce(kafka_broker, topic, 30, 3, first=100)
        while step(spark, archive, origin, Bounds(offsets=30)):
            pass
    assert verify(archive).problems == ()
    stored = read_archive(spark, archive, Selection(("orders",)))
    assert table(stored).equals(table(loaded(spark, url, topic)))
    assert stored.count() == 70


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"adress": "x"}, "format scopegate: unknown option adress (there is: url, address, user, "),
        ({"filter": "a ="}, "format scopegate: option filter: "),
        ({"startingOffsets": "soon"}, "format scopegate: option startingOffsets is earliest, latest or JSON like "),
        ({"startingOffsets": '{"7": 0}'}, "startingOffsets: events/{topic} has no partition 7 (it has 1)"),
        ({"endingOffsets": '{"0": 99}'}, "endingOffsets: partition 0 of events/{topic} ends at offset 5, not 99"),
        ({"address": "direct"}, "direct at {url}: "),
        ({"address": "events/none"}, "events/none at {url}: there is no event log"),
        ({"url": "amqp://127.0.0.1:1"}, "events/{topic} at amqp://127.0.0.1:1: amqp://127.0.0.1:1 is not reached: "),
        ({"passwordEnv": "SCOPEGATE_NOT_SET", "user": "u"}, "passwordEnv: SCOPEGATE_NOT_SET is not set"),
    ],
)
def test_mistakes_are_one_sentence(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, options: dict[str, str], said: str
) -> None:
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, 5, 1)
    spark.dataSource.register(ScopeGateDataSource)
    given = {"url": url, "address": f"events/{topic}", **options}
    with pytest.raises(Exception, match="PipelineError") as raised:
        spark.read.format("scopegate").options(**given).load().count()
    assert sentence(raised.value).startswith(said.replace("{topic}", topic).replace("{url}", url))
