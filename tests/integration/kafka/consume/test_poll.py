"""Both ways to poll records from a Kafka client, on both Kafkas (decision 17)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bridges.kafka.admin.embedded import EmbeddedKafka
from bridges.kafka.clusters.cluster import ClusterConfig
from bridges.kafka.common.librdkafka import function
from bridges.kafka.consume import _fetch, poll, reader
from bridges.kafka.consume.poll import Failure, Poller, PollResult, poll_fallback, poll_native
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.kafka.streams import Streams
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.servers.secured_kafka import PASSWORD, USER, TokenEndpoint

TOPIC = "orders"
_pointer = c_void_p
_END, _TOPIC, _PARTITION, _HEADER = map(c_int, (0, 1, 3, 9))
"""The argument types of `rd_kafka_producev`."""
BOTH = pytest.mark.parametrize("take", [poll_native, poll_fallback])
RECORDS: list[dict[str, Any]] = [
    {"value": b"plain"},
    {"value": b"", "key": b""},
    {"value": None, "key": b"gone"},
    {"value": b"x" * 70_000, "key": b"k" * 300, "timestamp": 1_700_000_000_000},
    {"value": b"with headers", "headers": [("a", b"1"), ("a", b"2"), ("null", None), ("", b""), ("é", b"\xff")]},
    {"value": b"none", "headers": []},
]


@pytest.fixture
def embedded() -> Iterator[EmbeddedKafka]:
    kafka = EmbeddedKafka()
    kafka.create_topic(TOPIC, 3)
    yield kafka
    kafka.close()


@contextmanager
def reading(bootstrap: str, topic: str, offset: int = 0, partitions: int = 1, **more: Any) -> Iterator[Consumer]:
    settings = {**reader._SETTINGS, "bootstrap.servers": bootstrap, "log_level": 0, **more}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, offset) for partition in range(partitions)])
        yield consumer


def produce(bootstrap: str, topic: str, records: list[dict[str, Any]], partition: int = 0) -> None:
    errors: list[Any] = []
    producer = new_producer(bootstrap)
    for record in records:
        producer.produce(topic, partition=partition, on_delivery=lambda error, _: errors.append(error), **record)
    assert producer.flush(PATIENCE) == 0
    assert errors == [None] * len(records)


def until(take: Poller, consumer: Consumer, done: Callable[[list[Any], list[Failure]], bool]) -> list[Any]:
    """Poll until the condition holds; return the results."""
    records: list[Any] = []
    failures: list[Failure] = []

    def more() -> bool:
        taken = take(consumer, 4, 0.05)
        for run in taken.records.values():
            records.extend(run)
        failures.extend(taken.failures)
        return done(records, failures)

    wait_until(more, "enough records or errors")
    return failures or records


def record_fields(record: Any) -> tuple[Any, ...]:
    where = record.topic(), record.partition(), record.offset(), record.timestamp()
    return *where, record.key(), record.value(), record.headers(), record.error(), len(record)


def check_same(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, RECORDS)
    found = []
    for take in (poll_native, poll_fallback):
        with reading(bootstrap, topic, **{"enable.partition.eof": False}) as consumer:
            found.append(
                list(map(record_fields, until(take, consumer, lambda records, _: len(records) == len(RECORDS))))
            )
            (place,) = consumer.position([TopicPartition(topic, 0)])
            assert place.offset == len(RECORDS)
    assert found[0] == found[1]
    assert [each[5] for each in found[0]] == [record["value"] for record in RECORDS]


def test_records_are_the_same_on_a_broker(kafka_broker: KafkaBroker) -> None:
    check_same(kafka_broker.bootstrap, kafka_broker.create_topic())


def test_records_are_the_same_on_the_embedded_kafka(embedded: EmbeddedKafka) -> None:
    check_same(embedded.bootstrap, TOPIC)


def test_records_outlive_their_client(embedded: EmbeddedKafka) -> None:
    produce(embedded.bootstrap, TOPIC, RECORDS)
    with reading(embedded.bootstrap, TOPIC, **{"enable.partition.eof": False}) as consumer:
        records = until(poll_native, consumer, lambda records, _: len(records) == len(RECORDS))
    assert [record.value() for record in records] == [record["value"] for record in RECORDS]
    assert records[4].headers() == RECORDS[4]["headers"]


def produce_header(bootstrap: str, topic: str, name: bytes) -> None:
    """A record with a header that no Python client would write."""
    conf = function("rd_kafka_conf_new", _pointer)()
    new = function("rd_kafka_new", _pointer, c_int, _pointer, _pointer, c_size_t)
    function("rd_kafka_conf_set", c_int, _pointer, c_char_p, c_char_p, _pointer, c_size_t)(
        conf, b"bootstrap.servers", bootstrap.encode(), None, 0
    )
    client = _pointer(new(0, conf, None, 0))
    put = (_TOPIC, c_char_p(topic.encode()), _PARTITION, c_int(0), _HEADER, c_char_p(name), c_char_p(b"1"), c_size_t(1))
    assert function("rd_kafka_producev", c_int)(client, *put, _END) == 0
    assert function("rd_kafka_flush", c_int)(client, 60_000) == 0
    function("rd_kafka_destroy", None)(client)


def test_a_header_name_that_is_no_text_is_shown_as_good_as_it_can_be(embedded: EmbeddedKafka) -> None:
    produce_header(embedded.bootstrap, TOPIC, b"\xffname")
    with reading(embedded.bootstrap, TOPIC, **{"enable.partition.eof": False}) as consumer:
        (record,) = until(poll_native, consumer, lambda records, _: bool(records))
    assert record.headers() == [("\ufffdname", b"1")]


@BOTH
def test_records_come_by_partition_and_in_order(embedded: EmbeddedKafka, take: Poller) -> None:
    for partition in range(3):
        produce(embedded.bootstrap, TOPIC, [{"value": b"%d" % number} for number in range(50)], partition)
    seen: dict[Any, list[int]] = {}
    with reading(embedded.bootstrap, TOPIC, partitions=3) as consumer:

        def all_there() -> bool:
            for key, run in take(consumer, 20, 0.05).records.items():
                assert key == (TOPIC, run[0].partition())
                seen.setdefault(key, []).extend(record.offset() for record in run)
            return sum(map(len, seen.values())) == 150

        wait_until(all_there, "150 records")
    assert seen == {(TOPIC, partition): list(range(50)) for partition in range(3)}


def test_a_batch_ends_with_its_bytes(embedded: EmbeddedKafka) -> None:
    produce(embedded.bootstrap, TOPIC, [{"value": b"x" * 1000} for _ in range(50)])
    sizes: list[int] = []
    with reading(embedded.bootstrap, TOPIC) as consumer:

        def all_there() -> bool:
            runs, _ = _fetch.take(consumer, 50, 10_000, 50)
            sizes.extend(map(len, runs))
            return sum(sizes) == 50

        wait_until(all_there, "50 records")
    assert max(sizes) == 10


@BOTH
def test_the_end_of_a_partition_is_told(embedded: EmbeddedKafka, take: Poller) -> None:
    produce(embedded.bootstrap, TOPIC, RECORDS[:2])
    with reading(embedded.bootstrap, TOPIC) as consumer:
        (end,) = until(take, consumer, lambda _, failures: bool(failures))
    assert (end.error.code(), *end[1:]) == (KafkaError._PARTITION_EOF, TOPIC, 0, 2)


@BOTH
def test_an_offset_that_the_log_has_not(kafka_broker: KafkaBroker, take: Poller) -> None:
    topic = kafka_broker.create_topic()
    with reading(kafka_broker.bootstrap, topic, offset=77) as consumer:
        (lost,) = until(take, consumer, lambda _, failures: bool(failures))
    assert lost.error.code() in reader._POSITION_LOST
    assert lost[1:] == (topic, 0, 77)


@BOTH
def test_a_partition_that_is_not_there_yet(kafka_broker: KafkaBroker, take: Poller) -> None:
    topic = kafka_broker.create_topic()
    with reading(kafka_broker.bootstrap, topic, partitions=2, **{"enable.partition.eof": False}) as consumer:
        produce(kafka_broker.bootstrap, topic, [{"value": b"first"}])
        until(take, consumer, lambda records, _: bool(records))
        kafka_broker.grow(topic, 2)
        produce(kafka_broker.bootstrap, topic, [{"value": b"second"}], 1)
        (record,) = until(take, consumer, lambda records, _: bool(records))
    assert (record.partition(), record.value()) == (1, b"second")


@BOTH
def test_a_partition_that_went_with_its_topic(kafka_broker: KafkaBroker, take: Poller) -> None:
    """At most reported as an unknown topic: librdkafka looks up partitions by itself."""
    topic, admin = kafka_broker.create_topic(partitions=2), kafka_broker.admin()
    often = {"topic.metadata.refresh.interval.ms": 200, "topic.metadata.propagation.max.ms": 0}
    with reading(kafka_broker.bootstrap, topic, partitions=2, **often) as consumer:
        failures: list[Failure] = []

        def read() -> list[Any]:
            taken = take(consumer, 4, 0.05)
            failures.extend(taken.failures)
            return [record for run in taken.records.values() for record in run]

        wait_until(lambda: read() or len(failures) == 2, "the ends of both")
        admin.delete_topics([topic])[topic].result(PATIENCE)
        wait_until(lambda: read() or topic not in admin.list_topics().topics, "the topic to be gone")
        wait_until(lambda: read() or _created(admin, topic), "the topic to be there again")
        produce(kafka_broker.bootstrap, topic, [{"value": b"again"}])
        (record,) = wait_until(read, "a record of the partition that is left")
    assert (record.partition(), record.offset(), record.value()) == (0, 0, b"again")
    codes = {failure.error.code() for failure in failures}
    assert codes <= {KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART}


def _created(admin: AdminClient, topic: str) -> bool:
    with suppress(KafkaException):  # what is left of the old one
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE)
        return True
    return False


def test_errors_of_connections_call_nobody_back(embedded: EmbeddedKafka) -> None:
    """confluent-kafka sets its error callback on every client; a call from this thread would end the process."""
    said: list[Any] = []
    codes: set[int] = set()
    produce(embedded.bootstrap, TOPIC, RECORDS)
    with reading(embedded.bootstrap, TOPIC, error_cb=said.append) as consumer:
        until(poll_native, consumer, lambda records, _: bool(records))
        embedded.set_reachable(False)

        def all_down() -> bool:
            codes.update(failure[0] for failure in _fetch.take(consumer, 10, 1000, 50)[1] if failure[3] is None)
            return KafkaError._ALL_BROKERS_DOWN in codes

        wait_until(all_down, "the client to say that all brokers are down")
        assert poll_native(consumer, 10, 0.0) == PollResult({}, [])
        embedded.set_reachable(True)
        produce(embedded.bootstrap, TOPIC, [{"value": b"late"}])
        wait_until(
            lambda: b"late" in [each.value() for run in poll_native(consumer, 10, 0).records.values() for each in run],
            "the record that came after the outage",
        )
    assert said == []


def test_a_killed_broker_is_survived_while_reading(own_kafka: KafkaBroker) -> None:
    topic = own_kafka.create_topic()
    produce(own_kafka.bootstrap, topic, [{"value": b"x" * 100} for _ in range(20_000)])
    with reading(own_kafka.bootstrap, topic) as consumer:
        until(poll_native, consumer, lambda records, _: len(records) > 100)
        own_kafka.kill()
        codes: set[int] = set()
        wait_until(
            lambda: codes.update(each[0] for each in _fetch.take(consumer, 500, 1 << 20, 50)[1])
            or KafkaError._ALL_BROKERS_DOWN in codes,
            "the client to say that all brokers are down",
        )


def test_tokens_are_refreshed_while_nothing_but_records_is_asked_for() -> None:
    """OAUTHBEARER as in the policy: librdkafka fetches its tokens on its own thread."""
    tokens = TokenEndpoint(lifetime=2)
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    oidc = {"method": "oidc", "client.id": USER, "client.secret": PASSWORD, "token.endpoint.url": tokens.url}
    more = {**sasl, **{f"sasl.oauthbearer.{name}": value for name, value in oidc.items()}}
    try:
        with reading("127.0.0.1:1", TOPIC, **more) as consumer:
            assert poll.poller_for(more) is poll_native
            wait_until(lambda: not poll_native(consumer, 10, 0.05).records and len(tokens.asked) > 2, "three tokens")
    finally:
        tokens.stop()


def test_other_threads_go_on_while_records_are_waited_for(embedded: EmbeddedKafka) -> None:
    with reading(embedded.bootstrap, TOPIC, **{"enable.partition.eof": False}) as consumer:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(_fetch.take(consumer, 10, 1000, 60_000)[0]))
        thread.start()
        produce(embedded.bootstrap, TOPIC, [{"value": b"now"}])
        thread.join(PATIENCE)
    assert [record.value() for run in found for record in run] == [b"now"]


@pytest.mark.parametrize("bound", [True, False])
async def test_links_are_served_either_way(
    embedded: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, bound: bool
) -> None:
    monkeypatch.setattr(poll, "BOUND", bound)
    values = [b"%d" % number for number in range(1200)]
    produce(embedded.bootstrap, TOPIC, [{"value": value, "headers": [("n", value)]} for value in values])
    streams = Streams(ClusterConfig(embedded.bootstrap, plain=True, timeout=10))
    try:
        receiver = await streams.receiver(TOPIC, after="@earliest", credit=2000)
        assert [event.body for event in await receiver.drain()] == values
    finally:
        await streams.close()
