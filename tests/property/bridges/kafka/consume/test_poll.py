"""Records taken in C are what a client's messages are, and are screened as those are (decision 17)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridges.kafka.consume import _fetch
from bridges.kafka.consume.filters.header_screen import HeaderScreen
from bridges.kafka.consume.poll import poll_fallback, poll_native
from bridges.kafka.records import digest
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.fast_encode import EventEncoder
from bridges.kafka.records.mapping import to_record
from gateway.amqp.message.sections import walk
from tests.support.amqp.messages import message
from tests.support.kafka.record_forms import (
    CHANGES,
    NAMES,
    RECORDS,
    SMALL,
    TOPIC,
    USUAL,
    RecordClient,
    changed,
    clients,
    poll_records,
)
from tests.support.plugins.examples import examples

SCREENS = st.builds(HeaderScreen, st.lists(NAMES, min_size=1, max_size=2), st.lists(SMALL, min_size=1, max_size=4))
ENCODER = EventEncoder()


@pytest.fixture(scope="module")
def client() -> Iterator[RecordClient]:
    yield from clients()


def joined(pairs: list[tuple[list[Any], list[bytes]]]) -> tuple[list[Any], list[bytes]]:
    """Events, and of those that begin with a header their messages: only these may have a ttl."""
    return [event for events, _ in pairs for event in events], [data for _, headed in pairs for data in headed]


def record_fields(record: Any) -> tuple[Any, ...]:
    where = record.topic(), record.partition(), record.offset(), record.timestamp()
    return *where, record.key(), record.value(), record.headers(), record.error(), len(record)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS, screen=SCREENS)
def test_both_ways_say_the_same(client: RecordClient, records: list[Any], screen: HeaderScreen) -> None:
    for key, value, headers in records:
        client.producer.produce(TOPIC, value, key, headers=headers)
    assert client.producer.flush(10) == 0
    runs = poll_records(poll_native, client.runs, len(records))
    lists = poll_records(poll_fallback, client.messages, len(records))
    ours, theirs = ([record_fields(record) for run in each for record in run] for each in (runs, lists))
    assert ours == theirs
    encoded, known = ([ENCODER.events(run, 0) for run in each] for each in (runs, lists))
    assert joined(encoded) == joined(known)
    assert [ENCODER.event(record, 0) for run in runs for record in run] == joined(known)[0]
    passed, expected = (
        [record_fields(record) for run in each for record in screen.passed(run)] for each in (runs, lists)
    )
    assert passed == expected
    assert sum(run.size for run in runs) >= sum(len(key or b"") + len(value or b"") for key, value, _ in records)


def same_both_ways(client: RecordClient, records: list[Any]) -> tuple[list[Any], list[bytes]]:
    """The events, which are the same in C and one by one in Python, and the messages that begin with a header."""
    for key, value, headers in records:
        client.producer.produce(TOPIC, value, key, headers=headers)
    assert client.producer.flush(10) == 0
    ways = (poll_native, client.runs), (poll_fallback, client.messages)
    encoded = [
        [ENCODER.events(run, 0) for run in poll_records(take, consumer, len(records))] for take, consumer in ways
    ]
    found, known = map(joined, encoded)
    assert found == known
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_after_it_was_written_is_not_passed_off_as_what_was_sent(
    client: RecordClient, change: str
) -> None:
    for data in USUAL:
        written = to_record(data, walk(data))
        record = changed(written.key, written.value, written.headers, change)
        (event,), _ = same_both_ways(client, [record])
        layout = walk(data)
        assert event.data.endswith(data[layout.ma :]) == (change == "nothing")


@pytest.mark.parametrize("size", [100, 4090, 9000])
def test_what_is_hashed_may_be_long_before_the_value_and_in_it(client: RecordClient, size: int) -> None:
    for data in (message(b"v" * size), message(b"v", subject="s" * size), message(b"v" * size, app={"a": "x" * size})):
        key, value, headers, _ = to_record(data, walk(data))
        (intact, damaged), _ = same_both_ways(client, [(key, value, headers), (key, (value or b"") + b"w", headers)])
        assert intact.data.endswith(data)
        assert not damaged.data.endswith(data + b"w")
        (run,) = produced(client, [(key, value, headers)])
        assert run.events(EncodedEvent, ENCODER._maker(0), unusual)[0][0].data.endswith(data)


def test_maps_are_narrow_up_to_the_last_byte(client: RecordClient) -> None:
    sizes = [*range(240, 262)]
    records = [(None, b"v", [("a", b"x" * size)]) for size in sizes]
    records += [(b"k" * size, b"v", None) for size in range(40, 140)]
    records += [(b"\xff" * size, b"v", None) for size in range(150, 262)]
    records += [(None, b"v", [(str(each), b"") for each in range(count)]) for count in range(20, 140)]
    same_both_ways(client, records)


def unusual(record: _fetch.Record) -> bytes:
    raise AssertionError(f"this record is left to Python: {record_fields(record)}")


def produced(client: RecordClient, records: list[Any]) -> list[Any]:
    for key, value, headers in records:
        client.producer.produce(TOPIC, value, key, headers=headers)
    assert client.producer.flush(10) == 0
    poll_records(poll_fallback, client.messages, len(records))
    return poll_records(poll_native, client.runs, len(records))


def test_what_nearly_all_records_are_is_made_in_c(client: RecordClient) -> None:
    data = message(b"body", ma={"x-opt-m": 1}, subject="s", app={"color": "red", "n": 7}, footer={"x-opt-f": 1})
    key, value, headers, _ = to_record(data, walk(data))
    texts = [("color", b"red"), ("note", "é".encode()), ("raw", b"\xff"), ("none", None), ("long", b"x" * 300)]
    records = [(key, value, headers), (b"key", b"value", texts), (b"\xff", b"v" * 300, None), (None, b"v", texts)]
    for run in produced(client, records):
        maker = ENCODER._maker(0)
        events, headed = run.events(EncodedEvent, maker, unusual)
        assert events == [record.event(EncodedEvent, maker, unusual) for record in run]
        assert headed == []
        ends = data[data.index(b"body") :], b"value", b"v" * 300, b"v"
        assert all(event.data.endswith(end) for event, end in zip(events, ends, strict=True))


@pytest.fixture
def hashlib_alone() -> Iterator[None]:
    _fetch.bind_sha256(0, 0, 0)
    yield
    digest.bind()



@pytest.mark.parametrize(
    "broken",
    [
        lambda forms, own, names, digest: (forms[:2], own, names, digest),
        lambda forms, own, names, digest: (([*forms[0]], *forms[1:]), own, names, digest),
        lambda forms, own, names, digest: ((("x",) * 8, *forms[1:]), own, names, digest),
        lambda forms, own, names, digest: (forms, ("bare", "cookie", "asked"), names, digest),
        lambda forms, own, names, digest: (forms, own[:2], names, digest),
        lambda forms, own, names, digest: (forms, own, names),
        lambda forms, own, names, digest: [forms, own, names, digest],
        lambda forms, own, names, digest: (forms, own, lambda _: [b"color"], digest),
        lambda forms, own, names, digest: (forms, own, lambda _: (b"color", b"more"), digest),
        lambda forms, own, names, digest: (forms, own, lambda _: ("color",), digest),
        lambda forms, own, names, digest: (forms, own, None, digest),
        lambda forms, own, names, digest: (forms, own, names, None),
        lambda forms, own, names, digest: (forms, own, names, lambda _: b"digest"),
    ],
)
def test_how_messages_are_made_is_looked_at(
    client: RecordClient, broken: Callable[..., Any], hashlib_alone: None
) -> None:
    data = message(b"body", subject="s")
    key, value, headers, _ = to_record(data, walk(data))
    (run,) = produced(client, [(None, b"v", [("color", b"red")]), (key, value, headers)])
    with pytest.raises((TypeError, AttributeError)):
        run.events(EncodedEvent, broken(*ENCODER._maker(0)), unusual)
    with pytest.raises((TypeError, AttributeError)):
        [record.event(EncodedEvent, broken(*ENCODER._maker(0)), unusual) for record in run]


@pytest.mark.parametrize("answer", ["text", b"", None])
def test_what_others_make_is_looked_at(client: RecordClient, answer: Any) -> None:
    for run in produced(client, [(None, None, None)]):
        with pytest.raises(TypeError, match="bytes of sections"):
            run.events(EncodedEvent, ENCODER._maker(0), lambda _: answer)
        with pytest.raises(TypeError, match="tuple"):
            run.events(dict, ENCODER._maker(0), lambda _: answer)


def test_nothing_made_stays_behind(client: RecordClient) -> None:
    data = message(b"body", subject="s")
    key, value, headers, _ = to_record(data, walk(data))
    records = [(None, b"v", [("color", b"red")]), (key, value, headers), (None, None, None)]
    texts = (b"\xa1\x05color",)
    for run in produced(client, records):
        maker = ENCODER._maker(0)
        before = [sys.getrefcount(each) for each in (*maker, *maker[0], maker[1], texts, *texts)]
        for _ in range(50):
            made = run.events(
                EncodedEvent, (*maker[:2], lambda _: texts, maker[3]), lambda _: b"\x00\x53\x77" + bytes(1)
            )
            events = made[0]
            del made
            assert [sys.getrefcount(event.data) for event in events] == [2] * len(run)
            del events
        assert [sys.getrefcount(each) for each in (*maker, *maker[0], maker[1], texts, *texts)] == before


def test_a_run_has_items_but_no_slices(client: RecordClient) -> None:
    (run,) = produced(client, [(b"k", b"v", [])])
    assert run[0].value() == run[-1].value() == b"v"
    with pytest.raises(TypeError):
        run[0:1]
