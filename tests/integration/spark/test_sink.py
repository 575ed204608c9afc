"""Rows written by `format("scopegate")` to the real gateway: exact messages, messages of parts, repetition."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from bridges.spark.datasource.options import write_options
from bridges.spark.datasource.row_encoder import encoder
from bridges.spark.datasource.source import ScopeGateDataSource
from bridges.spark.errors import PipelineError, sentence
from gateway.amqp.message.sections import walk
from tests.support.amqp.proton_clients import Login, receive
from tests.support.gateway.process import UNMEASURED, Process, wait_until
from tests.support.project.parts import ROOT
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import (
    KILLS,
    Watermarks,
    consumed,
    event,
    gateway_urls,
    kill_all,
    micro_batches,
    produce,
)
from tests.support.spark.queries import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def url(kafka_broker: KafkaBroker) -> Iterator[str]:
    with gateway_urls(kafka_broker) as (url, _):
        yield url


def write(frame: DataFrame, url: str, topic: str, **options: str) -> None:
    frame.sparkSession.dataSource.register(ScopeGateDataSource)
    given = {"url": url, "address": f"events/{topic}", **options}
    frame.write.format("scopegate").options(**given).mode("append").save()


def source(spark: SparkSession, url: str, topic: str) -> Any:
    spark.dataSource.register(ScopeGateDataSource)
    return spark.read.format("scopegate").options(url=url, address=f"events/{topic}")


TIMED = "body binary, header struct<ttl:bigint>"


def timed(data: bytes) -> bool:
    """Whether a message has a header, and so a time to live."""
    layout = walk(data)
    return layout.header < layout.da


def stream(spark: SparkSession, url: str, first: str, second: str, folder: Path) -> None:
    """Write a topic to another to its end, in micro-batches of 20 events."""
    spark.dataSource.register(ScopeGateDataSource)
    given = {"url": url, "address": f"events/{first}", "maxEventsPerTrigger": "20"}
    frame = spark.readStream.format("scopegate").options(**given).load()
    sink = frame.writeStream.format("scopegate").options(url=url, address=f"events/{second}")
    run_to_end(sink.option("checkpointLocation", str(folder)).trigger(availableNow=True))


def without_place(broker: KafkaBroker, topic: str) -> list[tuple[int, bytes]]:
    """Partition and message of each record, without what its log says of it."""
    found = []
    for record in consumed(broker, topic):
        data = event(record)
        layout = walk(data)
        found.append((record.partition, data[: layout.da] + data[layout.ma :]))
    return found


def test_what_was_read_is_written_as_it_was(spark: SparkSession, kafka_broker: KafkaBroker, url: str) -> None:
    first, second = kafka_broker.create_topic(partitions=2), kafka_broker.create_topic(partitions=2)
    produce(kafka_broker, first, 40, 2)
    frame = source(spark, url, first).load().where("offset > 3")  # the first are no messages of ours
    write(frame.withColumn("target_partition", 1 - F.col("partition")), url, second)
    wanted = [(1 - partition, data) for partition, data in without_place(kafka_broker, first)]
    kept = [wanted[number] for number in (*range(24, 40), *range(4, 20))]
    assert without_place(kafka_broker, second) == kept


def test_messages_are_made_of_their_parts(spark: SparkSession, kafka_broker: KafkaBroker, url: str) -> None:
    topic = kafka_broker.create_topic()
    schema = (
        "key string, body binary, header struct<durable:boolean,ttl:bigint>, properties struct<message_id:string,"
        "subject:string,content_type:string,creation_time:bigint>, application_properties map<string,string>"
    )
    row = Row("k", b"\x00b", Row(True, 600_000), Row("id-1", "s", "text/plain", 7), {"color": "red"})
    write(spark.createDataFrame([row], schema), url, topic)
    (found,) = source(spark, url, topic).load().collect()
    assert bytes(found.body) == b"\x00b"
    assert bytes(found.key) == b"k"
    assert found.header.durable
    assert 0 < found.header.ttl <= 600_000  # less the time that it was in the log
    properties = found.properties
    assert (properties.message_id.text, properties.subject, properties.creation_time) == ("id-1", "s", 7)
    assert properties.content_type == "text/plain"
    assert found.application_properties["color"].text == "red"

    again = source(spark, url, topic).load().select("body", "properties", "application_properties")
    write(again.withColumn("body", F.lit("text")), url, topic)
    _, copy = source(spark, url, topic).load().orderBy("offset").collect()
    assert (copy.body_kind, copy.body_value.text, copy.properties) == ("amqp-value", "text", found.properties)
    assert copy.application_properties == found.application_properties


def test_rows_go_to_any_address_that_takes_messages(spark: SparkSession, url: str) -> None:
    receiver = receive(Login(int(url.rpartition(":")[2])), "direct", 30)
    receiver.attached()
    frame = spark.createDataFrame([Row(b"%d" % number) for number in range(30)], "body binary")
    write(frame, url, "direct", address="direct")
    assert sorted(int(each.message.body) for each in receiver.finish()) == list(range(30))


def test_a_row_that_is_not_accepted_fails_the_batch_and_is_named(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str
) -> None:
    topic = kafka_broker.create_topic(config={"cleanup.policy": "compact"})
    frame = spark.createDataFrame([Row("k", b"1"), Row(None, b"2")], "key string, body binary").coalesce(1)
    with pytest.raises(Exception, match="PipelineError") as raised:
        write(frame, url, topic)
    said = sentence(raised.value)
    assert said.startswith(f"events/{topic} at {url} answers rejected to row 1 of task 0: ")
    bare = spark.createDataFrame([Row(3, 7, b"\x01no message")], "partition int, offset bigint, bare_message binary")
    with pytest.raises(Exception, match="the row of partition 3, offset 7 is not a message: "):
        write(bare, url, topic)


def test_a_micro_batch_that_is_repeated_is_not_sent_again(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, tmp_path: Path
) -> None:
    first, second = kafka_broker.create_topic(partitions=2), kafka_broker.create_topic()
    produce(kafka_broker, first, 30, 2)
    # what has a time to live is read with less of it each time
    lasting = spark.createDataFrame([Row(b"t%d" % number, Row(900_000)) for number in range(2)], TIMED)
    write(lasting, url, first)
    stream(spark, url, first, second, tmp_path)
    assert len(consumed(kafka_broker, second)) == 32
    for each in (tmp_path / "commits").glob("*1*"):  # as if the driver had died before it could commit
        each.unlink()
    produce(kafka_broker, first, 4, 2, first=100)
    stream(spark, url, first, second, tmp_path)
    assert len(consumed(kafka_broker, second)) == 36
    sent, found = (without_place(kafka_broker, topic) for topic in (first, second))
    plain = sorted(data for _, data in sent if not timed(data))
    assert len(plain) == 34
    assert sorted(data for _, data in found if not timed(data)) == plain


@pytest.mark.soak
def test_writers_that_are_killed_and_started_again_send_everything_at_least_once(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, tmp_path: Path
) -> None:
    first, streamed, batched = (kafka_broker.create_topic(partitions=2) for _ in range(3))
    produce(kafka_broker, first, 200 + 200 * KILLS, 2, first=100)
    wanted = Counter(record.value for record in consumed(kafka_broker, first))
    names = [f"events/{topic}" for topic in (first, streamed, batched)]
    call = [sys.executable, "-m", "tests.support.spark.write_job", url, *names, str(tmp_path)]
    ends = Watermarks(kafka_broker, batched, 2)
    for kill in range(KILLS):
        driver, before = Process("writer", call, cwd=ROOT, env=UNMEASURED), ends.total()
        try:
            # the batch begins when the stream has
            wait_until(lambda: ends.total() > before + 20 or not driver.alive, "rows of the batch", 300)  # noqa: B023
            assert driver.alive, driver.tail()
        finally:
            kill_all(driver)
        planned, done = (micro_batches(tmp_path / name) for name in ("offsets", "commits"))
        print(
            f"writers: kill {kill + 1}, {ends.total() - before} rows of the batch were sent; {done} micro-batches are "
            f"done, {planned - done} was under way"
        )
    ends.close()
    sent = Counter(record.value for record in consumed(kafka_broker, batched))
    assert 20 * KILLS < sent.total() < KILLS * wanted.total()

    stream(spark, url, first, streamed, tmp_path)
    found = Counter(record.value for record in consumed(kafka_broker, streamed))
    print(f"streamed {found.total()} of {wanted.total()}, batched {sent.total()} and once more all")
    assert set(found) == set(wanted)
    # what comes twice is what was under way: the lots of a micro-batch
    assert found.total() - wanted.total() <= 20 * KILLS
    write(source(spark, url, first).load(), url, batched)
    assert Counter(record.value for record in consumed(kafka_broker, batched)) == sent + wanted


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("key string", "either a column body or bare_message is needed (columns that can be written: bare_message, "),
        ("bodi binary", "column bodi cannot be written, did you mean body? (columns that can be written: "),
        ("body binary, footer string", "column footer cannot be written: write bare_message for it (columns "),
        ("body int", "column body has to be binary or string, not int"),
        ("body binary, properties struct<subjekt:string>", "properties has no field subjekt, did you mean subject? ("),
        ("body binary, application_properties map<string,date>", "column application_properties has values of type "),
    ],
)
def test_rows_that_are_no_messages_are_refused_before_anything_is_sent(
    spark: SparkSession, schema: str, said: str
) -> None:
    with pytest.raises(PipelineError) as raised:
        encoder(spark.createDataFrame([], schema).schema)
    assert str(raised.value).startswith(f"format scopegate: {said}")


def test_options_of_a_reader_are_none_of_a_writer() -> None:
    given = {"url": "amqp://h", "address": "a", "startingOffsets": "latest"}
    with pytest.raises(PipelineError, match=r"unknown option startingOffsets \(there is: url, address, user, "):
        write_options(given)
    with pytest.raises(PipelineError, match="progressLocation has to be a folder that all tasks reach, not s3://bucket"):
        write_options({"url": "amqp://h", "address": "a", "progressLocation": "s3://bucket"})
    assert write_options({"url": "amqp://h", "address": "a", "checkpointLocation": "file:/x"}).progress == Path(
        "/x/scopegate"
    )
