"""Delivery reports of a cluster's producer, polled in C and by the Python client (KM-15, decision 18)."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bridges.kafka.admin.embedded import EmbeddedKafka
from bridges.kafka.clusters.cluster import Cluster, ClusterConfig
from bridges.kafka.common.librdkafka import function
from bridges.kafka.consume.poll import poll_native
from bridges.kafka.produce import client as outbox
from bridges.kafka.produce.producer import ClusterProducer, ReportCallback
from gateway.tasks import Supervisor
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers.secured_kafka import PASSWORD, USER, TokenEndpoint

TOPIC = "reports"


class ReportRecorder:
    """An owner of records that stores its delivery reports, in order."""

    def __init__(self, fails: bool = False) -> None:
        self.heard: list[Any] = []
        self._fails = fails

    def on_written(self, contexts: list[Any]) -> None:
        self.heard += contexts
        if self._fails:
            raise RuntimeError("who hears this fails")

    def on_failed(self, contexts: list[Any], error: KafkaError, *, keyed: bool, batch: int) -> None:
        self.heard += [(each, error.code(), keyed) for each in contexts]


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    kafka = EmbeddedKafka()
    kafka.create_topic(TOPIC, 1)
    yield kafka
    kafka.close()


@pytest.fixture(params=[outbox.NativeClient, outbox.FallbackClient])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Both ways to poll reports."""
    monkeypatch.setattr(outbox, "BOUND", request.param is outbox.NativeClient)
    return request.param


class Place:
    """A cluster, what it logged of the loop, and its producer."""

    def __init__(self, bootstrap: str, **client: str) -> None:
        loop = asyncio.get_running_loop()
        self.failed: list[Any] = []
        loop.set_exception_handler(lambda _, context: self.failed.append(context["exception"]))
        self.supervisor = Supervisor(lambda _, error: self.failed.append(error))
        self.cluster = Cluster("main", ClusterConfig(bootstrap, client, plain=True), loop, self.supervisor)
        self.producer = ClusterProducer(self.cluster)

    def put(self, owner: Any, context: Any, key: bytes | None = None) -> None:
        self.producer.produce(TOPIC, -1, key, b"v", None, owner, context)

    @property
    def client(self) -> Producer:
        (outbox,) = self.producer._clients.values()
        return outbox.client

    async def close(self, limit: float = 5) -> None:
        await self.producer.close(limit)
        await self.supervisor.close()
        await self.cluster.close()

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110  what is waited for is what Kafka does
                await asyncio.sleep(0)


@pytest.fixture
async def place(kafka: EmbeddedKafka, way: Any) -> AsyncIterator[Place]:
    place = Place(kafka.bootstrap)
    yield place
    await place.close()


def pointer(client: Producer) -> ctypes.c_void_p:
    """librdkafka's handle, from which the C code gets it, too."""
    return ctypes.cast(id(client) + object.__basicsize__, ctypes.POINTER(ctypes.c_void_p))[0]  # type: ignore[return-value]


def break_for_good(client: Producer) -> None:
    """Cause the fatal error of an idempotent producer that cannot know what was written."""
    test = function("rd_kafka_test_fatal_error", ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    assert test(pointer(client), KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, b"as a test") == 0


async def test_reports_come_to_their_owners_in_order(place: Place) -> None:
    one, other, calls = ReportRecorder(), ReportRecorder(), list[Any]()
    for number in range(300):
        place.put(one if number % 3 else other, number)
    place.producer.produce(TOPIC, -1, None, b"", None, ReportCallback(calls.append))
    await place.until(lambda: len(one.heard) + len(other.heard) == 300 and calls)
    assert one.heard == [number for number in range(300) if number % 3]
    assert other.heard == [number for number in range(300) if number % 3 == 0]
    assert calls == [None]
    await place.until(lambda: len(place.producer) == 0)


async def test_who_fails_does_not_keep_others_from_hearing(place: Place) -> None:
    failing, others = ReportRecorder(fails=True), [ReportRecorder() for _ in range(5)]
    for owner in (*others[:2], failing, *others[2:]):
        place.put(owner, 1)
    await place.until(lambda: all(each.heard for each in (failing, *others)))
    assert [each.heard for each in (failing, *others)] == [[1]] * 6
    assert [str(each) for each in place.failed] == ["who hears this fails"]


async def test_an_outage_is_told_and_ends_records_in_time(kafka: EmbeddedKafka, way: Any) -> None:
    place = Place(kafka.bootstrap, **{"message.timeout.ms": "300"})
    owner = ReportRecorder()
    await place.until(lambda: place.cluster.up)
    kafka.set_reachable(False)
    place.put(owner, "plain")
    place.put(owner, "keyed", b"k")
    await place.until(lambda: not place.cluster.up)
    await place.until(lambda: len(owner.heard) == 2)
    assert owner.heard == [("plain", KafkaError._MSG_TIMED_OUT, False), ("keyed", KafkaError._MSG_TIMED_OUT, True)]
    kafka.set_reachable(True)
    await place.until(lambda: place.cluster.up)
    later = ReportRecorder()
    while later.heard[-1:] != ["later"]:  # before it is connected again they end as the others did
        place.put(later, "later")
        await place.until(lambda: len(place.producer) == 0)
    assert len(owner.heard) == 2
    await place.close()


async def test_a_producer_that_can_write_no_more_is_replaced(
    place: Place, kafka: EmbeddedKafka
) -> None:
    owner, broken = ReportRecorder(), place.client
    kafka.set_reachable(False)
    place.put(owner, "lost")
    break_for_good(broken)
    await place.until(lambda: place.client is not broken)
    await place.until(lambda: owner.heard)
    ((context, code, keyed),) = owner.heard
    assert (context, keyed) == ("lost", False)
    assert code in (KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    with pytest.raises(KafkaException):
        broken.produce(TOPIC, b"v")
    kafka.set_reachable(True)
    place.put(owner, "written")
    await place.until(lambda: owner.heard[1:] == ["written"])
    await place.until(lambda: not place.producer._retired)


async def test_what_is_under_way_at_the_end_is_told_then_and_nothing_later(kafka: EmbeddedKafka, way: Any) -> None:
    place, owner = Place(kafka.bootstrap), ReportRecorder()
    kafka.set_reachable(False)
    for number in range(1000):
        place.put(owner, number)
    await place.close(0.01)
    assert [each[0] for each in owner.heard] == list(range(1000))
    assert {each[1] for each in owner.heard} <= {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
    kafka.set_reachable(True)
    del place.producer
    assert len(owner.heard) == 1000


async def test_a_full_queue_takes_what_it_can(kafka: EmbeddedKafka, way: Any) -> None:
    place, owner = Place(kafka.bootstrap), ReportRecorder()
    place.producer._settings["queue.buffering.max.messages"] = 10
    place.producer._add_client(place.producer._default_size)
    await place.cluster.probed.wait()
    for number in range(10):
        place.put(owner, number)
    with pytest.raises(BufferError):
        place.put(owner, "too much")
    await place.until(lambda: owner.heard == list(range(10)))
    place.put(owner, "again")
    await place.until(lambda: owner.heard[10:] == ["again"])
    await place.close()


async def test_plain_messages_are_written_as_their_data(place: Place, kafka: EmbeddedKafka) -> None:
    owner = ReportRecorder()
    run = [(number, b"\x00\x53\x75\xa0\x04%04d" % number, False) for number in range(500)]
    at = place.producer.produce_messages(TOPIC, 0, run, 0, owner, 0)
    for delivery, data, _ in run[at:]:  # the Python client polls none of them
        place.producer.produce(TOPIC, 0, None, data[5:], None, owner, delivery)
    await place.until(lambda: owner.heard == list(range(500)))
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "t", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[bytes] = []
    wait_until(
        lambda: found.extend(each.value() for run in poll_native(consumer, 500, 0.1).records.values() for each in run)
        or len(found) == 500,
        "all records",
    )
    consumer.close()
    assert found == [b"%04d" % number for number in range(500)]


def test_tokens_are_refreshed_while_nothing_but_reports_is_asked_for() -> None:
    """OAUTHBEARER as in the policy: librdkafka fetches its tokens on its own thread."""
    tokens = TokenEndpoint(lifetime=2)
    oidc = {"method": "oidc", "client.id": USER, "client.secret": PASSWORD, "token.endpoint.url": tokens.url}
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    settings = {**sasl, **{f"sasl.oauthbearer.{name}": value for name, value in oidc.items()}, "log_level": 0}
    said: list[KafkaError] = []
    try:
        each = outbox.make_client({"bootstrap.servers": "127.0.0.1:1", **settings}, said.append)
        assert isinstance(each, outbox.NativeClient)
        wait_until(lambda: not each.reports() and len(tokens.asked) > 2, "three tokens")
    finally:
        tokens.stop()


def test_a_client_says_that_brokers_are_away(way: Any) -> None:
    said: list[KafkaError] = []
    each = way({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, said.append)
    wait_until(lambda: each.reports() or KafkaError._ALL_BROKERS_DOWN in [error.code() for error in said], "the news")
    assert not any(error.fatal() for error in said)
    assert all(error.str() for error in said)
