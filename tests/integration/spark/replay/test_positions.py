"""Consumer groups continue at their events in a new topic, and the topic has the settings of the old one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from bridges.kafka.admin.topic_copy import TopicCopy
from bridges.spark.archive.topic_state import read_state
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.spark.pipeline import Record, consumed, here, lent, settled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "100", "delete.retention.ms": "0",
}  # fmt: skip
ABORTED = 30
"""An offset of partition 1 in an aborted transaction."""


class Kept(NamedTuple):
    """A topic with gaps of each kind, its archive, and what was in it."""

    topic: str
    archive: Path
    seen: list[Record]
    groups: dict[str, dict[int, int]]


def transactions(broker: KafkaBroker, topic: str) -> None:
    """Events of partition 1 with the gaps that aborted transactions and markers leave."""
    producer = new_producer(broker.bootstrap, **{"transactional.id": topic})
    producer.init_transactions(PATIENCE)
    for number in range(5):
        producer.begin_transaction()
        for each in range(10):
            producer.produce(topic, b"t%d-%d" % (number, each), b"u%d-%d" % (number, each), 1)
        assert producer.flush(PATIENCE) == 0
        (producer.abort_transaction if number == 2 else producer.commit_transaction)(PATIENCE)


def compacted(broker: KafkaBroker, topic: str) -> None:
    """Wait until the older events of a key in partition 0 are gone."""

    def is_compacted() -> bool:
        with broker.writing() as write:
            write(topic, b"tick", b"tick", 0)
        values = {record.value for record in consumed(broker, topic, committed=False) if record.partition == 0}
        return b"1-7" not in values

    wait_until(is_compacted, "compaction", 4 * PATIENCE)


@pytest.fixture(scope="module")
def kept(spark: SparkSession, kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    topic = kafka_broker.create_topic(partitions=3, config=SETTINGS)  # the last one is empty
    with kafka_broker.writing() as write:
        for round_ in range(3):
            for number in range(10):
                key = b"once" if (round_, number) == (0, 9) else b"k%d" % number
                write(topic, b"%d-%d" % (round_, number), key, 0)
    transactions(kafka_broker, topic)
    compacted(kafka_broker, topic)
    kafka_broker.configure(topic, "cleanup.policy", "delete")  # nothing is compacted any more
    settled(kafka_broker, topic)
    seen = consumed(kafka_broker, topic)
    assert seen[0].offset > 0
    offsets = [record.offset for record in seen if record.partition == 0]
    groups = {
        f"{topic}.before": {0: offsets[0] - 1, 1: 0, 2: 0},
        f"{topic}.gap": {0: next(each for each in range(offsets[0], offsets[-1]) if each not in offsets), 1: ABORTED},
        f"{topic}.within": {0: offsets[-2], 1: 17},
        f"{topic}.after": {0: offsets[-1] + 7, 1: 1000},
    }
    copy = TopicCopy({"bootstrap.servers": kafka_broker.bootstrap})
    for name, positions in groups.items():
        copy.commit(name, topic, positions)
    archive = tmp_path_factory.mktemp("kept") / "archive"
    call = "--kafka", kafka_broker.bootstrap, "--topic", f"{topic}=orders", "--once", "--groups", f"{topic}.*"
    with lent(spark):
        assert (done := here("archive", archive, *call)).returncode == 0, done.stderr
    return Kept(topic, archive, seen, groups)


def test_settings_and_groups_are_in_the_archive(kafka_broker: KafkaBroker, kept: Kept) -> None:
    state = read_state(kept.archive, "orders")
    assert (state.topic, state.partitions, state.replication, state.groups) == (kept.topic, 3, 1, kept.groups)
    assert dict(state.settings) == {**SETTINGS, "cleanup.policy": "delete"}


def test_groups_continue_at_their_events_in_a_new_topic(
    spark: SparkSession, kafka_broker: KafkaBroker, kept: Kept, tmp_path: Path
) -> None:
    topic, mapped = f"{kept.topic}-again", tmp_path / "map.jsonl"
    call = ["replay", kept.archive, "--from", "orders", "--kafka", kafka_broker.bootstrap, "--topic", topic]
    call += ["--create-topic", "--groups", "*", "--offset-map", mapped]
    with lent(spark):
        assert (done := here(*call)).returncode == 0, done.stderr
        assert (done := here(*call)).stdout.endswith("0 events written in all\n"), done.stderr
    copy = TopicCopy({"bootstrap.servers": kafka_broker.bootstrap})
    assert copy.settings(topic) == copy.settings(kept.topic)
    settled(kafka_broker, topic)
    found = consumed(kafka_broker, topic)
    for name, positions in kept.groups.items():
        moved = copy.positions(name, topic, range(3))
        assert set(moved) == set(positions), "a group without a position may begin at the end of a partition"
        for partition, old in positions.items():
            left = [record[2:] for record in kept.seen if record.partition == partition and record.offset >= old]
            again = [each[2:] for each in found if each.partition == partition and each.offset >= moved[partition]]
            assert again == left, (name, partition)
    runs = [json.loads(line) for line in mapped.read_text().splitlines()]
    pairs = {
        (run["partition"], run["old"] + step): run["new"] + step for run in runs for step in range(run["count"])
    }
    assert sorted(pairs) == [(record.partition, record.offset) for record in kept.seen]
    values = {(record.partition, record.offset): record.value for record in found}
    assert [values[record.partition, pairs[record.partition, record.offset]] for record in kept.seen] == [
        record.value for record in kept.seen
    ]


def test_what_cannot_be_told_is_refused(spark: SparkSession, kafka_broker: KafkaBroker, kept: Kept) -> None:
    call = ["replay", kept.archive, "--from", "orders", "--kafka", kafka_broker.bootstrap]
    small, other = kafka_broker.create_topic(partitions=1), kafka_broker.create_topic(partitions=2)
    with kafka_broker.writing() as write:
        write(other, b"before", None, 1)
    with lent(spark):
        for topic, said in (
            (small, f"topic {small} has fewer partitions (1) than the archive: "),
            (other, f"topic {other}, partition 1 has "),
        ):
            done = here(*call, "--topic", topic, "--groups", "*")
            assert (done.returncode, said in done.stderr) == (1, True), done.stderr
        done = here(*call, "--topic", other, "--groups", "nobody")
        assert (done.returncode, "no positions of a group nobody (it has: " in done.stderr) == (1, True)
    assert here(*call[:4], "--amqp", "url=amqp://x", "--groups", "*").returncode == 2
