"""Filters on receiving links, frame by frame: what is answered, refused and delivered (FX 1 to 5).

The corpus is that of docs/conformance.md, part 2: three messages, sent to a multicast node at which one link for each
case is attached, so that what one link gets shows what its filter means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from gateway.amqp.codec import Array, Described, Int, Long, Symbol, Timestamp, Ubyte, Ulong
from tests.protocol.conftest import Served
from tests.support import frames
from tests.support.crossing import Inbox, Outbox
from tests.support.messages import message, sections
from tests.support.peer import RECEIVER, Peer

M1 = message(
    header=[None, Ubyte(9)],
    ma={"event-streams-group-key": "k"},
    app={
        "color": "red",
        "n": Int(5),
        "big": 5,
        "f": 0.5,
        "flag": True,
        "s": "ABC%",
        "q": "it's",
        "zero": Int(0),
        "nul": None,
        "list": [Int(1), "a"],
        "amp": "&S:x",
    },
    message_id="id-1",
    to="x",
    subject="Ab.jpg",
    content_type="application/json",
    footer={"hash": b"\x01"},
)
M2 = message(app={"color": "blue", "n": Int(6)})
M3 = message(value={"order": {"id": Int(7)}, "items": [{"sku": "x"}, {"sku": "y"}], "x": "v"}, creation_time=9)
CORPUS = {"1": M1, "2": M2, "3": M3}


class Case(NamedTuple):
    """A filter and the messages that match it."""

    filter: Described
    matched: str


def described(kind: str | int, content: Any) -> Described:
    return Described(Ulong(kind) if isinstance(kind, int) else Symbol(kind), content)


def sql(text: str) -> Described:
    return described("amqp:sql-filter", text)


def case(rows: str, given: Described | str, matched: str) -> Any:
    """One parameter: its rows, separated by blanks."""
    found = sql(given) if isinstance(given, str) else given
    name = str(found.value)[:60]
    return pytest.param(Case(found, matched), marks=pytest.mark.row(*rows.split()), id=f"{found.descriptor}-{name}")


def props(section: str, content: Any) -> Described:
    return described(f"amqp:{section}-filter", content)


def app(**entries: Any) -> Described:
    return props("application-properties", entries)


RED, BLUE = app(color="red"), app(color="blue")


def group(kind: str, *members: Described) -> Described:
    return described(f"amqp:{kind}-filter", list(members))


def subject(reference: Any) -> Described:
    return props("properties", [None, None, None, reference])


GROUPS = [
    case("FX-3-1 FX-3.1-1 FX-3.1-2", group("all", RED, app(n=Long(5))), "1"),
    case("FX-3.1-1", group("all", RED, BLUE), ""),
    case("FX-3.1-1", group("all"), "123"),
    case("FX-3.1-2", described("amqp:all-filter ", [RED]), "1"),
    case("FX-3.2-1 FX-3.2-2", group("any", RED, BLUE), "12"),
    case("FX-3.2-1", group("any"), ""),
    case("FX-3.3-1 FX-3.3-2", group("not", RED, BLUE), "3"),
    case("FX-3.3-1", group("not"), "123"),
    case("FX-3.3-1", group("not", sql("n > 5")), "13"),
    case("FX-3-2", group("any", group("all", RED, sql("n = 5")), group("not", RED, BLUE)), "13"),
]
PROPERTIES = [
    case("FX-4-3 FX-4-4 FX-4.4-1", props("header", [None, Ubyte(9)]), "1"),
    case("FX-4-4 FX-4.4-1", props("header", [None, Ubyte(4)]), "23"),
    case("FX-4-4", props("header", [False]), "123"),
    case("FX-4-3", props("header", {Symbol("priority"): Ubyte(9)}), "1"),
    case("FX-4-3", props("properties", {Symbol("subject"): "Ab.jpg"}), "1"),
    case("FX-4-6", props("properties", [None] * 13), "123"),
    case("FX-4-7 FX-4-20 FX-4.1-1", subject("Ab.jpg"), "1"),
    case("FX-4-10", subject("ab.jpg"), ""),
    case("FX-4.1-1", props("properties", ["id-1", None, "x", None, None, None, Symbol("application/json")]), "1"),
    case("FX-4.1-1 FX-4-7", props("properties", [None] * 9 + [Timestamp(9)]), "3"),
    case("FX-4-7", props("properties", [None] * 9 + [Long(9)]), ""),
    case("FX-4-10", props("properties", [None] * 6 + ["application/json"]), "1"),
    case("FX-4-5 FX-4.2-1", app(color="red", n=Int(5)), "1"),
    case("FX-4-5", app(color="red", n=Int(6)), ""),
    case("FX-4-8", app(n=Ubyte(5), big=Int(5)), "1"),
    case("FX-4-7", app(n="5"), ""),
    case("FX-4-7", app(flag=Int(1)), ""),
    case("FX-4-9", app(f=Int(0)), ""),
    case("FX-4-7", app(list=[Int(1), "a"]), "1"),
    case("FX-4-7", app(list=[Int(2), "a"]), ""),
    case("FX-4-19", app(color=None), "12"),
    case("FX-4-19", app(nul=None), "1"),
    case("FX-4-19", app(color="red", other=None), ""),
    case("FX-4-11", subject("&S:.jpg"), "1"),
    case("FX-4-11", subject("&S:.JPG"), ""),
    case("FX-4-12", subject("&P:Ab"), "1"),
    case("FX-4-12", subject("&P:ab"), ""),
    case("FX-4-12", subject("&P:"), "1"),
    case("FX-4-13", subject("&s:.JPG"), "1"),
    case("FX-4-14", subject("&p:aB"), "1"),
    case("FX-4-15", subject("&i:AB.JPG"), "1"),
    case("FX-4-15", subject("&i:AB"), ""),
    case("FX-4-16", app(amp="&&S:x"), "1"),
    case("FX-4-18", app(n="&P:5"), ""),
    case("FX-4.3-1", props("message-annotations", {Symbol("event-streams-group-key"): "k"}), "1"),
    case("FX-4.5-1", props("footer", {Symbol("hash"): b"\x01"}), "1"),
    case("FX-4.5-1", props("footer", {Symbol("hash"): b"\x02"}), ""),
    case("FX-3-4", described(0x173, [None, None, None, "Ab.jpg"]), "1"),
    case("FX-3-4", described(0x174, {"color": "red"}), "1"),
    case("FX-3-4", described(0x120, "color = 'red'"), "1"),
]
EXPRESSIONS = [
    case("FX-5-1 FX-2-1", "a.color = 'red'", "1"),
    case("FX-5-2", "NOT a.color = 'red'", "2"),
    case("FX-5-3", "1=2 AND 1=2 OR 1=1", "123"),
    *(
        case("FX-5-4", f"n {sign} {number}", matched)
        for sign, number, matched in [
            ("=", 5, "1"),
            ("<>", 5, "2"),
            ("!=", 5, "2"),
            (">", 5, "2"),
            (">=", 5, "12"),
            ("<", 6, "1"),
            ("<=", 5, "1"),
        ]
    ),
    case("FX-5-4", "a.n = 5.0", "1"),
    case("FX-5-4 FX-2-1", "a.color > 1", ""),
    case("FX-5-5", "a.color IS NULL", "3"),
    case("FX-5-5", "a.nul IS NULL AND color IS NOT NULL", "12"),
    case("FX-5-6", "a.n IN (1, 2 + 3)", "1"),
    case("FX-5-6", "a.n NOT IN (5)", "2"),
    case("FX-5-7", "a.s LIKE 'ABC\\%' ESCAPE '\\'", "1"),
    case("FX-5-7", "a.color LIKE '_l%e'", "2"),
    case("FX-5-7", "a.color NOT LIKE 'R%'", "12"),
    case("FX-5-8", "EXISTS(a.nul)", "1"),
    case("FX-5-9", "(a.n = 5 OR a.n = 6) AND NOT (a.color = 'blue')", "1"),
    case("FX-5-9", "(a.n + 1) * 2 = 12", "1"),
    case("FX-5-10", "a.n % 2 = 0", "2"),
    case("FX-5-10", "a.n / 2 = 2", "1"),
    case("FX-5-10", "-a.n = -5", "1"),
    case("FX-5-10 FX-2-1", "a.n / a.zero = 1", ""),
    case("FX-5-12", "a.n = 05", "1"),
    case("FX-5-13", "a.f = .5", "1"),
    case("FX-5-14", "a.f = 5E-1", "1"),
    case("FX-5-14", "a.n = 5E0", "1"),
    case("FX-5-15", "a.flag = TRUE", "1"),
    case("FX-5-15", "a.flag", "1"),
    case("FX-5-15", "FALSE", ""),
    case("FX-5-16", "a.color = NULL", ""),
    case("FX-5-17", "a.q = 'it''s'", "1"),
    case("FX-5-18", "color = 'red'", "1"),
    case("FX-5-19", "header.priority = 9 AND h.priority > 8", "1"),
    case("FX-5-19", "footer.hash IS NOT NULL AND F.[hash] IS NOT NULL", "1"),
    case("FX-5-19", "properties.subject = 'Ab.jpg' AND p.to = 'x'", "1"),
    case("FX-5-19", "application_properties.n = 5 AND application-properties.n = 5", "1"),
    case("FX-5-19", "message_annotations.[event-streams-group-key] = 'k' AND m.x IS NULL", "1"),
    case("FX-5-19", "amqp-value.x = 'v' AND amqp_value.x = v.x", "3"),
    case("FX-5-20", "p.message_id = 'id-1' AND p.[message-id] = 'id-1'", "1"),
    case("FX-5-20", "a.[color] = 'red' AND [color] = 'red'", "1"),
    case("FX-5-21", "v.order.id = 7", "3"),
    case("FX-5-22", "v.items[0].sku = 'x' AND v.items[2 - 1].sku = 'y'", "3"),
    case("FX-5-22", "v.items[2].sku IS NULL AND v.x = 'v'", "3"),
    case("FX-5-23", "v = 'x'", ""),
    case("FX-5-24", "s.x = 1", ""),
    case("FX-1-3", "JMSPriority = 9", ""),
    case("FX-1-3", "JMSPriority IS NULL", "123"),
    case("FX-2-4", "v.x IS NULL", "12"),
    case("FX-2-5", "d.event-streams-offset > '@earliest'", ""),
    case("FX-2-3", described(0x468C00000004, "JMSPriority = 9 AND color = 'red'"), "1"),
    case("FX-2-3", described("apache.org:selector-filter:string", "n BETWEEN 5 AND 5 AND JMSMessageID = 'id-1'"), "1"),
]
CASES = [*GROUPS, *PROPERTIES, *EXPRESSIONS]


def number_of(payload: bytes) -> str:
    return next(number for number, data in CORPUS.items() if sections(data) == sections(payload))


@pytest.fixture(scope="module")
def delivered(served: Served) -> dict[int, tuple[Any, list[str]]]:
    """What each case's link was answered with, and the numbers of the messages that came on it."""
    peer, found = served.peer(), {}
    for handle, each in enumerate(CASES):
        source = frames.source("news/corpus", filter={Symbol("f"): each.values[0].filter})
        found[handle] = (peer.attach_receiver("news/corpus", handle, source=source).source, list[str]())
        peer.flow(handle, link_credit=10)
    last = Inbox(peer, "news/corpus", len(CASES), credit=10)
    outbox = Outbox(served.peer(), "news/corpus")
    outbox.credit()
    for data in CORPUS.values():
        outbox.post(data, settled=True)
    while last.received < len(CORPUS):
        frame = peer.until("transfer")
        last.received += frame.handle == last.handle
        if frame.handle != last.handle:
            found[frame.handle][1].append(number_of(bytes(frame.payload)))
    return found


@pytest.mark.parametrize("each", CASES)
def test_a_link_gets_what_its_filter_matches(
    delivered: dict[int, tuple[Any, list[str]]], each: Case, request: pytest.FixtureRequest
) -> None:
    index = next(at for at, param in enumerate(CASES) if param.values[0] is each)
    source, numbers = delivered[index]
    assert "".join(numbers) == each.matched
    (echoed,) = source["filter"].values()
    assert echoed == each.filter
    assert type(echoed.descriptor) is type(each.filter.descriptor)


# -- the answer to the attach


def asked(served: Served, **filters: Any) -> Peer:
    """A peer that has asked for a link with these filters."""
    peer = served.peer()
    given = {Symbol(name): value for name, value in filters.items()}
    peer.attach("asked", RECEIVER, source=frames.source("chat/asked", filter=given))
    return peer


@pytest.mark.row("FX-2-6", "FX-3-4", "CORE-3", "FX-4-2")
def test_the_answer_holds_what_is_in_force_and_the_families(served: Served) -> None:
    known = sql("color = 'red'")
    source = (
        asked(
            served,
            mine=known,
            numbered=described(0xFEFEFEFE, "color = 'red'"),
            valued=described("amqp:amqp-value-filter", "x"),
        )
        .expect("attach")
        .source
    )
    assert source["filter"] == {"mine": known}
    assert source["capabilities"] == Array("symbol", ("AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"))
    offered = Peer(served.edge).start().offered_capabilities
    assert {"AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"} <= set(offered.items)


@pytest.mark.parametrize(
    ("given", "condition", "said"),
    [
        pytest.param(*each[1:], marks=pytest.mark.row(*each[0].split()), id=each[3])
        for each in [
            ("FX-5-11", sql("lower(color) = 'red'"), "amqp:invalid-field", "line 1, column 6"),
            ("FX-5-17", sql('color = "red"'), "amqp:invalid-field", "single quotes"),
            ("FX-5-17", sql("color = 'red"), "amqp:invalid-field", "no closing quote"),
            ("FX-2-4", sql("data.x = 1"), "amqp:invalid-field", "data sections"),
            ("FX-4-17", app(color="&q:x"), "amqp:invalid-field", "unknown modifier"),
            ("FX-3-1", described("amqp:any-filter", ["red"]), "amqp:invalid-field", "is not a filter"),
            ("CORE-3", sql("color ="), "amqp:invalid-field", "found the end"),
            ("FX-5-25", sql("x" * 4097), "amqp:resource-limit-exceeded", "4097 characters"),
            ("FX-5-25", sql(" OR ".join(["x"] * 101)), "amqp:resource-limit-exceeded", "the limit is 200"),
            ("ES-5.2.2-2", described(0x201, ""), "amqp:invalid-field", "nothing at all"),
            ("ES-5.2.2-3", described(0x201, "d.a = NULL"), "amqp:invalid-field", "column 7"),
        ]
    ],
)
def test_what_is_malformed_is_refused_with_the_filters_name(
    served: Served, given: Described, condition: str, said: str
) -> None:
    peer = asked(served, fine=sql("x = 1"), wrong=given)
    assert peer.expect("attach").source is None
    error = peer.expect("detach", closed=True).error
    assert (error["condition"], error["info"]) == (condition, {"filter": "wrong"})
    assert said in error["description"]
    assert "'wrong'" in error["description"]


@pytest.mark.row("FX-3-3")
@pytest.mark.parametrize("depth", [8, 9])
def test_groups_nest_to_a_limit(served: Served, depth: int) -> None:
    nested = RED
    for _ in range(depth):
        nested = group("all", nested)
    attach = asked(served, deep=nested).expect("attach")
    assert (attach.source is None) == (depth > 8)


# -- direct nodes


@pytest.fixture
def taken(served: Served) -> Iterator[tuple[Inbox, Inbox, Outbox]]:
    """Receivers of red and of blue at a balanced node, and a sender."""
    red, blue = (
        Inbox(
            served.peer(),
            "chat/colors",
            credit=0,
            source=frames.source("chat/colors", filter={Symbol("f"): sql(f"color = '{color}'")}),
        )
        for color in ("red", "blue")
    )
    red.peer.flow(0, link_credit=2)
    blue.peer.flow(0, link_credit=1)
    outbox = Outbox(served.peer(), "chat/colors")
    while outbox.credit() < 3:
        pass
    yield red, blue, outbox
    for each in (red, blue, outbox):
        each.peer.detach().until("detach")


def colored(color: str) -> bytes:
    return message(app={"color": color})


def colors(inbox: Inbox) -> str:
    return str(sections(inbox.take())["application_properties"]["color"])


def test_a_balanced_node_gives_each_message_to_who_wants_it(taken: tuple[Inbox, Inbox, Outbox]) -> None:
    red, blue, outbox = taken
    first, second = outbox.post(colored("blue")), outbox.post(colored("red"))
    for inbox, color, delivery in ((blue, "blue", first), (red, "red", second)):
        assert colors(inbox) == color
        assert outbox.outcome(delivery).name == "accepted"


def test_what_nobody_wants_goes_back_at_once(taken: tuple[Inbox, Inbox, Outbox]) -> None:
    red, _, outbox = taken
    for _ in range(20):  # more than there is credit: it is given back
        assert outbox.send(colored("green")).name == "released"
    outbox.post(colored("red"))
    assert colors(red) == "red"


def test_who_has_no_credit_does_not_hold_up_the_others(taken: tuple[Inbox, Inbox, Outbox]) -> None:
    red, blue, outbox = taken
    for color in ("blue", "blue", "red"):
        outbox.post(colored(color))
    assert (colors(blue), colors(red)) == ("blue", "red")
    blue.peer.flow(0, link_credit=1, delivery_count=1)
    assert colors(blue) == "blue"


def test_what_waits_goes_back_when_its_only_taker_leaves(taken: tuple[Inbox, Inbox, Outbox]) -> None:
    _, blue, outbox = taken
    first, waiting = outbox.post(colored("blue")), outbox.post(colored("blue"))
    assert colors(blue) == "blue"
    assert outbox.outcome(first).name == "accepted"
    blue.peer.detach().until("detach")
    assert outbox.outcome(waiting).name == "released"
    blue.peer.attach("again", RECEIVER, source=frames.source("chat/elsewhere")).until("attach")


def test_a_multicast_sender_hears_accepted_when_nobody_is_interested(served: Served) -> None:
    source = frames.source("news/colors", filter={Symbol("f"): sql("color = 'red'")})
    red = Inbox(served.peer(), "news/colors", source=source)
    outbox = Outbox(served.peer(), "news/colors")
    outbox.credit()
    assert outbox.send(colored("blue")).name == "accepted"
    first = outbox.post(colored("red"))
    assert colors(red) == "red"
    assert outbox.outcome(first).name == "accepted"


@pytest.mark.row("FX-2-1", "FX-1-4")
def test_what_is_no_message_matches_no_filter(taken: tuple[Inbox, Inbox, Outbox]) -> None:
    _, _, outbox = taken
    for payload in (b"\xff\xff", b"", b"\x00\x53\x74\xc1\xff\xff"):
        assert outbox.send(payload).name == "released"
    assert outbox.send(colored("red"), message_format=99).name == "released"
