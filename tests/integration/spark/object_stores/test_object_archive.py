"""Archives at s3://…: commands with credentials in the environment, tasks without a jar, every byte as Kafka has it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.monitoring.outages import is_outage
from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.storage.paths import storage_path
from bridges.spark.archive.store import Archive
from bridges.spark.errors import PipelineError
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.object_store import BUCKET, KEY, SECRET, ObjectStore
from tests.support.spark.duckdb_iceberg import queried
from tests.support.spark.pipeline import Record, archived, consumed, here, lent, produce, settled
from tests.support.spark.simulation import NOW, candidate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADDRESS = "orders/eu"
LIMITS = LogBounds()


@contextmanager
def environment(spark: SparkSession, **variables: str) -> Iterator[None]:
    """The tasks have these variables meanwhile."""
    tasks = spark.sparkContext.environment
    before = dict(tasks)
    tasks.update(variables)
    try:
        yield
    finally:
        tasks.clear()
        tasks.update(before)


class Kept(NamedTuple):
    """A topic and its archive of two commits, for tests that change neither."""

    url: str
    topic: str
    archive: Archive
    seen: list[Record]


@pytest.fixture(scope="module")
def kept(spark: SparkSession, kafka_broker: KafkaBroker, object_store: ObjectStore) -> Iterator[Kept]:
    topic, url = kafka_broker.create_topic(partitions=3), f"s3a://{BUCKET}/kept/orders"
    produce(kafka_broker, topic, 300, 3)
    what = ("--kafka", kafka_broker.bootstrap, "--topic", f"{topic}={ADDRESS}", "--once", "--offsets", "200")
    with object_store.in_environment(), environment(spark, **object_store.environment), lent(spark):
        for first, more in ((0, ("--format", "iceberg")), (300, ())):
            if first:
                produce(kafka_broker, topic, 50, 3, first=first)
            done = here("archive", url, *what, *more, "--s3-endpoint", object_store.endpoint)
            assert done.returncode == 0, done.stderr
            assert SECRET not in done.stdout + done.stderr
        archive = Archive(storage_path(url))
        yield Kept(url, topic, archive, consumed(kafka_broker, topic))


def test_what_is_archived_is_what_consumers_see(spark: SparkSession, kept: Kept) -> None:
    assert archived(read_archive(spark, kept.archive).collect()) == kept.seen
    red = read_archive(spark, kept.archive, ArchiveSelection((ADDRESS,), filter="a.color = 'red'"))
    assert 0 < red.count() < 350
    done = here("verify", kept.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("350 events in ")


def test_it_is_compared_with_the_topic(kafka_broker: KafkaBroker, kept: Kept) -> None:
    what = ("--against", "kafka", "--kafka", kafka_broker.bootstrap, "--topic", f"{kept.topic}={ADDRESS}")
    done = here("verify", kept.url, *what)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("compared with the topic") == 3


def test_a_replay_is_byte_for_byte(spark: SparkSession, kafka_broker: KafkaBroker, kept: Kept) -> None:
    topic = kafka_broker.create_topic(partitions=3)
    with lent(spark):
        done = here("replay", kept.url, "--from", ADDRESS, "--kafka", kafka_broker.bootstrap, "--topic", topic)
    assert done.returncode == 0, done.stderr
    settled(kafka_broker, topic)
    found = [record._replace(offset=0) for record in consumed(kafka_broker, topic)]
    assert found == [record._replace(offset=0) for record in kept.seen]


def test_duckdb_reads_the_iceberg_table(kept: Kept) -> None:
    """With its own client of object stores, and its own implementation of Iceberg."""
    query = 'SELECT partition, "offset", key FROM events ORDER BY partition, "offset"'
    found = queried(kept.archive, query)
    assert found == [[each.partition, each.offset, None if each.key is None else each.key.hex()] for each in kept.seen]


def test_duckdb_reads_the_objects(kept: Kept) -> None:
    """Without the table, through Arrow."""
    tables = []
    for _, file in kept.archive.readable().live_files():
        data = (kept.archive.path / file.path).read_bytes()
        tables.append(pq.read_table(io.BytesIO(data), columns=["partition", "offset", "key"]))
    connection = duckdb.connect()
    connection.register("events", pa.concat_tables(tables))
    query = "SELECT partition, count(*), min(\"offset\"), max(\"offset\") FROM events GROUP BY 1 ORDER BY 1"
    found = connection.sql(query)
    wanted = [[each for each in kept.seen if each.partition == number] for number in range(3)]
    assert found.fetchall() == [(n, len(each), each[0].offset, each[-1].offset) for n, each in enumerate(wanted)]


def test_compaction_expiry_and_erasure(spark: SparkSession, kept: Kept) -> None:
    """In a copy: the files become one, later the old ones go, then a key, then the date."""
    url, seen = f"s3://{BUCKET}/copy", kept.seen
    copy = Archive(storage_path(url))
    for path in kept.archive.path.glob("_manifest/*"):
        (copy.path / str(path).removeprefix(f"{kept.archive.path}/")).write_bytes(path.read_bytes())
    for path in kept.archive.path.glob("address=*/date=*/*.parquet"):
        (copy.path / str(path).removeprefix(f"{kept.archive.path}/")).write_bytes(path.read_bytes())
    before = len(list(copy.readable().live_files()))
    assert (done := here("compact", url)).returncode == 0, done.stderr
    assert len(list(copy.readable().live_files())) == 1 < before == len(list(copy.path.glob("address=*/date=*/*")))
    assert archived(read_archive(spark, copy).collect()) == seen
    assert (done := here("verify", url)).returncode == 0, done.stderr
    assert (done := here("erase", url, "--key", "k1", "--yes")).returncode == 0, done.stderr
    assert archived(read_archive(spark, copy).collect()) == [each for each in seen if each.key != b"k1"]
    assert len(list(copy.path.glob("address=*/date=*/*"))) == 1
    assert not list(copy.path.glob("_compacted/*/address=*/date=*/*"))
    assert (done := here("verify", url)).returncode == 0, done.stderr
    assert (done := here("expire", url, "--before", "1971-01-01", "--yes")).returncode == 0, done.stderr
    assert not list(copy.path.glob("address=*/date=*/*"))
    assert (done := here("verify", url)).returncode == 0, done.stderr
    assert not list(copy.path.glob("_staging/*"))


def test_a_worker_that_the_store_refuses_loses_nothing_and_may_be_let_in_later(
    spark: SparkSession, kafka_broker: KafkaBroker, object_store: ObjectStore
) -> None:
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, 20, 1)
    others = {**object_store.environment, "AWS_ACCESS_KEY_ID": "AKIAOTHER"}
    with object_store.in_environment(), environment(spark, **others):
        archive = Archive(storage_path(f"s3://{BUCKET}/apart"))
        source = KafkaOrigin({"bootstrap.servers": kafka_broker.bootstrap}, {topic: ADDRESS})
        with archive.writing(), pytest.raises(PipelineError) as refused:
            commit_next(spark, archive, source, LIMITS)
        said = str(refused.value)
        assert said.startswith("commit 2: the worker of Spark at ")
        assert "the object store denies access (InvalidAccessKeyId)" in said
        assert is_outage(refused.value)
        assert not [each for each in (KEY, SECRET) if each in said]
        assert not archive.history().ends


def test_a_report_a_simulation_and_views(
    spark: SparkSession, object_store: ObjectStore, kept: Kept, tmp_path: Path
) -> None:
    with lent(spark):
        done = here("report", kept.url, "--out", tmp_path / "report")
        assert done.returncode == 0, done.stderr
        traffic = pq.read_table(tmp_path / "report" / "tables" / "archive_traffic.parquet")
        assert sum(traffic.column("events").to_pylist()) == 350
        (tmp_path / "now.yaml").write_text(NOW)
        (tmp_path / "new.yaml").write_text(candidate())
        policies = ("--policy", tmp_path / "now.yaml", "--candidate", tmp_path / "new.yaml")
        done = here("simulate", *policies, "--messages", kept.url, "--scope", "edge", "--user", "app", "--json")
        assert json.loads(done.stdout)["total"]["samples"] == 350, done.stderr
    done = here("views", kept.url)
    assert done.returncode == 0, done.stderr
    assert f"FROM read_parquet('s3://{BUCKET}/kept/orders/address=orders%2Feu/*/*.parquet'" in done.stdout


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("AWS_ENDPOINT_URL_S3", "store.example", "the endpoint 'store.example' of the object store is not a URL "),
        ("AWS_ENDPOINT_URL_S3", "ftp://store.example", "check --s3-endpoint, or AWS_ENDPOINT_URL_S3"),
        ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1", "check the endpoint (--s3-endpoint, AWS_ENDPOINT_URL_S3)"),
        ("AWS_ACCESS_KEY_ID", "AKIAOTHER", "check the credentials (AWS_ACCESS_KEY_ID and so on)"),
    ],
)
def test_an_endpoint_or_credentials_that_are_wrong_are_named(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    """Before Spark starts, and in one line."""
    with object_store.in_environment():
        monkeypatch.setenv("AWS_REGION", "eu-central-1")  # a client of its own: this process has one of the other tests
        monkeypatch.setenv(variable, value)
        for arguments in (("verify",), ("archive", "--kafka", "127.0.0.1:1", "--topic", "t", "--once")):
            done = here(arguments[0], f"s3://{BUCKET}/a", *arguments[1:])
            assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
            assert said in done.stderr
            assert SECRET not in done.stderr


def test_a_policy_says_where_the_store_is(
    object_store: ObjectStore, kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    monkeypatch.delenv("AWS_REGION")
    file = tmp_path / "policy.yaml"
    where = f'path: "{kept.url}", s3_endpoint: "{object_store.endpoint}", s3_region: us-east-1'
    file.write_text(f"pipeline: {{archive: {{{where}}}}}\nscopes: {{edge: {{}}}}\n")
    monkeypatch.setattr(os, "environ", os.environ.copy())  # options go to the environment of the job
    done = here("verify", "--policy", file)
    assert done.returncode == 0, done.stderr
    file.write_text(file.read_text().replace(object_store.endpoint, "store.example"))
    done = here("verify", "--policy", file)
    assert done.returncode == 1
    assert "policy.yaml:1:" in done.stderr
    assert "pipeline.archive.s3_endpoint: must be a URL " in done.stderr


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("gs://bucket/a", "or s3://bucket/prefix for an object store"),
        ("hdfs:/a", "or s3://bucket/prefix for an object store"),
        ("s3://Bucket_/a", "does not name a bucket: give s3://bucket/prefix"),
        ("s3://bucket/a//b", "a part of the path is empty, . or .."),
    ],
)
def test_other_urls_are_refused(url: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = here("verify", url)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_what_is_no_archive_is_said(object_store: ObjectStore) -> None:
    with object_store.in_environment():
        done = here("verify", f"s3://{BUCKET}/nothing")
        assert (done.returncode, done.stderr) == (1, f"s3://{BUCKET}/nothing is not an archive: it has no _manifest\n")
        done = here("verify", "s3://no-such-bucket/nothing")
        assert done.returncode == 1
        assert "there is no such bucket" in done.stderr
