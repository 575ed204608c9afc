"""What an archive and a replay cannot do, or not yet: one sentence each, and nothing half written is seen (issue 7)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from bridges.kafka.admin import offsets as queries
from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.contents.ranges import Log, Range
from bridges.spark.archive.monitoring.outages import is_outage
from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.store import STAGING, Archive
from bridges.spark.archive.verification import verify
from bridges.spark.archive.write.task import RangeSource
from bridges.spark.cli.defaults import settings
from bridges.spark.errors import PipelineError
from bridges.spark.replay import job as replaying
from bridges.spark.replay.task import selected_rows
from gateway.config.policy import load
from tests.support.gateway.document import Document
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.plugins.fixtures import served
from tests.support.servers.certs import Authority
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.servers.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.support.spark.pipeline import archived, consumed, files, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRONG = "some-other-phrase-9"
ORDERS = ArchiveSelection(("orders",))


def archive_of(spark: SparkSession, folder: Path, source: Any, bounds: LogBounds = LogBounds()) -> Archive:  # noqa: B008
    """An archive of what a source has."""
    archive = Archive(folder)
    with archive.writing():
        while commit_next(spark, archive, source, bounds):
            pass
    return archive


def origin(broker: KafkaBroker, topic: str) -> KafkaOrigin:
    return KafkaOrigin({"bootstrap.servers": broker.bootstrap}, {topic: "orders"})


def untouched(archive: Path) -> bool:
    """Whether a reader finds nothing there, and nobody what was under way."""
    return not files(archive) and not (archive / STAGING).exists() and not Archive(archive).placed()


# -- TLS and logins


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that lets nobody in is asked until the time is up."""
    monkeypatch.setattr(queries, "_TIMEOUT", 3.0)


def refused(ask: Callable[[], object], reason: str) -> PipelineError:
    """The error of a broker that lets nobody in; one that takes longer to say why than we wait is asked again."""
    errors: list[PipelineError] = []

    def told() -> bool:
        with pytest.raises(PipelineError, match=r"^Kafka at localhost:\d+ ") as caught:
            ask()
        errors.append(caught.value)
        return reason in str(caught.value)

    wait_until(told, f"the reason: {reason}")
    return errors[-1]


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredKafka]:
    yield from served(SecuredKafka())


def cluster(broker: SecuredKafka, login: str, password: str = PASSWORD, ca: Path | None = None) -> dict[str, Any]:
    """A cluster of a policy that is entered in this way."""
    tls: dict[str, Any] = {"ca": str(ca or broker.authority.ca)}
    if login == "mtls":
        own = broker.authority.client("gateway")
        return {"bootstrap": broker.mtls, "security": {"tls": {**tls, "cert": str(own.cert), "key": str(own.key)}}}
    secret = broker.folder / f"{login}-{password}"
    secret.write_text(password)
    sasl = {"mechanism": login, "user": USER, "password": {"file": str(secret)}}
    return {"bootstrap": broker.sasl, "security": {"tls": tls, "sasl": sasl}}


def secured_origin(where: dict[str, Any], topic: str, folder: Path) -> KafkaOrigin:
    """The topic as `--policy` leads to it."""
    document = Document()
    document.kafka(**where)
    (folder / "policy.yaml").write_text(document.text)
    return KafkaOrigin(settings(None, load(folder / "policy.yaml"), None), {topic: "orders"})


@pytest.mark.parametrize("login", ["plain", "scram-sha-256", "scram-sha-512", "mtls"])
def test_tasks_enter_as_the_gateway_does(
    spark: SparkSession, secured: SecuredKafka, tmp_path: Path, login: str
) -> None:
    topic = secured.create_topic()
    produce(secured, topic, 20, 1)
    archive = archive_of(spark, tmp_path / "archive", secured_origin(cluster(secured, login), topic, tmp_path))
    assert archived(read_archive(spark, archive).collect()) == consumed(secured, topic)


@pytest.mark.usefixtures("impatient")
def test_wrong_credentials_are_said(spark: SparkSession, secured: SecuredKafka, tmp_path: Path) -> None:
    source = secured_origin(cluster(secured, "scram-sha-512", WRONG), secured.create_topic(), tmp_path)
    said = str(refused(lambda: archive_of(spark, tmp_path / "archive", source), "uthentication"))
    assert WRONG not in said
    assert "\n" not in said
    assert untouched(tmp_path / "archive")


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_shows_another_certificate_is_not_believed(
    spark: SparkSession, secured: SecuredKafka, tmp_path: Path
) -> None:
    stranger = Authority(secured.folder, "stranger-archive").ca
    source = secured_origin(cluster(secured, "plain", ca=stranger), secured.create_topic(), tmp_path)
    refused(lambda: archive_of(spark, tmp_path / "archive", source), "certificate")


def test_certificates_that_change_while_a_job_runs_are_followed(
    secured: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They expire before a job of months ends; certificate and key are written one after the other."""
    topic, where = secured.create_topic(), cluster(secured, "mtls")
    other = Authority(secured.folder, "stranger-renewal").client("gateway", file="other-renewal")
    first, second = (secured.authority.client("gateway", file=name) for name in ("first", "second"))
    used = {name: tmp_path / name for name in ("cert", "key")}
    where["security"]["tls"] |= {name: str(path) for name, path in used.items()}

    def renew(**files: Path) -> None:
        for name, path in files.items():
            shutil.copyfile(path, used[name])

    renew(cert=first.cert, key=first.key)
    source = secured_origin(where, topic, tmp_path)
    assert len(list(source.logs())) == 1
    renew(cert=second.cert)
    with pytest.raises(PipelineError, match=r"^no client of Kafka at localhost:\d+ can be made: ") as caught:
        list(source.logs())
    assert is_outage(caught.value)
    renew(cert=other.cert, key=other.key)
    with monkeypatch.context() as impatient:
        impatient.setattr(queries, "_TIMEOUT", 3.0)
        assert is_outage(refused(lambda: list(source.logs()), "SSL"))
    renew(cert=second.cert, key=second.key)
    assert len(list(source.logs())) == 1
    assert source.source()._settings["ssl.certificate.pem"] == second.cert.read_text()


def test_a_topic_that_may_not_be_read_is_said(spark: SparkSession, secured: SecuredKafka, tmp_path: Path) -> None:
    topic = secured.create_topic()
    produce(secured, topic, 20, 1)
    where = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL
    rules = [
        AclBinding(*where, f"User:{USER}", "*", AclOperation.READ, AclPermissionType.DENY),
        AclBinding(*where, "User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW),
    ]
    admin = secured.admin()
    for answer in admin.create_acls(rules).values():
        answer.result(PATIENCE)
    secured.take_changes()
    source = secured_origin(cluster(secured, "scram-sha-256"), topic, tmp_path)
    with pytest.raises(PipelineError, match=f"^commit 1: Kafka denies access: .*{topic}"):
        archive_of(spark, tmp_path / "archive", source)
    assert untouched(tmp_path / "archive")


# -- offsets, files, records


class Earlier:
    """An origin that was asked what there is before something was deleted: what can happen to every job."""

    def __init__(self, source: KafkaOrigin) -> None:
        self._source, self._logs = source, list(source.logs())

    def logs(self) -> Iterable[Log]:
        return self._logs

    def identities(self, addresses: Collection[str]) -> Mapping[str, str | None]:
        return self._source.identities(addresses)

    def source(self) -> RangeSource:
        return self._source.source()

    def holding(self, gaps: Sequence[Range]) -> Iterable[Range]:
        return self._source.holding(gaps)


def test_offsets_that_go_while_they_are_read_are_said(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, 50, 1)
    source = Earlier(origin(kafka_broker, topic))
    place = TopicPartition(topic, 0, 20)
    admin = kafka_broker.admin()
    admin.delete_records([place])[place].result(PATIENCE)
    with pytest.raises(PipelineError, match=r"^commit 1: offsets were deleted from the topic while they were read"):
        archive_of(spark, tmp_path / "archive", source)
    assert untouched(tmp_path / "archive")
    archive = archive_of(spark, tmp_path / "archive", origin(kafka_broker, topic))  # a job asks anew
    assert [(each.start, each.end) for each in verify(archive).ranges] == [(20, 50)]


def test_a_topic_that_is_recreated_while_it_is_read_is_said(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """Its events have the offsets of the old ones: they were archived in their place."""
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, 20, 1)
    source = Earlier(origin(kafka_broker, topic))
    kafka_broker.recreate(topic)
    produce(kafka_broker, topic, 30, 1)
    with pytest.raises(PipelineError, match=r"the topic was recreated while it was read .*: run the command again$"):
        archive_of(spark, tmp_path / "archive", source)
    assert untouched(tmp_path / "archive")
    assert verify(archive_of(spark, tmp_path / "archive", origin(kafka_broker, topic))).rows == 30


def test_offsets_that_the_archive_does_not_have_are_said(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic(partitions=2)
    produce(kafka_broker, topic, 40, 2)
    archive = archive_of(spark, tmp_path / "archive", origin(kafka_broker, topic))
    for offsets, said in (
        ({7: (0, 5)}, "orders, partition 7: it is not in the archive (there is: 0, 1)"),
        ({0: (10, 30)}, "orders, partition 0: offsets 10 to 30 (exclusive) are asked for, "
                        "the archive has 0 to 20"),
        ({1: (10, 10)}, "orders, partition 1: offsets 10 to 10 (exclusive) are asked for, "
                        "the archive has 0 to 20"),
    ):  # fmt: skip
        with pytest.raises(PipelineError) as caught:
            replaying.count(archive, ArchiveSelection(("orders",), offsets=offsets))
        assert str(caught.value) == said
    assert replaying.count(archive, ArchiveSelection(("orders",), offsets={0: (10, 20)})) == 10


def everything(archive: Archive) -> list[Any]:
    """What a replay would send."""
    found = selected_rows(archive.path, replaying.check(archive, ORDERS), ORDERS, {})
    return [row for batch in found for row in batch.to_pylist()]


def test_a_damaged_file_is_named_and_never_read_as_other_events(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, 200, 1)
    archive = archive_of(spark, tmp_path / "archive", origin(kafka_broker, topic))
    path, *_ = files(archive.path)
    whole = path.read_bytes()
    events = everything(archive)
    said = []
    rows = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")  # what follows is the footer
    for place in range(8, rows, rows // 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        assert verify(archive).problems == (
            f"commit 1: {path} is not the file that was committed: its bytes changed",
        )
        try:
            assert everything(archive) == events  # a byte that says nothing of them
        except PipelineError as error:
            said.append(str(error))
    assert len(said) > 2
    assert set(said) == {f"{path} cannot be read as Parquet"}


def test_records_of_a_mapping_to_come_are_kept_and_not_guessed_at(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic()
    producer = new_producer(kafka_broker.bootstrap)
    headers: list[list[tuple[str, Any]]] = [
        [("color", b"red"), ("amqp.bare", b"\x07" + bytes(16) + b"\x00sections of a version to come")],
        [("amqp.body", b"parquet")],
        [("color", b"red")],
        [("amqp.bare", b"\x01damaged"), ("amqp.body", b"sections")],
    ]
    for each in headers:
        producer.produce(topic, b"value", b"key", headers=each)
    assert producer.flush(PATIENCE) == 0
    with pytest.raises(PipelineError, match=r"^2 records have a mapping of a newer version"):
        archive_of(spark, tmp_path / "archive", origin(kafka_broker, topic), LogBounds(fail_on_unknown=True))
    assert untouched(tmp_path / "archive")
    archive = archive_of(spark, tmp_path / "archive", origin(kafka_broker, topic))
    assert (verify(archive).unknown, verify(archive).problems) == (2, ())
    rows = read_archive(spark, archive).orderBy("offset").collect()
    assert archived(rows) == consumed(kafka_broker, topic)
    assert [(bytes(row.body), row.body_kind) for row in rows] == [(b"value", "data")] * 4
    assert [row.properties.content_type if row.properties else None for row in rows] == [None] * 4
