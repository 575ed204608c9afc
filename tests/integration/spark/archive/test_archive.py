"""Archive, verify and replay on a real Kafka broker: every byte a consumer sees, each offset once."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import TopicPartition

from bridges.kafka.produce.replayer import Replayer
from bridges.spark.archive.job import LogBounds, commit_next
from bridges.spark.archive.kafka_origin import KafkaOrigin
from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.store import MANIFEST, STAGING, Archive
from bridges.spark.archive.verification import verify
from bridges.spark.errors import PipelineError
from bridges.spark.replay.job import Pace, TopicTarget, replay
from gateway.amqp.codec.types import Ubyte
from gateway.amqp.message.sections import splice, walk
from tests.support.amqp.messages import message
from tests.support.amqp.proton_clients import Login, Raw, receive, send
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, free_port, wait_until
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import Record, Watermarks, archived, consumed, files, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = Pace(None, lambda: 0.0, lambda _: None, lambda: False)
POLICY = """
gateway: {{http: off}}
kafka: {{main: {{bootstrap: "{bootstrap}"}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{port}"}}]
    addresses: [{{match: "{topic}", kafka: main, topic: "{topic}"}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
MESSAGES = [
    message(
        b"data",
        header=[True, Ubyte(7)],
        ma={"x-opt-a": 1},
        app={"color": "red", "n": 5},
        subject="s",
        message_id="m",
    ),
    message(value={"order": {"id": 7}}, footer={"x-sum": b"\x00"}),
    message(value="text", ma={"event-streams-group-key": "k"}),
    message(b""),
]


def origin(broker: KafkaBroker, topic: str, address: str = "orders/eu") -> KafkaOrigin:
    return KafkaOrigin({"bootstrap.servers": broker.bootstrap}, {topic: address})


def steps(spark: SparkSession, archive: Archive, source: KafkaOrigin, bounds: LogBounds = LogBounds()) -> int:  # noqa: B008
    """Archive to the end; how many commits it took."""
    count = 0
    with archive.writing():
        while commit_next(spark, archive, source, bounds):
            count += 1
    return count


def rows(spark: SparkSession, archive: Archive, **selection: Any) -> list[Any]:
    return read_archive(spark, archive, ArchiveSelection(**selection)).collect()


class ArchivedTopic(NamedTuple):
    """A topic and its archive, for tests that change neither."""

    topic: str
    archive: Archive
    seen: list[Record]


@pytest.fixture(scope="module")
def kept(spark: SparkSession, kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> ArchivedTopic:
    topic = kafka_broker.create_topic(partitions=3)
    produce(kafka_broker, topic, 300, 3)
    archive = Archive(tmp_path_factory.mktemp("kept") / "archive")
    assert steps(spark, archive, origin(kafka_broker, topic), LogBounds(offsets=200)) == 2
    produce(kafka_broker, topic, 50, 3, first=300)
    assert steps(spark, archive, origin(kafka_broker, topic), LogBounds(file_bytes=3000)) == 1
    return ArchivedTopic(topic, archive, consumed(kafka_broker, topic))


def test_what_is_archived_is_what_consumers_see(spark: SparkSession, kept: ArchivedTopic) -> None:
    archive = kept.archive
    found = rows(spark, archive)
    assert archived(found) == kept.seen
    verdict = verify(archive)
    assert (verdict.rows, verdict.commits, verdict.problems) == (350, 3, ())
    assert {row.address for row in found} == {"orders/eu"}
    assert len(files(archive.path)) == verdict.files
    # in folders named by address and date, for any reader of Parquet
    assert spark.read.parquet(str(archive.path)).where("address = 'orders/eu' and date = '1970-01-01'").count() == 350


def test_what_is_selected_is_what_a_replay_sends(spark: SparkSession, kept: ArchivedTopic) -> None:
    """By address, time, offsets and filter, in the order of each partition, and with no Python."""
    since, until = (datetime.fromtimestamp(each / 1000, UTC) for each in (10_050, 10_250))  # events 50 to 249
    chosen = ArchiveSelection(("orders/eu",), since, until, {0: (20, 60), 2: (0, 90)}, "a.color = 'red'")
    wanted = [
        record
        for record in kept.seen
        if 10_050 <= record.timestamp[1] < 10_250
        and ((record.partition == 0 and 20 <= record.offset < 60) or record.partition == 2)
        and ("color", b"red") in record.headers
    ]
    target = Collected()
    assert replay(spark, kept.archive, chosen, target, NOW, lambda _: None) == len(wanted) > 5
    places = [(row.partition, row.offset) for row in target.rows]
    for partition in (0, 2):
        own = [offset for each, offset in places if each == partition]
        assert own == [record.offset for record in wanted if record.partition == partition]
    assert replay(spark, kept.archive, chosen, None, NOW, lambda _: None) == len(wanted)  # a dry run counts
    assert "Python" not in read_archive(spark, kept.archive, chosen)._jdf.queryExecution().toString()


def test_a_replay_keeps_to_its_rate(spark: SparkSession, kept: ArchivedTopic) -> None:
    """A clock that stands still: each pause is what is left until these events may have been sent."""
    pauses: list[float] = []
    pace = Pace(100.0, lambda: 0.0, pauses.append, lambda: False)
    assert replay(spark, kept.archive, ArchiveSelection(("orders/eu",)), Collected(), pace, lambda _: None) == 350
    assert pauses == [pytest.approx(sent / 100) for sent in (100, 200, 300)]


def test_what_is_replayed_is_the_same_again(
    spark: SparkSession, kafka_broker: KafkaBroker, kept: ArchivedTopic, tmp_path: Path
) -> None:
    again = kafka_broker.create_topic(partitions=3)
    assert replayed(spark, kafka_broker, kept.archive, again) == 350
    assert [record._replace(offset=0) for record in consumed(kafka_broker, again)] == [
        record._replace(offset=0) for record in kept.seen
    ]
    assert replayed(spark, kafka_broker, kept.archive, again) == 0  # the same job has nothing more to do
    second = Archive(tmp_path / "second")
    steps(spark, second, origin(kafka_broker, again))
    assert verify(second).problems == ()
    assert [contents(row) for row in ordered(spark, second)] == [contents(row) for row in ordered(spark, kept.archive)]


class Collected:
    """A target that keeps what it is given."""

    def __init__(self) -> None:
        self.progress: dict[int, int] = {}
        self.rows: list[Any] = []

    def write(self, rows: list[Any]) -> None:
        self.rows += rows

    def close(self) -> None: ...


def ordered(spark: SparkSession, archive: Archive) -> list[Any]:
    return sorted(rows(spark, archive), key=lambda row: (row.partition, row.offset))


def contents(row: Any) -> tuple[Any, ...]:
    """A row without where it is in its log."""
    data = undelivered(bytes(row.head) + bytes(row.bare_message))
    return row.partition, row.timestamp, row.key, data, row.application_properties


def undelivered(data: bytes) -> bytes:
    """A message without its delivery annotations."""
    data = bytes(data)
    return splice(data, walk(data), da=None)


def settled(broker: KafkaBroker, topic: str) -> None:
    """Kafka has said the end of each transaction in each partition: it answers a commit before it has."""
    marks = Watermarks(broker, topic, 3)
    wait_until(lambda: not marks.open(), "the ends of transactions")
    marks.close()


def replayed(
    spark: SparkSession, broker: KafkaBroker, archive: Archive, topic: str, stop_after: int | None = None
) -> int:
    target = TopicTarget(Replayer({"bootstrap.servers": broker.bootstrap}, topic, "again"), 3)
    told: list[int] = []
    pace = Pace(
        None if stop_after is None else float(stop_after),
        lambda: 0.0,
        lambda _: None,
        lambda: bool(stop_after and told),
    )
    try:
        count = replay(spark, archive, ArchiveSelection(("orders/eu",)), target, pace, told.append)
    finally:
        target.close()
    settled(broker, topic)
    return count


def test_a_replay_that_was_stopped_goes_on_behind_its_last_transaction(
    spark: SparkSession, kafka_broker: KafkaBroker, kept: ArchivedTopic
) -> None:
    again = kafka_broker.create_topic(partitions=3)
    assert replayed(spark, kafka_broker, kept.archive, again, stop_after=40) == 40
    assert len(consumed(kafka_broker, again)) == 40
    assert replayed(spark, kafka_broker, kept.archive, again) == 310
    seen = [(record.partition, record.key, record.value) for record in consumed(kafka_broker, again)]
    assert seen == [(record.partition, record.key, record.value) for record in kept.seen]


def test_messages_through_the_gateway_are_archived_byte_for_byte(
    spark: SparkSession, kafka_broker: KafkaBroker, start_gateway: Gateways, tmp_path: Path
) -> None:
    topic, port = kafka_broker.create_topic(), free_port()
    start_gateway(POLICY.format(bootstrap=kafka_broker.bootstrap, port=port, topic=topic))
    receiver = receive(Login(port), topic, len(MESSAGES))
    receiver.attached()
    assert {outcome.name for outcome in send(Login(port), topic, list(map(Raw, MESSAGES))).finish()} == {"accepted"}
    delivered = [bytes(received.raw) for received in receiver.finish()]
    archive = Archive(tmp_path)
    steps(spark, archive, origin(kafka_broker, topic))
    found = ordered(spark, archive)
    # delivery annotations are of the link: the first event of one says which partitions it carries
    stored = [bytes(row.head) + bytes(row.bare_message) for row in found]
    assert list(map(undelivered, stored)) == list(map(undelivered, delivered))
    assert found[0].properties.subject == "s"
    assert found[0].application_properties["n"].long == 5
    assert (found[0].header.durable, found[0].header.priority) == (True, 7)
    assert found[1].body_fields["order.id"].long == 7
    assert found[1].body_kind == "amqp-value"


def test_topics_that_grow_lose_or_begin_anew_are_noticed(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic(partitions=1)
    produce(kafka_broker, topic, 20, 1)
    archive, source = Archive(tmp_path), origin(kafka_broker, topic)
    steps(spark, archive, source)
    kafka_broker.grow(topic, 2)
    produce(kafka_broker, topic, 20, 2, first=20)
    steps(spark, archive, source)
    assert [(each.partition, each.start, each.end) for each in verify(archive).ranges] == [(0, 0, 30), (1, 0, 10)]

    produce(kafka_broker, topic, 20, 2, first=40)
    place, admin = TopicPartition(topic, 0, 35), kafka_broker.admin()
    admin.delete_records([place])[place].result(PATIENCE)
    with pytest.raises(PipelineError, match="orders/eu, partition 0: offsets 30 to 34 are gone from the topic"):
        steps(spark, archive, source)
    steps(spark, archive, source, LogBounds(fail_on_loss=False))
    verdict = verify(archive)
    assert verdict.problems == ("orders/eu, partition 0: offsets 30 to 34 were lost before they were archived",)
    assert verdict.rows == 55

    admin.delete_topics([topic])[topic].result(PATIENCE)
    kafka_broker.create_topic(topic, partitions=2)
    with pytest.raises(PipelineError, match="the topic was made anew"):
        steps(spark, archive, source)


def test_damage_is_found_and_what_a_dead_job_left_is_put_right(
    spark: SparkSession, kafka_broker: KafkaBroker, kept: ArchivedTopic, tmp_path: Path
) -> None:
    shutil.copytree(kept.archive.path, tmp_path / "archive")
    archive = Archive(tmp_path / "archive")
    (last,) = archive.commits()[-1:]
    # as if the job had died behind the manifest and before its files were in place
    staging = archive.path / STAGING / last.staging
    staging.mkdir(parents=True)
    for index, file in enumerate(last.files):
        (archive.path / file.path).rename(staging / f"{index:04}.parquet")
    (archive.path / STAGING / "00000004-dead").mkdir()
    assert read_archive(spark, archive).count() == 300
    assert verify(archive).problems == ()
    assert steps(spark, archive, origin(kafka_broker, kept.topic)) == 0
    assert (read_archive(spark, archive).count(), verify(archive).rows) == (350, 350)
    assert not (archive.path / STAGING).exists()

    first = files(archive.path)[0]
    shutil.copy(first, first.with_name("strange.parquet"))
    assert verify(archive).problems == (f"{first.with_name('strange.parquet')}: in no commit",)
    first.with_name("strange.parquet").unlink()
    first.write_bytes(first.read_bytes()[:-9])
    assert verify(archive).problems == (f"commit 1: {first} is not the file that was committed: its bytes changed",)
    with pytest.raises(PipelineError, match="cannot be read"):
        replay(spark, archive, ArchiveSelection(("orders/eu",)), None, NOW, lambda _: None)
    first.unlink()
    assert verify(archive).problems == (f"commit 1: {first} is missing",)
    (archive.path / MANIFEST / "00000001.json").write_text("{")
    with pytest.raises(PipelineError, match=r"00000001\.json: not a manifest of a commit"):
        verify(archive)
