"""Records of every form, as strategies and written to a topic: the gateway's, others', changed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import strategies as st

from bridges.kafka.admin.embedded import EmbeddedKafka
from bridges.kafka.consume import poll, reader
from bridges.kafka.records.encode import MESSAGE
from bridges.kafka.records.envelope import BARE, Header
from bridges.kafka.records.headers import BODY
from bridges.kafka.records.mapping import to_record
from bridges.kafka.records.routing import COOKIE_HEADER
from gateway.amqp.codec.types import Symbol
from gateway.amqp.message.sections import walk
from tests.support.amqp.messages import message, section
from tests.support.amqp.strategies import MESSAGES
from tests.support.gateway.process import wait_until

TOPIC = "records"
COOKIE = (COOKIE_HEADER, b"cookie")
SMALL = st.binary(max_size=3) | st.sampled_from((b"red", b"blue", b"", MESSAGE))
NAMES = st.sampled_from(("color", "size", "", "é", "amqp.", "amqp.to", "ce_color", BODY, BARE)) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3
)
CHUNKS = st.binary(max_size=60)
SEALED = st.tuples(st.sampled_from((b"\1", b"\2")), st.binary(min_size=16, max_size=16)).map(b"".join)
STORED = section(0x72, {Symbol("x-opt-kafka-key"): b"stored"}) + section(0x74, {"color": "red"})
FOREIGN_SECTIONS = b"x", b"\0\x53", section(0x71, {}), STORED + message(b"body"), section(0x74, {}) + STORED
UNREADABLE = st.one_of(
    st.none() | st.binary(max_size=17),
    st.builds(lambda kind, rest: bytes((kind,)) + rest, st.sampled_from((0, 3, 7, 0x31, 0x7F, 0xFF)), CHUNKS),
    st.sampled_from((0, 3, 7)).map(lambda kind: bytes((kind, *bytes(17))) + STORED),
    st.builds(lambda seal, rest, more: seal + bytes((len(rest) + more,)) + rest, SEALED, CHUNKS, st.integers(1, 195)),
    st.builds(lambda seal, rest: seal + b"\0" + rest, SEALED, st.sampled_from(FOREIGN_SECTIONS)),
)
"""Contents of `amqp.bare` that no gateway writes or reads: too short, of other kinds, cut off, with other sections."""
CONTENTS = st.none() | SMALL | st.binary(max_size=40).map(lambda more: more + b"red")
HEADERS = st.lists(st.tuples(NAMES, CONTENTS), max_size=5)
VALUES = st.none() | st.binary(max_size=300)
USUAL = [
    message(b"body", app={"color": "red", "n": 7}),
    message(b"x" * 300, header=[True], ma={"x-opt-m": 1}, subject="s", app={"color": "é"}, footer={"x-opt-f": 1}),
]


@st.composite
def written(draw: st.DrawFn) -> tuple[bytes | None, bytes | None, list[Header]]:
    """A record as the gateway writes it, or as somebody changed it afterwards."""
    data = draw(MESSAGES | st.sampled_from(USUAL))
    key, value, headers, _ = to_record(data, walk(data), tombstones=True)
    return changed(key, value, headers, draw(st.sampled_from(sorted(CHANGES))))


def changed(
    key: bytes | None, value: bytes | None, headers: list[Header], change: str
) -> tuple[bytes | None, bytes | None, list[Header]]:
    key = (key or b"") + b"k" if change == "key" else key
    value = (value or b"") + b"v" if change == "value" else value
    return key, value, CHANGES[change](headers)


CHANGES: dict[str, Callable[[list[Header]], list[Header]]] = {
    **dict.fromkeys(("nothing", "key", "value"), list),
    "cookie": lambda headers: [COOKIE, *headers],
    "request": lambda headers: [("amqp.response-link-target-address", b"$replies.core"), *headers],
    "less": lambda headers: headers[1:],
    "more": lambda headers: [*headers, ("x", b"y")],
    "turned": lambda headers: headers[::-1],
    "seal": lambda headers: [(name, (content or b"")[:-1]) for name, content in headers],
}
WRITTEN = written()
INTACT = (MESSAGES | st.sampled_from(USUAL)).map(lambda data: to_record(data, walk(data), tombstones=True)[:3])
KEYS = st.none() | SMALL | st.sampled_from(("é".encode(), b"\xff", b"k" * 255, b"k" * 256))
WHOLE_VALUES = st.just(STORED + message(b"body")) | st.binary(max_size=5)
BEFORE = st.lists(st.tuples(NAMES, CONTENTS) | st.just((BODY, MESSAGE)), max_size=3)
DAMAGED = st.builds(
    lambda key, value, before, envelope: (key, value, [*before, (BARE, envelope)]),
    KEYS, VALUES | WHOLE_VALUES, BEFORE, UNREADABLE,
)  # fmt: skip
"""Records of others whose last header has the name of ours."""
FOREIGN = st.tuples(KEYS, VALUES, st.none() | HEADERS)
TEXTS = st.sampled_from((b"red", b"", b"%", b"x" * 255, b"x" * 256, "é".encode(), b"\xff")) | st.none()
ALIKE = st.tuples(KEYS, VALUES, st.tuples(*(st.tuples(st.just(name), TEXTS) for name in "abc")).map(list))
MANY = st.tuples(KEYS, VALUES, st.integers(1, 140).map(lambda count: [(str(each), b"x") for each in range(count)]))
RECORDS = st.lists(FOREIGN | ALIKE | MANY | WRITTEN | DAMAGED, min_size=1, max_size=40)


class RecordClient(NamedTuple):
    """Who writes a topic, and who reads it in each way."""

    producer: Producer
    runs: Consumer
    messages: Consumer
    bootstrap: str


def clients() -> Iterator[RecordClient]:
    """A producer and two consumers of an embedded Kafka's topic, while a module's tests last."""
    kafka = EmbeddedKafka()
    kafka.create_topic(TOPIC, 1)
    where: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    more = {"enable.partition.eof": False, "fetch.wait.max.ms": 10}
    readers = [Consumer({**reader._SETTINGS, **where, **more}) for _ in range(2)]
    for each in readers:
        each.assign([TopicPartition(TOPIC, 0, 0)])
    producer = Producer({**where, "linger.ms": 1000})  # what is flushed together is one batch
    yield RecordClient(producer, *readers, kafka.bootstrap)
    for each in readers:
        each.close()
    kafka.close()


def poll_records(take: poll.Poller, consumer: Consumer, count: int) -> list[Any]:
    """Runs of so many records in all."""
    runs: list[Any] = []

    def enough() -> bool:
        records, failures = take(consumer, count, 1.0)
        assert not failures
        runs.extend(records.values())
        return sum(map(len, runs)) == count

    wait_until(enough, f"{count} records")
    return runs
