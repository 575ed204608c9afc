"""Positions of consumer groups in an archive, under what happens to groups and topics while the job reads them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bridges.kafka.admin.topic_copy import TopicCopy
from bridges.spark.archive.topic_state import TopicState, TopicWatch, read_state
from gateway.errors import AmqpError
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import here, lent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def committed(broker: KafkaBroker, topic: str, positions: dict[int, int]) -> str:
    """A group of this topic with these positions."""
    group = f"{topic}.group"
    TopicCopy({"bootstrap.servers": broker.bootstrap}).commit(group, topic, positions)
    return group


def seen(broker: KafkaBroker, topic: str, archive: Path) -> TopicState:
    settings = {"bootstrap.servers": broker.bootstrap}
    TopicWatch(archive, settings, {topic: "orders"}, [f"{topic}.*"], time.monotonic, time.time).look()
    return read_state(archive, "orders")


def test_an_open_transaction_does_not_hide_the_positions_of_its_group(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """Those before it: it held up the archive of all topics, for as long as it was open."""
    topic = kafka_broker.create_topic(partitions=2)
    group = committed(kafka_broker, topic, {0: 5, 1: 6})
    own = {"bootstrap.servers": kafka_broker.bootstrap, "log_level": 0}
    member = Consumer({**own, "group.id": group, "enable.auto.commit": False})
    producer = Producer({**own, "transactional.id": topic})
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.1) is None and member.assignment(), "an assignment")
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    wanted = [TopicPartition(topic, 0, 8)]
    producer.send_offsets_to_transaction(wanted, member.consumer_group_metadata(), PATIENCE)
    assert seen(kafka_broker, topic, tmp_path).groups == {group: {0: 5, 1: 6}}
    producer.commit_transaction(PATIENCE)
    wait_until(lambda: seen(kafka_broker, topic, tmp_path).groups == {group: {0: 8, 1: 6}}, "the new position")
    member.close()


def test_a_recreated_topic_does_not_replace_what_is_archived(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """The cluster was lost and built again: the archived positions are all that is left of the groups."""
    topic, archive = kafka_broker.create_topic(partitions=2), tmp_path / "archive"
    with kafka_broker.writing() as write:
        write(topic, b"event", None, 0)
    group = committed(kafka_broker, topic, {0: 1})
    call = ["archive", archive, "--kafka", kafka_broker.bootstrap, "--topic", f"{topic}=orders",
            "--groups", f"{topic}.*", "--once"]
    with lent(spark):
        assert (done := here(*call)).returncode == 0, done.stderr
        before = read_state(archive, "orders")
        assert before.groups[group] == {0: 1}
        kafka_broker.recreate(topic)
        done = here(*call)
    assert (done.returncode, "the topic was recreated" in done.stderr) == (1, True), done.stderr
    assert read_state(archive, "orders") == before


def test_an_archived_group_that_is_deleted_is_deleted_in_the_archive(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka_broker.create_topic()
    group = committed(kafka_broker, topic, {0: 0})
    assert seen(kafka_broker, topic, tmp_path).groups == {group: {0: 0}}
    admin = kafka_broker.admin()  # referenced until the end: an answer ends with its client
    admin.delete_consumer_groups([group])[group].result(PATIENCE)
    assert seen(kafka_broker, topic, tmp_path).groups == {}


def test_groups_of_a_broker_that_does_not_answer_are_not_taken_for_deleted(
    kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client:
        def list_consumer_groups(self, **_: object) -> Any:
            return self

        def result(self, _: float) -> Any:
            return self

        valid = ()
        errors = (KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)),)

    copy = TopicCopy({"bootstrap.servers": kafka_broker.bootstrap})
    monkeypatch.setattr(copy, "_client", Client())
    with pytest.raises(AmqpError, match=r"consumer groups: .*[Cc]oordinator not available"):
        copy.groups(["*"])
