"""Filters on receiving links, frame by frame: what is answered, refused and delivered (FX 1 to 5).

The corpus is that of docs/conformance.md, part 2: three messages, sent to a multicast node at which one link for each
case is attached, so that what one link gets shows what its filter means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.amqp.codec.codec import Array, Described, Symbol, Uint
from gateway.amqp.message.sections import AMQP_SEQUENCE, section
from tests.protocol.conftest import Served
from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.filters.corpus import CASES, CORPUS, RED, Case, app, described, group, sql
from tests.support.gateway.crossing import Inbox, Outbox


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


@pytest.mark.row("FX-5-24")
def test_what_is_in_a_sequence_is_null_to_filters(served: Served) -> None:
    """An event of which the body is an amqp-sequence: no condition on it is true, whatever it says."""
    peer, data = served.peer(), section(AMQP_SEQUENCE, [{"x": 1}])
    handles = {}
    for handle, text in enumerate(("s.x = 1", "NOT s.x = 1", "EXISTS(s.x)", "amqp_sequence.x IS NULL", "TRUE")):
        source = frames.source("news/sequence", filter={Symbol("f"): sql(text)})
        peer.attach_receiver("news/sequence", handle, source=source)
        peer.flow(handle, link_credit=1)
        handles[handle] = text
    outbox = Outbox(served.peer(), "news/sequence")
    outbox.credit()
    outbox.post(data, settled=True)
    found = {handles[peer.until("transfer").handle] for _ in range(2)}
    assert found == {"amqp_sequence.x IS NULL", "TRUE"}


# -- the answer to the attach


def attach_with_filters(served: Served, **filters: Any) -> Peer:
    """A peer that has asked for a link with these filters."""
    peer = served.peer()
    given = {Symbol(name): value for name, value in filters.items()}
    peer.attach("asked", RECEIVER, source=frames.source("chat/asked", filter=given))
    return peer


@pytest.mark.row("FX-2-6", "FX-3-4", "CORE-3", "FX-4-2")
def test_the_answer_holds_what_is_in_force_and_the_families(served: Served) -> None:
    known = sql("color = 'red'")
    source = (
        attach_with_filters(
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
            ("FX-4-7", described("amqp:properties-filter", {Symbol("subject"): 5}), "amqp:invalid-field", "is text"),
            ("FX-5-21", sql("headers.priority > 4"), "amqp:invalid-field", "did you mean header.priority?"),
            ("FX-3-1", described("amqp:not-filter", []), "amqp:invalid-field", "has no members"),
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
    peer = attach_with_filters(served, fine=sql("x = 1"), wrong=given)
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
    attach = attach_with_filters(served, deep=nested).expect("attach")
    assert (attach.source is None) == (depth > 8)


@pytest.mark.row("FX-4.4-1")
@pytest.mark.parametrize(
    ("asked", "color"),
    [
        ({"first-acquirer": True}, "first"),
        ({"delivery-count": Uint(3)}, "third"),
        ([None, None, None, None, Uint(3)], "third"),
        ({"ttl": Uint(5000)}, "short"),
        ({"durable": True}, "durable"),
    ],
)
def test_every_field_of_the_header_can_be_asked_for(served: Served, asked: Any, color: str) -> None:
    content = {Symbol(name): value for name, value in asked.items()} if isinstance(asked, dict) else asked
    given = {Symbol("f"): described("amqp:header-filter", content)}
    inbox = Inbox(served.peer(), "chat/header", source=frames.source("chat/header", filter=given))
    outbox = Outbox(served.peer(), "chat/header")
    outbox.credit()
    headers = {
        "plain": None,
        "first": [None, None, None, True],
        "third": [None, None, None, False, Uint(3)],
        "short": [None, None, Uint(5000)],
        "durable": [True],
    }
    for name, header in headers.items():
        delivery = outbox.post(message(header=header, app={"color": name}))
        if name == color:
            assert colors(inbox) == color
        assert outbox.outcome(delivery).name == ("accepted" if name == color else "released")
    inbox.peer.detach().until("detach")


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


def test_a_filter_reaches_through_a_relay_to_another_scope(served: Served) -> None:
    given = {Symbol("f"): sql("color = 'red' AND p.reply_to LIKE 'chat/%'")}
    red = Inbox(served.peer(), "svc/colors", source=frames.source("svc/colors", filter=given))
    assert red.attach.source["filter"] == given
    outbox = Outbox(served.peer(), "svc/colors")
    outbox.credit()
    assert outbox.send(message(app={"color": "blue"}, reply_to="chat/answers")).name == "released"
    first = outbox.post(message(app={"color": "red"}, reply_to="chat/answers"))
    assert colors(red) == "red"
    assert outbox.outcome(first).name == "accepted"


def test_a_multicast_sender_hears_accepted_when_nobody_is_interested(served: Served) -> None:
    source = frames.source("news/colors", filter={Symbol("f"): sql("color = 'red'")})
    red = Inbox(served.peer(), "news/colors", source=source)
    outbox = Outbox(served.peer(), "news/colors")
    outbox.credit()
    assert outbox.send(colored("blue")).name == "accepted"
    first = outbox.post(colored("red"))
    assert colors(red) == "red"
    assert outbox.outcome(first).name == "accepted"


@pytest.mark.row("FX-2-1")
def test_what_is_no_message_matches_no_filter(taken: tuple[Inbox, Inbox, Outbox]) -> None:
    _, _, outbox = taken
    for payload in (b"\xff\xff", b"", b"\x00\x53\x74\xc1\xff\xff"):
        assert outbox.send(payload).name == "released"


def test_pre_settled_messages_that_nobody_wants_are_dropped(taken: tuple[Inbox, Inbox, Outbox]) -> None:
    red, _, outbox = taken
    for _ in range(10):
        outbox.post(colored("green"), settled=True)
        outbox.credit()
    outbox.post(colored("red"), settled=True)
    assert colors(red) == "red"
