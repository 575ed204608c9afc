"""Handing records over in C: what is refused, what is kept, and what is done for other clients (decision 18)."""

from __future__ import annotations

import gc
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from bridges.kafka.common import librdkafka
from bridges.kafka.common.librdkafka import address
from bridges.kafka.produce import _produce
from bridges.kafka.produce import client as outbox
from bridges.kafka.produce.client import FallbackClient, NativeClient
from bridges.kafka.records.mapping import RecordWriter
from gateway.amqp.message.sections import APPLICATION_PROPERTIES, DATA, PROPERTIES, section, walk
from tests.support.gateway.process import wait_until

NOWHERE: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
TOPIC = "topic"
EMPTY_HEADER = b"\x00\x53\x70\x45"


class ReportRecorder:
    """Owns records."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_written(self, contexts: list[Any]) -> None:
        self.heard += contexts

    def on_failed(self, contexts: list[Any], error: KafkaError, *, keyed: bool, batch: int) -> None:
        self.heard += [(each, error.code(), keyed) for each in contexts]


def nobody(error: KafkaError) -> None:
    """Brokers that cannot be reached are no news here."""


def new_outbox() -> _produce.Outbox:
    return _produce.Outbox(Producer(NOWHERE))


def put(
    kept: _produce.Outbox, owner: Any, context: Any, value: Any = b"v", headers: Any = None, key: Any = None
) -> int:
    return kept.put(TOPIC, -1, key, value, headers, owner, context)


def plain(data: bytes) -> bytes:
    return b"\x00\x53\x75\xa0%c" % len(data) + data


def purged(client: Producer, kept: _produce.Outbox, count: int) -> list[_produce.Group]:
    """What is reported of so many records when they are given up."""
    found: list[_produce.Group] = []
    client.purge()
    wait_until(lambda: found.extend(kept.reports()[0]) or sum(len(each[3]) for each in found) == count, "reports")
    return found


def test_this_environment_produces_in_c() -> None:
    assert isinstance(outbox.make_client(NOWHERE, nobody), NativeClient)


@pytest.mark.parametrize(
    "more", [{"stats_cb": print}, {"logger": None}, {"enable.sasl.oauthbearer.unsecure.jwt": True}]
)
def test_a_client_that_calls_back_is_used_its_own_way(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made_with: list[dict[str, Any]] = []
    monkeypatch.setattr(outbox, "Producer", made_with.append)
    assert isinstance(outbox.make_client({**NOWHERE, **more}, nobody), FallbackClient)
    assert made_with == [{**NOWHERE, **more, "error_cb": nobody}]


def test_a_client_of_another_version_is_used_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka, "version", lambda: "99.0.0")
    assert not librdkafka.bind(_produce.bind, outbox._FUNCTIONS, Producer)
    monkeypatch.setattr(outbox, "BOUND", False)
    assert isinstance(outbox.make_client(NOWHERE, nobody), FallbackClient)


def test_a_client_that_hides_its_library_is_used_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka, "address", lambda name: address(f"{name}_hidden"))
    assert not librdkafka.bind(_produce.bind, outbox._FUNCTIONS, Producer)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _produce.Outbox(),  # type: ignore[call-arg]
        lambda: _produce.Outbox(object()),
        lambda: _produce.Outbox(None, name="x"),  # type: ignore[call-arg]
        lambda: _produce.Outbox(Consumer({**NOWHERE, "group.id": "any"})),
        lambda: new_outbox().put(TOPIC, -1, None),  # type: ignore[call-arg]
        lambda: new_outbox().put(b"topic", -1, None, None, None, None, None),  # type: ignore[arg-type]
        lambda: new_outbox().put(TOPIC, "1", None, None, None, None, None),  # type: ignore[arg-type]
        lambda: put(new_outbox(), None, None, value="text"),
        lambda: put(new_outbox(), None, None, key=1),
        lambda: put(new_outbox(), None, None, headers=()),
        lambda: put(new_outbox(), None, None, headers=["h"]),
        lambda: put(new_outbox(), None, None, headers=[("h",)]),
        lambda: put(new_outbox(), None, None, headers=[("h", b"", b"")]),
        lambda: put(new_outbox(), None, None, headers=[(b"h", b"")]),
        lambda: put(new_outbox(), None, None, headers=[("h", "text")]),
        lambda: put(new_outbox(), None, None, headers=[("h", b"v"), None]),
        lambda: new_outbox().put_messages(TOPIC, -1, (), 0, None),
        lambda: new_outbox().put_messages(TOPIC, -1, [], "0", None),  # type: ignore[arg-type]
        lambda: new_outbox().put_rows(TOPIC, b"k", (), None),
        lambda: new_outbox().put_rows(TOPIC, "k", [], None),  # type: ignore[arg-type]
        lambda: new_outbox().put_rows(TOPIC, b"k", [()], None),
        lambda: new_outbox().put_rows(TOPIC, b"k", [("text",)], None),
        lambda: new_outbox().put_rows(TOPIC, b"k", [b"v"], None),
        lambda: _produce.bind((1, 2, 3), Producer),
        lambda: _produce.bind((1,) * len(outbox._FUNCTIONS), "Producer"),  # type: ignore[arg-type]
        lambda: _produce.bind([1], Producer),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_argument_is_refused_before_librdkafka_sees_it(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()


def test_other_values_that_cannot_be() -> None:
    kept = new_outbox()
    with pytest.raises(ValueError, match="null character"):
        kept.put("to\0pic", -1, None, b"", None, None, None)
    with pytest.raises(UnicodeEncodeError):
        put(kept, None, None, headers=[("\ud800", b"")])
    with pytest.raises(OverflowError):
        kept.put(TOPIC, 1 << 40, None, b"", None, None, None)
    with pytest.raises(IndexError):
        kept.put_messages(TOPIC, -1, [], -1, None)
    assert kept.put_messages(TOPIC, -1, [], 5, None) == 5
    assert kept.put("", -1, None, b"", None, None, None) in (0, KafkaError._INVALID_ARG)
    assert kept.put("t" * 600, -1, None, b"", [("h", b"v")], None, None) == KafkaError._INVALID_ARG
    assert kept.put_messages("t" * 600, -1, [(1, plain(b""), False)], 0, None) == 0
    assert kept.put_rows("t" * 600, None, [(b"v",)], None) == 0


def test_nothing_is_at_address_zero_and_the_functions_stay_bound() -> None:
    with pytest.raises(ValueError, match="address 0"):
        _produce.bind((0,) * len(outbox._FUNCTIONS), Producer)
    assert new_outbox().reports()[0] == []


def test_another_layout_is_found_before_anything_is_handed_over() -> None:
    other = outbox._FUNCTIONS.index("rd_kafka_opaque")
    addresses = [address(name) for name in outbox._FUNCTIONS]
    try:
        _produce.bind((*addresses[:other], address("rd_kafka_name"), *addresses[other + 1 :]), Producer)
        with pytest.raises(TypeError, match="laid out"):
            new_outbox()
    finally:
        _produce.bind(tuple(addresses), Producer)


def test_a_closed_client_has_no_outbox() -> None:
    client = Producer(NOWHERE)
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        _produce.Outbox(client)


def test_only_plain_messages_that_are_not_settled_are_taken_together() -> None:
    kept, owner = new_outbox(), object()
    several = [(1, plain(b"a"), False), (2, plain(b"b"), False), (3, plain(b"c"), True), (4, plain(b"d"), False)]
    assert kept.put_messages(TOPIC, -1, several, 0, owner) == 2
    assert kept.put_messages(TOPIC, -1, several, 2, owner) == 2
    assert kept.put_messages(TOPIC, -1, several, 3, owner) == 4
    for odd in ((5, b"", False), (5, b"\x00\x53\x77\xa0\x00", False), (5, plain(b""), 0), (5, plain(b"")), 5, [], None):
        assert kept.put_messages(TOPIC, -1, [odd], 0, owner) == 0  # type: ignore[list-item]
    assert len(kept) == 3


@pytest.mark.parametrize("kind", [outbox.NativeClient, outbox.FallbackClient])
def test_rows_of_one_key_are_taken_together_while_there_is_room(kind: Any) -> None:
    client, owner = kind({**NOWHERE, "queue.buffering.max.messages": 3}, lambda error: None), ReportRecorder()
    rows = [(b"%d" % number, number) for number in range(5)]
    assert client.put_rows(TOPIC, b"k", rows[:2], owner) == 2
    assert client.put_rows(TOPIC, b"k", rows[2:], owner) == 1
    assert client.put_rows(TOPIC, b"k", rows, owner) == 0
    client.client.purge()
    found: list[Any] = []
    deadline = time.monotonic() + 20
    while len(found) < 3 and time.monotonic() < deadline:
        found += [(whose, row) for whose, code, _, contexts in client.reports() for row in contexts if code]
    assert found == [(owner, row) for row in rows[:3]]


def test_what_is_kept_comes_back_once_and_in_order() -> None:
    client = Producer(NOWHERE)
    kept, one, other = _produce.Outbox(client), ReportRecorder(), ReportRecorder()
    contexts = [object() for _ in range(1000)]
    before = sys.getrefcount(one), sys.getrefcount(contexts[0])
    for number, context in enumerate(contexts):
        assert put(kept, one if number < 900 else other, context, key=b"k" if number < 500 else None) == 0
    assert len(kept) == 1000 <= len(client)
    assert sys.getrefcount(one) > before[0] + 899
    groups = purged(client, kept, 1000)
    assert len(kept) == 0
    assert {code for _, code, _, _ in groups} == {KafkaError._PURGE_QUEUE}
    heard: dict[Any, list[Any]] = {one: [], other: []}
    for owner, _, keyed, found in groups:
        heard[owner] += found
        assert all((contexts.index(each) < 500) is keyed for each in found)
    assert heard == {one: contexts[:900], other: contexts[900:]}
    del groups, found, owner, heard
    assert (sys.getrefcount(one), sys.getrefcount(contexts[0])) == before
    assert kept.reports()[0] == []


def test_nothing_is_kept_for_a_record_that_is_not_taken() -> None:
    kept = _produce.Outbox(Producer({**NOWHERE, "queue.buffering.max.messages": 2, "message.max.bytes": 1000}))
    owner, context = ReportRecorder(), object()
    before = sys.getrefcount(owner), sys.getrefcount(context)
    assert put(kept, owner, context, value=bytes(2000), headers=[("h", b"v")]) == KafkaError.MSG_SIZE_TOO_LARGE
    assert (sys.getrefcount(owner), sys.getrefcount(context), len(kept)) == (*before, 0)
    assert kept.put_messages(TOPIC, -1, [(number, plain(b""), False) for number in range(5)], 0, owner) == 2
    assert put(kept, owner, context) == KafkaError._QUEUE_FULL
    assert (sys.getrefcount(context), len(kept)) == (before[1], 2)


def test_nothing_is_kept_for_a_mapped_message_that_is_not_taken() -> None:
    kept = _produce.Outbox(Producer({**NOWHERE, "queue.buffering.max.messages": 2, "message.max.bytes": 1000}))
    owner, context = ReportRecorder(), object()
    before = sys.getrefcount(owner), sys.getrefcount(context)
    assert kept.put_messages(TOPIC, -1, [(context, EMPTY_HEADER + section(DATA, bytes(2000)), False)], 0, owner, 1) == 0
    assert (sys.getrefcount(owner), sys.getrefcount(context), len(kept), kept.size) == (*before, 0, 0)
    run = [(context, EMPTY_HEADER + plain(b"v"), False)] * 5
    assert kept.put_messages(TOPIC, -1, run, 0, owner, 1) == 2
    del run
    assert (sys.getrefcount(context), len(kept)) == (before[1] + 2, 2)
    del kept
    assert sys.getrefcount(context) == before[1]


def test_a_mapped_message_counts_as_its_record_does() -> None:
    data = EMPTY_HEADER + section(PROPERTIES, ["id"]) + section(APPLICATION_PROPERTIES, {"a": "b"}) + plain(b"v")
    one, other = new_outbox(), new_outbox()
    assert one.put_messages(TOPIC, -1, [(1, data, False)], 0, None, 1) == 1
    key, value, headers = RecordWriter().record(data, walk(data))
    assert other.put(TOPIC, -1, key, value, headers, None, 1) == 0
    assert one.size == other.size > 256 + len(data)


def test_what_is_no_message_has_no_record() -> None:
    for arguments in ((), (b"",), ("", 1), (b"", "1"), (None, 1)):
        with pytest.raises(TypeError):
            _produce.record_of(*arguments)  # type: ignore[arg-type]
    for addresses in ((), (0, 0), ("", 0, 0)):
        with pytest.raises(TypeError):
            _produce.bind_sha256(*addresses)  # type: ignore[arg-type]


def test_errors_are_raised_as_the_client_raises_them() -> None:
    for way in (NativeClient, FallbackClient):
        each = way({**NOWHERE, "queue.buffering.max.messages": 1, "message.max.bytes": 1000}, nobody)
        with pytest.raises(KafkaException) as raised:
            each.put(TOPIC, -1, None, bytes(2000), None, ReportRecorder(), None)
        assert raised.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
        each.put(TOPIC, -1, None, b"", [("h", None)], ReportRecorder(), None)
        with pytest.raises(BufferError):
            each.put(TOPIC, -1, None, b"", None, ReportRecorder(), None)


def test_an_outbox_lets_go_of_what_was_never_reported() -> None:
    kept, owner = new_outbox(), ReportRecorder()
    before = sys.getrefcount(owner)
    for number in range(100):
        put(kept, owner, number)
    del kept
    assert sys.getrefcount(owner) == before


def test_a_circle_through_an_outbox_is_found() -> None:
    class Around(ReportRecorder):
        kept: Any = None

    owner = Around()
    owner.kept = new_outbox()
    put(owner.kept, owner, owner)
    seen = weakref.ref(owner)
    del owner
    gc.collect()
    assert seen() is None


def test_room_is_given_back() -> None:
    client = Producer({**NOWHERE, "queue.buffering.max.messages": 100_000})
    kept, owner = _produce.Outbox(client), ReportRecorder()
    for again in range(3):
        messages = [(number, plain(b""), False) for number in range(20_000)]
        assert kept.put_messages(TOPIC, -1, messages, 0, owner) == 20_000
        found = [each for group in purged(client, kept, 20_000) for each in group[3]]
        assert found == list(range(20_000)), f"round {again}"


@pytest.mark.parametrize("way", [NativeClient, FallbackClient])
def test_records_on_their_way_are_counted_in_bytes_until_they_are_reported(way: Any) -> None:
    """Librdkafka has a copy of each beside the message that waits for its outcome (found as B3)."""
    made, owner = way(NOWHERE, nobody), ReportRecorder()
    assert made.size == 0
    made.put(TOPIC, -1, b"k" * 100, b"v" * 5000, [("name", b"h" * 1000)], owner, "one")
    assert 6104 <= made.size < 7000
    made.put_messages(TOPIC, -1, [("two", plain(b"v" * 100), False)], 0, owner, 1)
    with pytest.raises((TypeError, KafkaException)):
        made.put(TOPIC, -1, None, "no bytes" if way is NativeClient else b"x" * 2**21, None, owner, "three")
    made.client.purge()
    wait_until(lambda: made.reports() or not len(made.client), "their reports")
    wait_until(lambda: (made.reports(), made.size == 0)[1], "nothing to be on its way")
