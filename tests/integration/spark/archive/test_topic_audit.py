"""`verify --against kafka`: losses and changes that the archive itself cannot know are found in the topic."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition

from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.maintenance.removal import erase, expire, plan_erasure, plan_expiry
from bridges.spark.archive.manifest import disk
from bridges.spark.archive.manifest.commits import to_json
from bridges.spark.archive.storage.paths import write_whole
from bridges.spark.archive.store import MANIFEST, Archive
from bridges.spark.archive.verification import verify
from tests.support.gateway.process import PATIENCE
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.spark.pipeline import here, produce, settled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AuditedTopic(NamedTuple):
    """A topic with transactions and odd records, and its archive."""

    topic: str
    archive: Path


@pytest.fixture(scope="module")
def kept(spark: SparkSession, kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> AuditedTopic:
    topic = kafka_broker.create_topic(partitions=2)
    archive = Archive(tmp_path_factory.mktemp("kept") / "archive")
    produce(kafka_broker, topic, 200, 2)
    producer = new_producer(kafka_broker.bootstrap, **{"transactional.id": topic})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction", None, 0)
    producer.commit_transaction(PATIENCE)  # its end takes an offset
    settled(kafka_broker, topic)
    produce(kafka_broker, topic, 20, 2, first=200)
    origin = KafkaOrigin({"bootstrap.servers": kafka_broker.bootstrap}, {topic: "orders"})
    with archive.writing():
        while commit_next(spark, archive, origin, LogBounds(offsets=120)):
            pass
    return AuditedTopic(topic, archive.path)


def compared(
    broker: KafkaBroker, kept: AuditedTopic, archive: Path, *options: object
) -> tuple[int, list[str], list[str]]:
    """The exit code and the lines of output and errors."""
    call = "verify", archive, "--against", "kafka", "--kafka", broker.bootstrap, "--topic", f"{kept.topic}=orders"
    done = here(*call, *options)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def changed(kept: AuditedTopic, path: Path, change: Callable[[pa.Table], pa.Table]) -> Archive:
    """A copy in which the first file is another one, and the manifest believes it: only the topic knows better."""
    shutil.copytree(kept.archive, path)
    archive = Archive(path)
    first = archive.commits()[0]
    file = path / first.files[0].path
    table = change(pq.ParquetFile(file).read())
    pq.write_table(table, file)
    entry = replace(first.files[0], bytes=file.stat().st_size, sha256=disk.digest(file), parts=())
    partitions = table.column("partition").to_pylist()
    rest = [pq.ParquetFile(path / each.path).read(columns=["partition"]) for each in first.files[1:]]
    partitions += [number for each in rest for number in each.column("partition").to_pylist()]
    ranges = tuple(replace(each, rows=partitions.count(each.partition)) for each in first.ranges)
    text = to_json(replace(first, ranges=ranges, files=(entry, *first.files[1:])))
    write_whole(disk.manifest_path(path / MANIFEST, 1), text)
    assert verify(archive).problems == ()
    return archive


def test_what_is_whole_is_the_same_as_the_topic(kafka_broker: KafkaBroker, kept: AuditedTopic) -> None:
    code, said, errors = compared(kafka_broker, kept, kept.archive)
    assert (code, errors) == (0, [])
    events = verify(Archive(kept.archive)).ranges
    for each, line in zip(events, said[-2:], strict=True):
        assert line == f"orders, partition {each.partition}: {each.rows} events, {each.rows} compared with the topic"
    code, said, errors = compared(kafka_broker, kept, kept.archive, "--sample", 50)
    assert (code, errors) == (0, [])
    assert all(line.endswith(" events, 50 compared with the topic") for line in said[-2:])
    produce(kafka_broker, kept.topic, 10, 2, first=220)
    code, said, errors = compared(kafka_broker, kept, kept.archive, "--sample", 0)
    assert (code, errors) == (0, [])
    assert said[-1].endswith("0 compared with the topic, 5 offsets of the topic are not archived yet")


def test_rows_that_were_lost_unseen_are_found_in_the_topic(
    kafka_broker: KafkaBroker, kept: AuditedTopic, tmp_path: Path
) -> None:
    """As after a worker without the archive's folder: the manifest counts what is there, and is at one with it."""

    def lose(table: pa.Table) -> pa.Table:
        offsets, partitions = (table.column(name).to_numpy() for name in ("offset", "partition"))
        return table.filter(pa.array((partitions != 0) | (offsets < 7) | (offsets > 9)))

    lossy = changed(kept, tmp_path / "lossy", lose)
    code, _, errors = compared(kafka_broker, kept, lossy.path, "--sample", 0)
    found = "orders, partition 0: the topic has events at offsets 7 to 9, which the archive lacks"
    assert (code, errors) == (1, [f"wrong: {found}"])


def erased(archive: Archive) -> None:
    assert list(erase(archive, b"k3", list(plan_erasure(archive, b"k3"))))


def expired(archive: Archive) -> None:
    assert list(expire(archive, list(plan_expiry(archive, date(1970, 1, 2)))))


@pytest.mark.parametrize("remove", [erased, expired])
def test_events_removed_on_purpose_are_no_loss_and_others_of_their_partition_are(
    kafka_broker: KafkaBroker, kept: AuditedTopic, tmp_path: Path, remove: Callable[[Archive], None]
) -> None:
    shutil.copytree(kept.archive, tmp_path / "whole")
    remove(Archive(tmp_path / "whole"))
    assert compared(kafka_broker, kept, tmp_path / "whole")[::2] == (0, [])

    def lose(table: pa.Table) -> pa.Table:
        lost = pc.and_(pc.equal(table.column("partition"), 0), pc.equal(table.column("key"), b"k1"))
        return table.filter(pc.invert(pc.fill_null(lost, False)))

    if remove is erased:
        lossy = changed(kept, tmp_path / "lossy", lose)
        remove(lossy)
        code, _, errors = compared(kafka_broker, kept, lossy.path, "--sample", 0)
        assert (code, len(errors) > 0) == (1, True)
        start = "wrong: orders, partition 0: the topic has events at offsets "
        end = "not removed from the archive on purpose"
        assert all(each.startswith(start) and each.endswith(end) for each in errors)


@pytest.mark.parametrize("what", ["value", "key", "headers", "timestamp"])
def test_a_record_that_differs_is_found_in_the_sample(
    kafka_broker: KafkaBroker, kept: AuditedTopic, tmp_path: Path, what: str
) -> None:
    lines = compared(kafka_broker, kept, changed(kept, tmp_path / "b", lambda table: spoilt(table, what)).path)[2]
    assert lines
    assert {line.split(" of the event")[0] for line in lines} <= {
        f"wrong: orders, partition {number}: the {what}" for number in (0, 1)
    }


def spoilt(table: pa.Table, what: str) -> pa.Table:
    """Every record of the table is another one in this respect."""
    name = {"value": "record", "headers": "record"}.get(what, what)
    place = table.schema.get_field_index(name)
    if what == "timestamp":
        times = pa.array([7] * len(table), pa.timestamp("ms", "UTC"))
        column = pa.chunked_array([times.cast(table.schema.field(place).type)])
    elif what == "key":
        column = pa.chunked_array([pa.array([b"strange"] * len(table), table.schema.field(place).type)])
    else:
        rows: list[Any] = table.column(place).to_pylist()
        other = {"value": {"value": b"strange", "value_in_body": False}, "headers": {"headers": []}}[what]
        if what == "headers":
            other = {"headers": [{"key": "strange", "value": None}]}
        column = pa.chunked_array([pa.array([{**row, **other} for row in rows], table.schema.field(place).type)])
    return table.set_column(place, table.schema.field(place), column)


def test_another_topic_and_a_mistake_are_said(kafka_broker: KafkaBroker, kept: AuditedTopic) -> None:
    other = kafka_broker.create_topic(partitions=2)
    produce(kafka_broker, other, 500, 2)
    code, _, errors = compared(kafka_broker, AuditedTopic(other, kept.archive), kept.archive)
    assert code == 1
    assert errors[0] == "wrong: orders, partition 0: the topic was recreated, there is nothing to compare with"
    done = here("verify", kept.archive, "--against", "kafka", "--kafka", kafka_broker.bootstrap)
    assert (done.returncode, "name the topics to compare with" in done.stderr) == (2, True)
    done = here(
        "verify", kept.archive, "--against", "kafka", "--kafka", kafka_broker.bootstrap, "--topic", kept.topic
    )
    assert done.stderr == f"the archive has no address {kept.topic} (it has: orders)\n"


def test_offsets_that_the_topic_has_deleted_are_not_compared(
    kafka_broker: KafkaBroker, kept: AuditedTopic
) -> None:
    place, admin = TopicPartition(kept.topic, 0, 50), kafka_broker.admin()  # an answer ends with its client
    admin.delete_records([place])[place].result(PATIENCE)
    assert compared(kafka_broker, kept, kept.archive)[::2] == (0, [])
