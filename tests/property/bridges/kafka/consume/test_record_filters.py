"""Filters on Kafka records say what they would say of the message that the record is delivered as (FX 2-5)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bridges.kafka.consume.batches import BatchCache, FetchedBatch, PartitionBuffer
from bridges.kafka.consume.filters.record_filter import RecordFilter
from bridges.kafka.consume.selection import SharedFilterPass, matching
from bridges.kafka.records.envelope import DATA_VALUE, wrap
from bridges.kafka.records.mapping import RecordWriter
from gateway.amqp.message import sections
from gateway.errors import AmqpError
from gateway.filters.parse.sql import parse_sql
from tests.support.amqp.messages import message
from tests.support.filters import naive_filter as naive
from tests.support.filters import strategies as random
from tests.support.kafka.record_forms import UNREADABLE
from tests.support.plugins.examples import examples

MOMENT = "2026-11-21T20:00:00.5Z"
EVENTS = ("ce_specversion", "ce_a", "cloudEvents:a", "ce_time")
"""With the first of them a record is a CloudEvent, whose other attributes have other names in the message."""
HEADERS = st.lists(
    st.tuples(
        st.sampled_from((*random.NAMES, *EVENTS, "amqp.body", "amqp.to", "amqp.address-cookie", "content-type")),
        st.none() | st.binary(max_size=4) | st.sampled_from((*random.TEXTS, MOMENT, "message")).map(str.encode),
    ),
    max_size=5,
)
KEYS = st.none() | st.binary(max_size=3)


class Record:
    """What the gateway reads of a Kafka client's message."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: Any, kind: int = 1) -> None:
        self._key, self._value, self._headers, self._kind = key, value, headers, kind

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Any:
        return self._headers or None

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return 1234

    def timestamp(self) -> tuple[int, int]:
        return self._kind, 1_700_000_000_000

    def __len__(self) -> int:
        return len(self._value or b"")


def batch_of(record: Record) -> FetchedBatch:
    log = PartitionBuffer("orders", 2, BatchCache(1 << 20), lambda log, position: None)
    return FetchedBatch(log, 1234, 1235, [record])


def delivered(record: Record) -> bytes:
    batch = batch_of(record)
    return batch.event(record)[0]


def check(predicate: Any, record: Record) -> None:
    data = delivered(record)
    expected = naive.evaluate(predicate, naive.message_fields(data)) is True
    chosen = RecordFilter(predicate)
    assert chosen.matches(data) is expected
    assert chosen.may_match(record) in (None, expected)
    assert [event.data for event in matching(predicate).select(batch_of(record))] == ([data] if expected else [])
    ((_, together),) = SharedFilterPass([matching(predicate)]).select(batch_of(record)).items()
    assert [event.data for event in together] == ([data] if expected else [])


@settings(max_examples=examples(150), deadline=None)
@given(random.PREDICATES, random.messages())
def test_records_of_ours(predicate: Any, data: bytes) -> None:
    try:
        record = Record(*RecordWriter().record(data, sections.walk(data)))
    except AmqpError:
        assume(False)
    check(predicate, record)


@settings(max_examples=examples(150), deadline=None)
@given(random.PREDICATES, KEYS, st.none() | st.binary(max_size=5), HEADERS, st.integers(0, 2))
def test_records_of_others(predicate: Any, key: bytes | None, value: bytes | None, headers: Any, kind: int) -> None:
    check(predicate, Record(key, value, headers, kind))


TERMS = st.sampled_from(
    [
        "a = 'a'",
        "b IN ('a', 'ab', 'é')",
        "a LIKE '%b%' AND n = 'a'",
        "NOT a = 'a' AND b = 'A'",
        "a.[cloudEvents:a] = 'a'",
        "a.[cloudEvents:a] IN ('ab', 'A') AND NOT a.ce_a = 'a'",
        "a.ce_a = 'a'",
        "a.[cloudEvents:specversion] = 'a'",
        "a.[cloudEvents:time] > 1000",
        "a.[cloudEvents:time] IS NULL OR a.ce_time = 'a'",
        "d.address-cookie IS NOT NULL",
        "d.event-streams-offset > '@earliest' AND a = 'a'",
        "d.event-streams-offset >= '00000000000000001234' AND a = 'a' AND b LIKE 'a%'",
        "d.event-streams-offset > '00000000000000001234' AND a = 'a'",
        "d.event-streams-offset < '00000000000000001235' AND b LIKE '%b'",
        "d.event-streams-offset <= '2' AND d.event-streams-timestamp > 1699999999999 AND a IN ('a', 'ab')",
        "d.event-streams-timestamp > 1700000000000 AND a = 'a'",
    ]
).map(parse_sql)
TEXTS = st.sampled_from((b"a", b"ab", b"A"))
OTHERS = st.lists(st.tuples(st.sampled_from(("a", "b", "n", *EVENTS)), TEXTS), max_size=4)


@settings(max_examples=examples(400), deadline=None)
@given(TERMS, HEADERS | OTHERS)
def test_texts_are_looked_for_under_every_name_they_may_have(predicate: Any, headers: Any) -> None:
    check(predicate, Record(None, b"x", headers))


@settings(max_examples=examples(200), deadline=None)
@given(TERMS, OTHERS, random.messages())
def test_a_value_may_be_a_whole_message(predicate: Any, others: Any, data: bytes) -> None:
    check(predicate, Record(None, data, [("amqp.body", b"message"), *others]))


@settings(max_examples=examples(400), deadline=None)
@given(TERMS, random.messages(), OTHERS, st.sampled_from((0, 1, 9)), st.booleans())
def test_what_a_tool_did_to_the_headers_of_a_record_is_seen(
    predicate: Any, data: bytes, others: Any, at: int, instead: bool
) -> None:
    """Headers put before and behind those of ours, or instead of them: as delivered, the message has them."""
    try:
        key, value, headers = RecordWriter().record(data, sections.walk(data))
    except AmqpError:
        assume(False)
    mine = headers[-1:] if instead else headers
    check(predicate, Record(key, value, [*mine[:at], *others, *mine[at:]]))


@settings(max_examples=examples(100), deadline=None)
@given(random.PREDICATES, random.messages(), st.binary(max_size=5))
def test_of_a_record_that_was_changed_nothing_comes_that_does_not_match(
    predicate: Any, data: bytes, value: bytes
) -> None:
    try:
        key, old, headers = RecordWriter().record(data, sections.walk(data))
    except AmqpError:
        assume(False)
    assume(old != value)
    record = Record(key, value, headers)
    shown = naive.evaluate(predicate, naive.message_fields(delivered(record)))
    for event in matching(predicate).select(batch_of(record)):
        assert shown is True, event


SHOWN = st.sampled_from(
    [
        "m.[x-opt-kafka-key] IS NULL",
        "m.[x-opt-kafka-key] IS NOT NULL AND NOT a = 'a'",
        "m.[event-streams-group-key] = 'k'",
        "m.[event-streams-group-key] LIKE 'k%' OR p.content_type = 'ab'",
        "m.[x-opt-kafka-tombstone]",
        "NOT EXISTS(m.[x-opt-kafka-tombstone])",
        "EXISTS(m.[x-opt-kafka-headers])",
        "p.content_type IS NULL AND p.subject IS NULL",
        "h.priority = 4",
    ]
).map(parse_sql)
"""Filters on what a record becomes in the sections that records of ours store."""


WHOLE = [("amqp.body", b"message")]
DAMAGED = st.builds(
    lambda key, value, whole, headers, envelope: Record(key, value, [*whole, *headers, ("amqp.bare", envelope)]),
    st.sampled_from((None, b"k")),
    st.sampled_from((None, b"v")) | random.messages(),
    st.sampled_from(([], [], WHOLE)),
    st.just([]) | OTHERS | HEADERS,
    UNREADABLE,
)
"""Records of others with a header that has the name of ours, which is passed over in the message."""


@settings(max_examples=examples(200), deadline=None)
@given(SHOWN, DAMAGED)
def test_a_header_with_the_name_of_ours_makes_no_record_ours(predicate: Any, record: Record) -> None:
    check(predicate, record)


@settings(max_examples=examples(200), deadline=None)
@given(random.PREDICATES | TERMS, DAMAGED)
def test_a_header_with_the_name_of_ours_takes_no_property_away(predicate: Any, record: Record) -> None:
    check(predicate, record)


@settings(max_examples=examples(100), deadline=None)
@given(random.PREDICATES | SHOWN)
def test_a_tombstone_of_ours_has_its_annotation(predicate: Any) -> None:
    head = message(None, ma={"event-streams-group-key": "k"}, app={"a": "a"})
    data = head + sections.section(sections.AMQP_VALUE, None)
    key, value, headers = RecordWriter(tombstones=True).record(data, sections.walk(data))
    assert (key, value) == (b"k", None)
    check(predicate, Record(key, value, headers))


def test_texts_are_looked_for_in_each_amqp_bare_that_has_them() -> None:
    """Whoever can compute the digest may put `amqp.bare` before other headers, with properties that these lack."""
    sealed = wrap(DATA_VALUE, b"", message(None, app={"a": "a"}), b"k", b"v", [("b", b"b")])
    for headers in [("amqp.bare", sealed), ("b", b"b")], [("b", b"b"), ("amqp.bare", sealed)]:
        check(parse_sql("a = 'a'"), Record(b"k", b"v", headers))
        check(parse_sql("a = 'b'"), Record(b"k", b"v", headers))


def test_places_in_the_log_are_those_of_the_delivery_annotations() -> None:
    record = Record(None, b"x", [("color", b"red")])
    for text, expected in {
        "d.event-streams-offset > '00000000000000001233' AND color = 'red'": True,
        "d.event-streams-offset > '00000000000000001234' AND color = 'red'": False,
        "d.event-streams-timestamp = 1700000000 AND color = 'red'": True,
        "d.event-streams-source-partition = '2' AND color LIKE 'r%'": True,
        "d.other = 1 OR color = 'blue'": False,
    }.items():
        assert RecordFilter(parse_sql(text)).may_match(record) is expected, text


def test_the_value_is_not_looked_at_where_headers_say_enough() -> None:
    class Blind(Record):
        def value(self) -> bytes | None:
            raise AssertionError("the value was read")

    assert RecordFilter(parse_sql("color = 'blue'")).may_match(Blind(None, b"x", [("color", b"red")])) is False
    message = sections.section(sections.APPLICATION_PROPERTIES, {"color": "red"}) + b"\x00\x53\x75\xa0\x01x"
    key, _, headers = RecordWriter().record(message, sections.walk(message))
    assert RecordFilter(parse_sql("color = 'blue'")).may_match(Blind(key, b"x", headers)) is False


def test_each_record_is_decoded_once_for_all_the_links_on_a_partition() -> None:
    """Thirty filters on forty records: headers are asked of each once, the value of those that somebody wants."""

    class Counted(Record):
        asked, encoded = 0, 0

        def headers(self) -> Any:
            Counted.asked += 1
            return super().headers()

        def value(self) -> bytes | None:
            Counted.encoded += 1
            return super().value()

    log = PartitionBuffer("orders", 2, BatchCache(1 << 20), lambda log, position: None)
    members = [matching(parse_sql(f"color = 'c{number}' AND size <> '{number}'")) for number in range(30)]
    for member in members:
        log.add_selection(member)
    records = [Counted(None, b"x", [("color", b"c%d" % number), ("size", b"7")]) for number in range(40)]
    batch = FetchedBatch(log, 1234, 1235, records)
    found = [len(batch.selected(member)) for member in members]
    assert found == [number != 7 for number in range(30)]
    wanted = sum(found)
    assert (Counted.asked, Counted.encoded) == (40 + wanted, wanted)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(random.PREDICATES | random.KEYED | SHOWN, min_size=2, max_size=8, unique=True),
    random.messages(),
    HEADERS,
    UNREADABLE,
    st.lists(st.integers(0, 7), max_size=4),
)
def test_filters_looked_at_together_say_what_each_says_alone(
    predicates: Any, data: bytes, headers: Any, envelope: bytes | None, left: list[int]
) -> None:
    records = [Record(b"k", b"v", headers), Record(b"k", b"v", [*headers, ("amqp.bare", envelope)])]
    with suppress(AmqpError):
        records.append(Record(*RecordWriter().record(data, sections.walk(data))))
    members = [matching(predicate) for predicate in predicates]
    together = SharedFilterPass(members)
    for number in {number for number in left if number < len(members)}:
        together.remove(members[number])
    here = [member for number, member in enumerate(members) if number not in left]
    for record in records:
        found = together.select(batch_of(record))
        assert found == {member: member.select(batch_of(record)) for member in here}


def test_a_link_comes_and_goes_at_its_own_cost() -> None:
    """A look for a thousand filters is kept: only a filter that comes is made ready."""
    log = PartitionBuffer("orders", 2, BatchCache(1 << 20), lambda log, position: None)
    members = [matching(parse_sql(f"color = 'c{number}'")) for number in range(1000)]
    newcomer, record = matching(parse_sql("color = 'new'")), Record(None, b"x", [("color", b"new")])
    for member in members:
        log.add_selection(member)
    assert FetchedBatch(log, 1234, 1235, [record]).selected(members[0]) == []

    def seconds(run: Callable[[], object]) -> float:
        start = time.process_time()
        run()
        return time.process_time() - start

    def comes_and_goes() -> None:
        log.add_selection(newcomer)
        assert len(FetchedBatch(log, 1234, 1235, [record]).selected(newcomer)) == 1
        log.remove_selection(newcomer)

    anew = min(seconds(partial(SharedFilterPass, members)) for _ in range(3))
    assert 10 * min(seconds(comes_and_goes) for _ in range(5)) < anew
