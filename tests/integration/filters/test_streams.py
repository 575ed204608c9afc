"""Filters on event streams, on the real process and a real broker, frame by frame (FX-E2E-1 to -6, ES-E2E-4)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Array, Described, Int, Long, Symbol, Timestamp, Ubyte, Uint, Ulong
from gateway.filters.position.event_stream import offset_symbol
from tests.support.amqp import frames
from tests.support.amqp.links import connected
from tests.support.amqp.messages import bare, message, section, sections
from tests.support.amqp.peer import RECEIVER
from tests.support.filters.corpus import CASES, CORPUS, RED, Case, app, described, group, props, sql
from tests.support.filters.streams import EARLIEST, Answer, StreamPlace, answers, begin
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.servers.kafka import KafkaBroker, new_producer

SMALL_SQL = "amqp:event-streams-sql-filter"


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, kafka_broker: KafkaBroker) -> StreamPlace:
    return begin(start_module_gateway, kafka_broker)


def refusal(port: int, address: str, **filters: Any) -> Any:
    """The error a link with these filters is refused with."""
    peer = connected(port)
    given = {Symbol(name): value for name, value in filters.items()}
    peer.attach("refused", RECEIVER, source=frames.source(address, filter=given))
    peer.until("attach", source=None)
    return peer.expect("detach", closed=True).error


# -- the corpus of docs/conformance.md, part 2


STORED = [each for each in CASES if "d.event-streams-offset" not in str(each.values[0].filter.value)]


@pytest.fixture(scope="module", params=[1, 3], ids=["N1", "N3"])
def corpus(request: pytest.FixtureRequest, place: StreamPlace) -> dict[int, Answer]:
    """What each case's link was answered with and got."""
    topic = place.topic(*CORPUS.values(), partitions=request.param)
    return dict(enumerate(answers(place.port, f"events/{topic}", *(each.values[0].filter for each in STORED))))


@pytest.mark.row("FX-1-1", "FX-2-2", "FX-2-3", "ES-5.2-1", "ES-5.2-2", "ES-5.2-4")
@pytest.mark.parametrize("each", STORED)
def test_a_stream_gives_what_the_filter_matches(
    corpus: dict[int, Answer], each: Case, request: pytest.FixtureRequest
) -> None:
    index = next(at for at, param in enumerate(STORED) if param.values[0] is each)
    numbers = {bare(data): number for number, data in CORPUS.items()}
    assert "".join(numbers[bare(payload)] for payload in corpus[index].payloads) == each.matched
    echoed = corpus[index].source["filter"]
    assert echoed == {"f": each.filter, "start": EARLIEST}
    assert type(echoed["f"].descriptor) is type(each.filter.descriptor)


# -- one message for every field


FIELDS: dict[tuple[str, str], tuple[Any, Any]] = {
    ("properties", "message_id"): (Ulong(7), "7"),
    ("properties", "user_id"): (b"u", b"v"),
    ("properties", "to"): ("somewhere", "nowhere"),
    ("properties", "subject"): ("Ab", "ab"),
    ("properties", "reply_to"): ("home", "Home"),
    ("properties", "correlation_id"): (b"\x01", Ulong(1)),
    ("properties", "content_type"): (Symbol("text/plain"), Symbol("text/html")),
    ("properties", "content_encoding"): (Symbol("gzip"), Symbol("zip")),
    ("properties", "absolute_expiry_time"): (Timestamp(4_000_000_000_000), Timestamp(4_000_000_000_001)),
    ("properties", "creation_time"): (Timestamp(9), Timestamp(8)),
    ("properties", "group_id"): ("g", "h"),
    ("properties", "group_sequence"): (Uint(3), Uint(4)),
    ("properties", "reply_to_group_id"): ("r", "R"),
    ("header", "durable"): (True, False),
    ("header", "priority"): (Ubyte(8), Ubyte(7)),
    ("header", "ttl"): (Uint(86_400_000), Uint(86_400_001)),
    ("application-properties", "int"): (Int(5), "5"),
    ("application-properties", "float"): (0.5, Int(0)),
    ("application-properties", "text"): ("x", Symbol("y")),
    ("application-properties", "flag"): (True, Int(1)),
    ("application-properties", "binary"): (b"b", "b"),
    ("application-properties", "time"): (Timestamp(1), Long(1)),
    ("message-annotations", "x-opt-a"): ("a", "b"),
    ("message-annotations", "event-streams-group-key"): ("k", "K"),
    ("footer", "x-opt-hash"): (b"\x01", b"\x02"),
}
ORDER = {"header": ("durable", "priority", "ttl"), "properties": tuple(n for s, n in FIELDS if s == "properties")}


def having(number: int, section: str, name: str, value: Any) -> bytes:
    """A message with this field and no other."""
    body = b"%d" % number
    if section == "header":
        return message(body, header=[value if each == name else None for each in ORDER["header"]])
    if section == "properties":
        return message(body, **{name: value})
    where = {"application-properties": "app", "message-annotations": "ma", "footer": "footer"}[section]
    return message(body, **{where: {name: value}})  # type: ignore[arg-type]


def asking(section: str, name: str, value: Any) -> Described:
    """A property filter for this field: a list in header and properties, else a map."""
    if section in ORDER:
        return props(section, [value if each == name else None for each in ORDER[section]])
    key: Any = name if section == "application-properties" else Symbol(name)
    return props(section, {key: value})


@pytest.mark.row(
    "FX-4-1", "FX-4.1-1", "FX-4.2-1", "FX-4.3-1", "FX-4.4-1", "FX-4.5-1", "FX-4-3", "FX-4-6", "FX-4-7", "FX-4-20",
    "FX-2-3", "FX-1-1",
)  # fmt: skip
def test_every_field_of_every_section_can_be_asked_for(place: StreamPlace) -> None:
    everything = [having(number, *field, value) for number, (field, (value, _)) in enumerate(FIELDS.items())]
    everything.append(message(b"%d" % len(FIELDS)))
    topic = place.topic(*everything)
    equal = [asking(*field, value) for field, (value, _) in FIELDS.items()]
    other = [asking(*field, value) for field, (_, value) in FIELDS.items()]
    nothing = [props(section, [None] * len(ORDER[section])) for section in ORDER]
    got = [each.bodies for each in answers(place.port, f"events/{topic}", *equal, *other, *nothing)]
    assert got[: len(equal)] == [[number] for number in range(len(equal))]
    durable = list(FIELDS).index(("header", "durable"))
    others: list[list[int]] = [[] for _ in other]
    others[durable] = [number for number in range(len(everything)) if number != durable]  # absent means false
    assert got[len(equal) : -2] == others
    assert got[-2:] == [list(range(len(everything)))] * 2


@pytest.mark.row("FX-4.3-1")
def test_annotations_may_have_numbers_for_keys(place: StreamPlace) -> None:
    """A ulong is another key than the text of its digits, and than a number of another type."""
    keys: list[Any] = [Ulong(0), Ulong(7), Ulong(2**63), Symbol("7"), Symbol("x-opt-7")]
    events = [section(0x72, {key: "x"}) + message(b"%d" % number) for number, key in enumerate(keys)]
    asked = [props("message-annotations", {key: "x"}) for key in keys]
    other = [props("message-annotations", {Ulong(7): "y"}), props("message-annotations", {Ulong(8): None})]
    got = answers(place.port, f"events/{place.topic(*events)}", *asked, *other)
    assert [each.bodies for each in got] == [[0], [1], [2], [3], [4], [], []]
    assert got[1].source["filter"]["f"] == asked[1]
    error = refusal(place.port, "events/any", wrong=props("message-annotations", {Int(7): "x"}))
    assert error["condition"] == "amqp:invalid-field"


# -- the small SQL, and positions


T = 1_700_000_000
"""Seconds: the events come one a second, the fourth and fifth at once."""
TIMES = [T * 1000, T * 1000 + 1000, T * 1000 + 2000, T * 1000 + 3000, T * 1000 + 3000, T * 1000 + 5000]
ALL = list(range(6))
OFFSET, TIME = "d.event-streams-offset", "d.event-streams-timestamp"


def at(number: int) -> str:
    return f"'{offset_symbol(number)}'"


EXPRESSIONS: list[tuple[str, list[int], str]] = [
    ("TRUE", ALL, "ES-5.2.2-2"),
    ("FALSE", [], "ES-5.2.2-2"),
    ("true or false", ALL, "ES-5.2.2-2"),
    ("TRUE OR TRUE AND FALSE", ALL, "ES-5.2.2-2"),
    ("FALSE AND FALSE OR TRUE", ALL, "ES-5.2.2-2"),
    ("1 = 1", ALL, "ES-5.2.2-3"),
    ("1 <> 1", [], "ES-5.2.2-3"),
    ("'a' < 'b'", ALL, "ES-5.2.2-3"),
    (f"{at(2)} < {OFFSET}", [3, 4, 5], "ES-5.2.2-3"),
    (f"{OFFSET} != {at(4)}", [0, 1, 2, 3, 5], "ES-5.2.2-3"),
    (f"{OFFSET} <> {at(4)}", [0, 1, 2, 3, 5], "ES-5.2.2-3"),
    (f"delivery_annotations.event-streams-offset = {at(4)}", [4], "ES-5.2.2-4"),
    (f"d.[event-streams-offset] = {at(4)}", [4], "ES-5.2.2-4"),
    (f"DELIVERY_ANNOTATIONS.event-streams-offset <= {at(1)}", [0, 1], "ES-5.2.2-4"),
    (f"D.Event-Streams-Offset > {at(1)}", [], "ES-5.2.2-4"),
    (f"{OFFSET} > {at(2)}", [3, 4, 5], "ES-5.2.2-5"),
    (f"{OFFSET} >= {at(2)}", [2, 3, 4, 5], "ES-5.2.2-5"),
    (f"{OFFSET} < {at(2)}", [0, 1], "ES-5.2.2-5"),
    (f"{OFFSET} > '@earliest'", ALL, "ES-5.2.2-5 ES-5.1.1-6"),
    (f"{OFFSET} <> '@earliest'", ALL, "ES-5.2.2-5 ES-5.1.1-6"),
    (f"{OFFSET} = '@earliest'", [], "ES-5.2.2-5 ES-5.1.1-6"),
    (f"{OFFSET} >= '@latest'", [], "ES-5.2.2-5 ES-5.1.1-7"),
    (f"{OFFSET} < '@latest'", ALL, "ES-5.2.2-5 ES-5.1.1-7"),
    (f"{OFFSET} > 'zzz'", [], "ES-5.2.2-5 ES-5.1.1-8"),
    (f"{TIME} > 1585672841", ALL, "ES-5.2.2-6"),
    (f"{TIME} > {T + 3}", [5], "ES-5.2.2-6"),
    (f"{TIME} >= {T + 3}", [3, 4, 5], "ES-5.2.2-6 ES-5.1.2-3"),
    (f"{TIME} = {T + 3}", [3, 4], "ES-5.2.2-6 ES-5.1.2-3"),
    (f"{TIME} > {(T + 2) * 1000}", [3, 4, 5], "ES-5.2.2-6"),
    (f"{OFFSET} > {at(1)} AND {TIME} < {T + 3}", [2], "ES-5.2.2-2"),
    (f"{OFFSET} = {at(0)} OR {OFFSET} = {at(5)} AND {TIME} > {T}", [0, 5], "ES-5.2.2-2"),
    ("d.foo > 1", [], "ES-5.2.2-8"),
    ("d.foo > 1 OR 1 = 1", ALL, "ES-5.2.2-8"),
    ("d.event-streams-source-partition = '0'", ALL, "ES-5.2.2-4"),
]
FORMS = {"small": SMALL_SQL, "number": 0x201, "nested": SMALL_SQL, "full": "amqp:sql-filter"}


@pytest.fixture(scope="module")
def timed(place: StreamPlace) -> str:
    """A topic with the events of `TIMES`, from an ordinary producer."""
    topic = place.broker.create_topic()
    producer = new_producer(place.broker.bootstrap)
    for number, time in enumerate(TIMES):
        producer.produce(topic, b"%d" % number, timestamp=time)
    assert producer.flush(PATIENCE) == 0
    return topic


@pytest.fixture(scope="module", params=FORMS)
def table(request: pytest.FixtureRequest, place: StreamPlace, timed: str) -> list[Answer]:
    """What links with each of the expressions got, in one of the forms they can be sent in."""
    form = FORMS[request.param]
    filters = [sql(text) if request.param == "nested" else text for text, _, _ in EXPRESSIONS]
    start = {Symbol("start"): EARLIEST} if request.param == "full" else {}  # not every string names a position
    given: list[Any] = [{Symbol("f"): described(form, each), **start} for each in filters]
    return answers(place.port, f"events/{timed}", *given)


@pytest.mark.row("ES-5.2.2-1", "ES-5.2.2-7", "ES-5.2-1", "ES-5.2-3")
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=text, marks=pytest.mark.row(*rows.split()))
        for number, (text, _, rows) in enumerate(EXPRESSIONS)
    ],
)
def test_the_small_sql_says_what_it_says(table: list[Answer], number: int) -> None:
    _, expected, _ = EXPRESSIONS[number]
    assert table[number].bodies == expected
    assert table[number].source["filter"]["f"].descriptor in FORMS.values()


@pytest.mark.row("ES-5.2.2-2", "ES-5.2.2-3")
@pytest.mark.parametrize("text", [
    "", "NOT TRUE", "(TRUE)", "TRUE OR", "d.a", "d.a >", "d.a = NULL", "d.a = 1.5", "d.a + 1 = 2", "a.color = 'red'",
    "d.event-streams-offset LIKE '0%'", "d.a IN (1)", "d.a = \"x\"", "TRUE | FALSE",
])  # fmt: skip
def test_what_the_small_sql_does_not_have_is_refused(place: StreamPlace, timed: str, text: str) -> None:
    error = refusal(place.port, f"events/{timed}", small=described(0x201, text))
    assert (error["condition"], error["info"]) == ("amqp:invalid-field", {"filter": "small"})


@pytest.mark.row("ES-5.2-2", "ES-5.2-3", "FX-3-5")
def test_filters_of_every_kind_hold_together(place: StreamPlace) -> None:
    """A map of positions, SQL, the small SQL and property filters in one set, and the same in a group."""
    events = [
        message(b"%d" % number, app={"color": color, "n": Int(number)}, subject=f"order-{number}")
        for number, color in enumerate(["red", "blue", "red", "red", "blue", "red"])
    ]
    topic = place.topic(*events)
    after = described(0x200, {Symbol("event-streams-offset"): Symbol(offset_symbol(0))})
    orders = props("properties", {"subject": "&P:order"})
    members = [after, sql("a.n < 5"), described(0x201, f"{OFFSET} <> {at(3)}"), RED, orders]
    together = {Symbol(f"f{number}"): each for number, each in enumerate(members)}
    grouped, two = {Symbol("g"): group("all", *members)}, {Symbol("red"): after, Symbol("x"): RED}
    first, second, third = answers(place.port, f"events/{topic}", together, grouped, two)
    assert (first.bodies, second.bodies, third.bodies) == ([2], [2], [2, 3, 5])
    assert first.source["filter"] == together


@pytest.mark.row("ES-5.2-4", "ES-3.2-5")
def test_without_a_position_a_filter_sees_what_is_new_unless_the_policy_says_otherwise(place: StreamPlace) -> None:
    red, blue = message(b"1", app={"color": "red"}), message(b"2", app={"color": "blue"})
    topic = place.topic(red, blue)
    peer, whole = connected(place.port), {Symbol("f"): RED}
    peer.attach_receiver(None, 0, source=frames.source(f"events/{topic}", filter=whole))
    peer.attach_receiver(None, 1, source=frames.source(f"all/{topic}", filter=whole))
    peer.attach_receiver(None, 2, source=frames.source(f"all/{topic}"))
    place.send(topic, blue, message(b"3", app={"color": "red"}))
    for handle in range(3):
        peer.flow(handle, link_credit=10)
    got: dict[int, list[int]] = {0: [], 1: [], 2: []}
    while sum(map(len, got.values())) < 5:
        frame = peer.until("transfer")
        got[frame.handle].append(int(sections(frame.payload)["data"]))
    assert got == {0: [3], 1: [1, 3], 2: [2, 3]}


@pytest.mark.row("ES-5.1.1-7")
def test_latest_is_another_place_in_every_partition_and_a_new_one_is_read_whole(place: StreamPlace) -> None:
    topic = place.topic(partitions=3)
    for partition, count in enumerate((0, 1, 3)):
        place.send(topic, *[message(b"0", app={"color": "red"})] * count, partition=partition)
    new = {Symbol("f"): sql(f"{OFFSET} > '@latest' AND color = 'red'")}
    old = {Symbol("f"): sql(f"{OFFSET} < '@latest' AND color = 'red'")}
    peer = connected(place.port)
    peer.attach_receiver(None, 0, source=frames.source(f"events/{topic}", filter=new))
    peer.attach_receiver(None, 1, source=frames.source(f"events/{topic}", filter=old))
    place.broker.grow(topic, 4)
    for partition in range(3):
        later = message(b"%d" % (partition + 1), app={"color": "red"})
        place.send(topic, message(b"9", app={"color": "blue"}), later, partition=partition)
    with place.broker.writing() as write:
        for color, body in ((b"red", b"4"), (b"blue", b"9"), (b"red", b"5")):
            write(topic, body, headers=[("color", color)], partition=3)
    peer.flow(0, link_credit=20).flow(1, link_credit=20)
    got: dict[int, list[int]] = {0: [], 1: []}
    while len(got[0]) < 5 or len(got[1]) < 4:
        frame = peer.until("transfer")
        got[frame.handle].append(int(sections(frame.payload)["data"]))
    assert sorted(got[0]) == [1, 2, 3, 4, 5]
    assert got[0].index(4) < got[0].index(5)
    assert got[1] == [0] * 4


# -- refusals and echo


@pytest.mark.row("FX-2-6", "FX-3-4", "FX-4-2", "CORE-3", "FX-2-4", "FX-3-3", "FX-5-25", "FX-4-17")
def test_what_is_in_force_is_answered_and_what_is_wrong_is_refused(place: StreamPlace) -> None:
    topic = place.topic(*CORPUS.values())
    known = {Symbol("known"): sql("color = 'red'")}
    of_values = described("amqp:amqp-value-filter", "x")
    unknown = {Symbol("numbered"): described(0xFEFEFEFE, "x"), Symbol("valued"): of_values}
    (answer,) = answers(place.port, f"events/{topic}", {**known, **unknown, Symbol("start"): EARLIEST})
    assert answer.source["filter"] == {**known, "start": EARLIEST}
    assert answer.source["capabilities"] == Array("symbol", ("AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"))
    assert len(answer.payloads) == 1
    deep = RED
    for _ in range(9):
        deep = group("all", deep)
    for wrong, condition in [
        (sql("data.x = 1"), "amqp:invalid-field"),
        (sql("color ="), "amqp:invalid-field"),
        (sql("lower(color) = 'red'"), "amqp:invalid-field"),
        (app(color="&q:x"), "amqp:invalid-field"),
        (sql("x" * 4097), "amqp:resource-limit-exceeded"),
        (deep, "amqp:resource-limit-exceeded"),
        (group("any", of_values), "amqp:not-implemented"),
    ]:
        error = refusal(place.port, f"events/{topic}", fine=sql("n = 5"), wrong=wrong)
        assert (error["condition"], error["info"]) == (condition, {"filter": "wrong"})
