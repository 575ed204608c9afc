"""A message in any valid encoding comes back byte for byte, on the fast path and on the general one (KM-13)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridges.kafka.admin.embedded import EmbeddedKafka
from bridges.kafka.consume import _fetch
from bridges.kafka.consume.poll import poll_fallback, poll_native
from bridges.kafka.produce import _produce
from bridges.kafka.produce.client import NativeClient
from bridges.kafka.records import digest
from bridges.kafka.records.fast_encode import EventEncoder, plain_value
from bridges.kafka.records.mapping import RecordWriter, from_record
from gateway.amqp.message.sections import walk
from gateway.errors import AmqpError
from tests.bench.shapes import shapes
from tests.support.gateway.process import wait_until
from tests.support.plugins.examples import examples

NAMES = {
    0x70: b"amqp:header:list",
    0x72: b"amqp:message-annotations:map",
    0x73: b"amqp:properties:list",
    0x74: b"amqp:application-properties:map",
    0x75: b"amqp:data:binary",
    0x76: b"amqp:amqp-sequence:list",
    0x78: b"amqp:footer:map",
}
DESCRIPTORS = {
    "smallulong": lambda code: b"\x00\x53" + bytes([code]),
    "ulong": lambda code: b"\x00\x80" + code.to_bytes(8),
    "sym8": lambda code: b"\x00\xa3" + bytes([len(NAMES[code])]) + NAMES[code],
    "sym32": lambda code: b"\x00\xb3" + len(NAMES[code]).to_bytes(4) + NAMES[code],
}
CONTENTS = {
    0x70: (1, b"\x41"),
    0x72: (2, b"\xa3\x07x-opt-k\x54\x01"),
    0x73: (1, b"\xa1\x01m"),
    0x74: (2, b"\xa1\x01k\xa1\x01v"),
    0x76: (1, b"\x54\x01"),
    0x78: (2, b"\xa3\x07x-opt-f\x54\x01"),
}
FORMS = st.sampled_from(sorted(DESCRIPTORS))
SIZES = st.integers(0, 8) | st.integers(250, 262) | st.integers(0, 600)


def compound(code: int, form: str, wide: bool, empty: bool) -> bytes:
    """A section that is a list or a map, in any of its encodings."""
    count, items = (0, b"") if empty else CONTENTS[code]
    kind = 0xC0 if code in (0x70, 0x73, 0x76) else 0xC1
    head = DESCRIPTORS[form](code)
    if wide:
        return head + bytes([kind + 0x10]) + (4 + len(items)).to_bytes(4) + count.to_bytes(4) + items
    return head + bytes([kind, 1 + len(items), count]) + items


def data_section(form: str, wide: bool, size: int) -> bytes:
    head = DESCRIPTORS[form](0x75)
    if wide or size > 255:
        return head + b"\xb0" + size.to_bytes(4) + b"x" * size
    return head + b"\xa0" + bytes([size]) + b"x" * size


DATA = st.builds(data_section, FORMS, st.booleans(), SIZES)
USUAL_DATA = st.builds(data_section, st.just("smallulong"), st.booleans(), SIZES)


def optional(code: int) -> st.SearchStrategy[bytes]:
    return st.just(b"") | st.builds(compound, st.just(code), FORMS, st.booleans(), st.booleans())


BODIES = (
    DATA
    | st.lists(DATA, min_size=2, max_size=3).map(b"".join)
    | st.builds(compound, st.just(0x76), FORMS, st.booleans(), st.booleans())
    | st.just(b"\x00\x53\x70\x45" + b"\x00\x53\x75\xa0\x00")  # an empty header of list0 before empty data
)
WHOLE = st.tuples(optional(0x70), optional(0x72), optional(0x73), optional(0x74), DATA, optional(0x78)).map(b"".join)
MESSAGES = USUAL_DATA | BODIES | WHOLE | st.builds(bytes.__add__, USUAL_DATA, st.binary(min_size=1, max_size=3))
WRITER = RecordWriter("auto")


def restored(key: bytes | None, value: bytes | None, headers: Any) -> bytes:
    return b"".join(from_record(key, value, headers))


@pytest.mark.row("CORE-5")
@settings(max_examples=examples(1500))
@given(MESSAGES)
def test_both_paths_store_the_same_and_give_the_message_back(data: bytes) -> None:
    try:
        layout = walk(data)
    except AmqpError:
        assert plain_value(data) is None, "only a valid message may take the fast path"
        return
    general = WRITER.record(data, layout)
    if (value := plain_value(data)) is not None:
        assert general == (None, value, [])
    assert restored(*general) == data


@pytest.fixture(scope="module")
def idle() -> Producer:
    return Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})


@settings(max_examples=examples(1500), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MESSAGES)
def test_c_takes_what_python_takes(idle: Producer, data: bytes) -> None:
    kept = _produce.Outbox(idle)
    taken = kept.put_messages("topic", -1, [(0, data, False)], 0, idle)
    idle.purge()
    kept.reports()
    assert (taken == 1) == (plain_value(data) is not None)


class Log(NamedTuple):
    """A topic that is written in C, and read in both ways."""

    outbox: NativeClient
    readers: list[tuple[Any, Consumer]]


class Count:
    """Counts records that are written."""

    written = 0

    def on_written(self, contexts: list[Any]) -> None:
        self.written += len(contexts)

    def on_failed(self, contexts: list[Any], error: KafkaError, *, keyed: bool, batch: int) -> None:
        raise AssertionError(error)


def refuse(error: KafkaError) -> None:
    raise AssertionError(error)


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    kafka = EmbeddedKafka()
    kafka.create_topic("forms", 1)
    where: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    readers = [
        (take, Consumer({**where, "group.id": "t", "fetch.wait.max.ms": 10}))
        for take in (poll_native, poll_fallback, partial(poll_native, check=True, least=0))
    ]
    for _, reader in readers:
        reader.assign([TopicPartition("forms", 0, 0)])
    yield Log(NativeClient({**where, "linger.ms": 0}, refuse), readers)
    for _, reader in readers:
        reader.close()
    kafka.close()


def sent(log: Log, messages: list[bytes]) -> None:
    """Hand messages over as a send link does: runs in C, whatever C refuses by the general path."""
    owner, at = Count(), 0
    run = [(number, data, False) for number, data in enumerate(messages)]
    while at < len(run):
        at = log.outbox.put_messages("forms", 0, run, at, owner, 1)
        if at < len(run):
            key, value, headers = WRITER.record(messages[at], walk(messages[at]))
            log.outbox.put("forms", 0, key, value, headers, owner, at)
            at += 1

    def all_there() -> bool:
        for reported, _, _, contexts in log.outbox.reports():
            reported.on_written(contexts)
        return owner.written == len(messages)

    wait_until(all_there, "all records written")


def read(take: Any, reader: Consumer, count: int) -> list[bytes]:
    """So many messages, as a receive link gets them, without what the gateway adds in front of them."""
    found: list[bytes] = []

    def enough() -> bool:
        for run in take(reader, count, 0.05).records.values():
            events = EventEncoder().events(run, 0)
            _fetch.bind_sha256(0, 0, 0)
            assert EventEncoder().events(run, 0) == events, "whoever makes the digests"
            digest.bind()
            for event in events[0]:
                layout = walk(event.data)
                found.append(event.data[: layout.da] + event.data[layout.ma :])
        return len(found) == count

    wait_until(enough, f"{count} records")
    return found


@pytest.mark.row("CORE-5")
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(USUAL_DATA | BODIES | WHOLE, min_size=1, max_size=12))
def test_what_was_written_is_read_byte_for_byte(log: Log, messages: list[bytes]) -> None:
    sent(log, messages)
    for take, reader in log.readers:
        assert read(take, reader, len(messages)) == messages


def test_what_clients_send_is_restored_in_c(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every recorded message, and none of them by the mapping in Python, which takes ten times as long."""
    messages = [*shapes.recorded().values()]
    sent(log, messages)

    def mapped(*_: object) -> bytes:
        raise AssertionError("mapped in Python")

    with monkeypatch.context() as patched:
        patched.setattr(EventEncoder, "_encode", mapped)
        assert read(*log.readers[0], len(messages)) == messages
    assert read(*log.readers[1], len(messages)) == messages
