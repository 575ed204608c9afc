"""A replay that SIGTERM ends: it says how far it came, and the same command goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import (
    Watermarks,
    archiving_policy,
    consumed,
    here,
    lent,
    produce,
    settled,
    told_to_end,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOW = 240.0


def test_a_replay_that_is_told_to_stop_says_so_and_goes_on_the_next_time(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    (file, topic), target = archiving_policy(kafka_broker, tmp_path), kafka_broker.create_topic(partitions=3)
    produce(kafka_broker, topic, 600, 3)
    with lent(spark):
        done = here("archive", "--policy", file, "--once", "--offsets", "600")
    assert done.returncode == 0, done.stderr
    until = "--until", "1970-01-01T00:00:10.500Z"  # the first 500
    call = "replay", "--policy", file, "--from", "orders", "--topic", target, *until
    ends = Watermarks(kafka_broker, target, 3)
    with lent(spark), told_to_end(lambda: ends.total() > 3 and not ends.open(), "the first transaction", SLOW):
        done = here(*call, "--rate", "20")  # all of them take 25 s
    ends.close()
    settled(kafka_broker, target)
    assert done.returncode == 1, done.stdout
    *_, last = (done.stdout + done.stderr).strip().splitlines()
    seen = len(consumed(kafka_broker, target))
    assert 0 < seen < 500
    assert last == f"stopped after {seen} events: run the same command to continue"
    with lent(spark):
        done = here(*call)
    assert done.returncode == 0, done.stderr
    assert f"{500 - seen} events written in all" in done.stdout
    settled(kafka_broker, target)
    found = [(record.partition, record.key, record.value) for record in consumed(kafka_broker, target)]
    wanted = [record for record in consumed(kafka_broker, topic) if record.timestamp[1] < 10_500]
    assert found == [(record.partition, record.key, record.value) for record in wanted]
