"""One message with very many small items takes few steps: what is not passed on as bytes is bounded."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest

from bridges.kafka.records.mapping import RecordWriter
from gateway.amqp.codec.codec import Array, Described, Symbol, Uint, encode
from gateway.amqp.codec.decoder import skip
from gateway.amqp.link.receiver_link import ReceiverHalf
from gateway.amqp.link.state import BUFFER_SIZE
from gateway.amqp.message import hop
from gateway.amqp.message._sections import count_values
from gateway.amqp.message.bounds import ANNOTATIONS, COPIES, ENTRIES, FIELDS, ITEMS, SECTIONS
from gateway.amqp.message.sections import properties, walk
from gateway.errors import AmqpError
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.evaluate.readers import UNREAD
from gateway.filters.index import PredicateIndex
from gateway.filters.parse.sql import parse_sql
from gateway.nodes.direct.multicast import Multicast
from gateway.nodes.direct.receiver_filter import ACCESS, source_of
from gateway.response.echo import read_request
from gateway.routing.reserved import asks_me
from tests.support.amqp.direct import Node, steps

MANY = 200_000
ENTRY = b"\xa1\x03key\x41"
BODY = b"\x00\x53\x75\xa0\x01x"
NULLS = b"\xd0" + struct.pack(">II", MANY + 4, MANY) + b"\x40" * MANY


def of_map(code: int, items: bytes, count: int) -> bytes:
    """A section that is a map: its items and how many it says that there are."""
    return bytes((0, 0x53, code, 0xD1)) + struct.pack(">II", len(items) + 4, count) + items


def of_list(code: int, *fields: bytes) -> bytes:
    """A section that is a list of encoded fields."""
    items = b"".join(fields)
    return bytes((0, 0x53, code, 0xD0)) + struct.pack(">II", len(items) + 4, len(fields)) + items


LARGE = of_map(0x74, ENTRY * MANY, 2 * MANY) + BODY


def condition(call: Callable[[], object]) -> str | None:
    """The condition that a call raises."""
    try:
        call()
    except AmqpError as error:
        return error.condition
    return None


def matching(text: str, data: bytes) -> Callable[[], bool]:
    """Whether a message matches a filter, alone and in an index of several."""
    predicate = parse_sql(text)
    test, index = compile_filter(predicate, ACCESS), PredicateIndex[str, tuple[bytes, object]](ACCESS)  # type: ignore
    for number in range(20):
        index.add(f"other {number}", parse_sql(f"{text} AND zzz = '{number}'"))
    index.add("it", predicate)

    def ask() -> bool:
        source = source_of(data)
        assert source is not None
        found = test(source)
        assert ("it" in index.matching(source)) is found
        return found

    return ask


def test_delivery_annotations_are_not_walked_beyond_their_bound() -> None:
    data = of_map(0x71, ENTRY * MANY, 2 * MANY) + BODY
    assert hop.too_many(data)
    assert hop.only(data, hop.ROUTING) is data
    assert steps(lambda: hop.only(data, hop.ROUTING)) < 30
    assert steps(lambda: hop.too_many(data)) < 30


@pytest.mark.parametrize("over", [False, True])
def test_the_bound_of_delivery_annotations(over: bool) -> None:
    head = len(of_map(0x71, b"", 0))
    text = b"\xa1\x01a\xb0" + struct.pack(">I", ANNOTATIONS - head - 8 + over) + bytes(ANNOTATIONS - head - 8 + over)
    data = of_map(0x71, text, 2) + BODY
    assert hop.too_many(data) is over
    assert hop.only(data, hop.ROUTING) == (data if over else BODY)


@pytest.mark.parametrize("over", [False, True])
def test_several_messages_are_looked_at_one_by_one_where_one_may_have_too_many(over: bool) -> None:
    link = SimpleNamespace(_at_once=BUFFER_SIZE, unannounced=False, _never_settled=False)
    small = of_map(0x71, b"\xa1\x01a\x40", 2)
    messages = [(number, small + bytes(ANNOTATIONS - len(small) + over), False) for number in range(2)]
    assert ReceiverHalf._all_plain(link, messages) is not over  # type: ignore[arg-type]  # all that it asks of a link


@pytest.mark.parametrize("descriptor", [b"\x00\x53\x75", b"\x00\x80" + bytes(7) + b"\x75"])
def test_a_message_has_so_many_sections(descriptor: bytes) -> None:
    section = descriptor + b"\xa0\x00"
    assert walk(section * SECTIONS).footer == len(section) * SECTIONS
    assert condition(lambda: walk(section * (SECTIONS + 1))) == "amqp:resource-limit-exceeded"
    assert steps(lambda: source_of(section * MANY)) < 40 * SECTIONS


@pytest.mark.parametrize("described", [b"\x00", b"\x00\x40"])
def test_what_is_described_is_not_nested_for_ever(described: bytes) -> None:
    assert skip(described * 30 + b"\x40" * 31) == len(described) * 30 + (31 if len(described) == 1 else 1)
    data = described * MANY + b"\x40" * (MANY + 1)
    assert condition(lambda: skip(data)) == "amqp:decode-error"
    assert steps(lambda: condition(lambda: skip(data))) < 1000


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a.y IS NULL", LARGE),
        ("NOT a.y = 1", LARGE),
        ("v.y IS NULL", of_map(0x77, ENTRY * MANY, 2 * MANY)),
        ("m.y IS NULL", of_map(0x72, ENTRY * MANY, 2 * MANY) + BODY),
        ("a.y IS NULL", of_map(0x74, ENTRY * MANY, 2) + BODY),
        ("a.y IS NOT NULL", of_map(0x74, b"\xa1\x01y" + NULLS, 2) + BODY),
        ("p.subject IS NOT NULL", of_list(0x73, b"\x40", b"\x40", b"\x40", NULLS) + BODY),
    ],
)
def test_filters_do_not_look_through_what_is_too_much(text: str, data: bytes) -> None:
    ask = matching(text, data)
    assert not ask()
    assert steps(ask) < 5000


def test_what_was_not_looked_through_is_counted() -> None:
    before = UNREAD.sections
    assert not compile_filter(parse_sql("a.y IS NULL"), ACCESS)((LARGE, walk(LARGE)))
    assert UNREAD.sections == before + 1


@pytest.mark.parametrize(("entries", "found"), [(ENTRIES, True), (ENTRIES + 1, False)])
def test_long_sections_with_few_entries_are_looked_through(entries: int, found: bool) -> None:
    long = b"\xb1\x00\x01\x00\x00" + b"a" * FIELDS
    items = (entries - 2) * b"\xa1\x03key\xa1\x04text" + b"\xa1\x01y\x54\x05\xa1\x01z" + long
    assert len(items) > FIELDS
    for code, letter in ((0x74, "a"), (0x77, "v")):
        body = b"" if code == 0x77 else BODY
        ask = matching(f"{letter}.y = 5 AND {letter}.z LIKE 'aaa%'", of_map(code, items, 2 * entries) + body)
        assert ask() is found


def record(data: bytes) -> Callable[[], object]:
    """Make a record of a message."""
    return lambda: RecordWriter().record(data, walk(data))


ARRAY = encode(Array("uint", (Uint(2**20),) * MANY))


@pytest.mark.parametrize(
    "data",
    [
        LARGE,
        of_map(0x72, ENTRY * MANY, 2 * MANY) + BODY,
        of_map(0x72, b"\xa3\x17event-streams-group-key" + NULLS, 2) + BODY,
        of_map(0x74, b"\xa1\x11cloudEvents:speca" + NULLS, 2) + BODY,
        of_map(0x74, b"\xa1\x01a" + ARRAY, 2) + BODY,
        of_list(0x73, NULLS) + BODY,
        of_list(0x73, *(12 * [b"\x40"]), NULLS) + BODY,
        of_list(0x70, b"\x41", NULLS) + BODY,
        of_list(0x73, b"\x00\xa3\x01a" + NULLS) + BODY,
    ],
    ids=["properties", "annotations", "key", "event", "array", "message-id", "last", "header", "described"],
)
def test_what_becomes_headers_of_a_record_has_so_many_values(data: bytes) -> None:
    """20 messages of 600 KB of small properties held everybody else for 2.4 s (stop 22)."""
    make = record(data)
    assert condition(make) == "amqp:resource-limit-exceeded"
    assert steps(lambda: condition(make)) < 1000


def test_the_bound_of_what_becomes_headers_of_a_record() -> None:
    entries = ITEMS // 2 - 1  # and the section's descriptor and map
    texts = [b"\xa1\x05%05d\xa1\x01v" % number for number in range(entries + 1)]
    fits, over = (of_map(0x74, b"".join(texts[:count]), 2 * count) + BODY for count in (entries, entries + 1))
    headers = RecordWriter().record(fits, walk(fits))[2]
    assert headers[: entries : entries - 1] == [("00000", b"v"), (f"{entries - 1:05}", b"v")]
    assert condition(record(over)) == "amqp:resource-limit-exceeded"
    body = of_map(0x77, ENTRY * MANY, 2 * MANY)
    assert record(of_map(0x74, texts[0], 2) + body)() is not None, "a body may have any number"


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (None, 1),
        ([], 1),
        ([1, [2, [3, b"four"]], "five"], 8),
        ({"a": {"b": 1}, "c": bytes(300)}, 7),
        (Array("uint", (Uint(1), Uint(2))), 3),
        (Described(Symbol("d"), ["x"]), 3),
        ("t" * 300, 1),
    ],
)
def test_values_inside_of_others_are_counted(value: object, count: int) -> None:
    data = encode(value)
    assert count_values(b"\x40" + data, 1, 1 + len(data), 100) == count
    assert count_values(data * 3, 0, 3 * len(data), 100) == 3 * count
    assert count_values(data * 100, 0, 100 * len(data), 50) == 51
    for end in range(len(data)):
        assert count_values(data, 0, end, 100) <= count


def test_properties_that_are_lists_are_not_decoded() -> None:
    """They stopped everybody for as long as it takes to decode millions of values."""
    data = of_list(0x73, NULLS, b"\x40", b"\x40", b"\x40", NULLS, NULLS) + BODY
    view = properties(data, walk(data))
    asks: list[Callable[[], object]] = [
        lambda: view.message_id, lambda: view.reply_to, lambda: view.correlation_id, lambda: read_request(data)
    ]  # fmt: skip
    for ask in asks:
        assert condition(ask) == "amqp:invalid-field"
        assert steps(partial(condition, ask)) < 500
    named = of_list(0x73, b"\xa1\x03$me", b"\x40", b"\x40", b"\x40", NULLS) + BODY
    assert not asks_me(named)
    assert steps(lambda: asks_me(named)) < 500


@pytest.mark.parametrize("settled", [False, True])
def test_a_message_that_is_too_much_for_all_receivers_is_refused(settled: bool) -> None:
    """All get their copies in one turn: a thousand of 0.9 MB held everybody for seconds and filled the memory."""
    node, count = Node(Multicast), 8
    receivers = [node.receiver(10) for _ in range(count)]
    sender = node.sender()
    fits = sender.transfer(bytes(COPIES // count))
    over = sender.transfer(bytes(COPIES // count + 1), settled=settled)
    assert [each.got for each in receivers] == [[fits]] * count
    assert sender.refused.condition == "amqp:resource-limit-exceeded"
    assert sender.outcomes.get(over) == ("settled" if settled else "rejected")
    assert sender.open is not settled
    if not settled:
        receivers.pop().leave()
        sender.transfer(over)
        assert [each.got for each in receivers] == [[fits, over]] * (count - 1)
