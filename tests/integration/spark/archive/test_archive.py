"""Archive and verify on a real Kafka broker: every byte a consumer sees, each offset once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import TopicPartition

from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.maintenance.compaction import place_due
from bridges.spark.archive.maintenance.lock import maintaining
from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.store import MANIFEST, STAGING, Archive
from bridges.spark.archive.verification import verify
from bridges.spark.errors import PipelineError
from bridges.spark.replay import job as replaying
from gateway.amqp.codec.types import Ubyte
from gateway.amqp.message.sections import splice, walk
from tests.support.amqp.messages import message
from tests.support.amqp.proton_clients import Login, Raw, receive, send
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, free_port
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import Record, archived, consumed, files, here, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def test_a_filter_of_the_archive_runs_without_python(spark: SparkSession, kept: ArchivedTopic) -> None:
    chosen = ArchiveSelection(("orders/eu",), filter="a.color = 'red'")
    assert "Python" not in read_archive(spark, kept.archive, chosen)._jdf.queryExecution().toString()


def test_a_compacted_archive_is_the_same(spark: SparkSession, kept: ArchivedTopic, tmp_path: Path) -> None:
    """While both files are there, and later; for who reads by the manifest, or folders, or replays."""
    archive, chosen = Archive(tmp_path / "archive"), ArchiveSelection(("orders/eu",))
    shutil.copytree(kept.archive.path, archive.path)
    before = len(files(archive.path))
    assert (done := here("compact", archive.path)).returncode == 0, done.stderr
    assert len(list(archive.readable().live_files())) == 1 < before == len(files(archive.path))
    assert archived(rows(spark, archive)) == kept.seen
    assert replaying.count(archive, chosen) == 350
    with maintaining(archive):
        assert len(list(place_due(archive, at_once=True))) == 1
    assert archived(rows(spark, archive)) == kept.seen
    assert replaying.count(archive, chosen) == 350
    assert spark.read.parquet(str(archive.path)).count() == 350
    assert (verify(archive).rows, verify(archive).problems) == (350, ())


def ordered(spark: SparkSession, archive: Archive) -> list[Any]:
    return sorted(rows(spark, archive), key=lambda row: (row.partition, row.offset))


def undelivered(data: bytes) -> bytes:
    """A message without its delivery annotations."""
    data = bytes(data)
    return splice(data, walk(data), da=None)


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
    found = sorted(read_archive(spark, archive, messages=True).collect(), key=lambda row: (row.partition, row.offset))
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

    kafka_broker.recreate(topic, 2)
    with pytest.raises(PipelineError, match="the topic was recreated"):
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
        replaying.count(archive, ArchiveSelection(("orders/eu",)))
    first.unlink()
    assert verify(archive).problems == (f"commit 1: {first} is missing",)
    (archive.path / MANIFEST / "00000001.json").write_text("{")
    with pytest.raises(PipelineError, match=r"00000001\.json: not a manifest of a commit"):
        verify(archive)
