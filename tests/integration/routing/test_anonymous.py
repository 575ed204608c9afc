"""The anonymous terminus: each message is routed by its `to`, like on a link to that address (AT 2.2, 2.3)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from gateway.amqp.codec.codec import Described, Symbol, Ulong, encode
from tests.support.amqp import frames
from tests.support.amqp.messages import bare, message, section, sections, split
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.crossing import Inbox, Outbox, connected, cookie_of
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: gw-anonymous, http: "127.0.0.1:{http}", log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "svc/**", relay: core}}
      - {{match: "q/**", direct: balanced}}
      - {{match: "all/**", direct: multicast}}
      - {{match: "denied/**", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: ["svc/**", "q/**", "all/**", "nowhere/**"]}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses: [{{match: "svc/**", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  bare:
    listen: [{{bind: "127.0.0.1:{bare}"}}]
    anonymous_relay: false
    response_routing: false
    temporary: false
"""
MAX_QUEUED = 250
"""Maximum number of messages that wait for one destination."""
WINDOW = 1000
"""The credit of an anonymous link."""


class Place(NamedTuple):
    """The ports of the scopes; `bare` has no optional features of the policy."""

    edge: int
    core: int
    bare: int
    gateway: Gateway


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    *numbers, http = ports(4)
    policy = POLICY.format(**dict(zip(("edge", "core", "bare"), numbers, strict=True)), http=http)
    return Place(*numbers, start_module_gateway(policy, env={"SCOPEGATE_TEST_KEY": "k" * 43}))


@pytest.fixture
def outbox(place: Place) -> Outbox:
    """An anonymous link with its credit."""
    outbox = Outbox(place.edge, None)
    assert outbox.credit() == WINDOW
    return outbox


@pytest.mark.row("AT-2.3-1", "AT-2.3-2", "AT-2.3-6", "AT-2.2.1-2", "CORE-11")
def test_a_null_address_is_the_anonymous_terminus_and_nothing_else_is(place: Place) -> None:
    peer = Peer(place.edge)
    assert "ANONYMOUS-RELAY" in peer.start().offered_capabilities.items
    attach = peer.attach_sender(None)
    assert attach.target["address"] is None
    assert (attach.target["capabilities"], attach.properties) == (None, None)
    for handle, target, condition in (
        (1, None, "amqp:invalid-field"),
        (2, frames.target(""), "amqp:not-found"),
    ):
        peer.attach(f"other-{handle}", SENDER, handle, target=target)
        peer.until("attach", target=None)
        peer.expect("detach", closed=True, error=condition)


@pytest.mark.row("AT-2.3-2", "RA-2.1-1")
def test_a_scope_without_them_offers_and_has_none(place: Place) -> None:
    peer = Peer(place.core)
    offered = [
        "AMQP_FILTEX_PROP_V1_0",
        "AMQP_FILTEX_SQL_V1_0",
        "ANONYMOUS-RELAY",
        "LINK_PAIR_V1_0",
        "RESPONSE_ANNOTATIONS_V1_0",
    ]
    assert list(peer.start().offered_capabilities.items) == offered
    peer = Peer(place.bare)
    assert list(peer.start().offered_capabilities.items) == [*offered[:2], "LINK_PAIR_V1_0"]
    peer.attach("a", SENDER)
    peer.expect("attach", target=None)
    peer.expect("detach", closed=True, error="amqp:not-implemented")
    peer.attach("t", RECEIVER, 1, source=frames.source(dynamic=True))
    peer.expect("attach", source=None)
    peer.expect("detach", closed=True, error="amqp:not-allowed")


@pytest.mark.row("AT-2.1-1")
def test_a_direct_link_does_not_look_at_to(place: Place) -> None:
    inbox, other = Inbox(place.edge, "q/y"), Inbox(place.edge, "q/x")
    sender = Outbox(place.edge, "q/y")
    sender.credit()
    sender.post(message(to="q/x"))
    assert sections(inbox.take())["properties"] == {"to": "q/x"}
    assert other.empty()


@pytest.mark.row("AT-2.2-1", "AT-2.2-4", "CORE-5")
def test_messages_arrive_once_and_untouched(place: Place, outbox: Outbox) -> None:
    inboxes = {
        "q/one": [Inbox(place.edge, "q/one")],
        "all/two": [Inbox(place.edge, "all/two"), Inbox(place.edge, "all/two")],
    }
    for address, all_there in inboxes.items():
        sent = message(b"\0x", to=address, ma={"x-opt-m": 1}, app={"n": 1}, footer={"x-opt-f": 2}, user_id=b"u")
        delivery = outbox.post(sent)
        for inbox in all_there:
            assert inbox.take() == sent
            assert inbox.empty()
        assert outbox.outcome(delivery).matches("accepted")


@pytest.mark.row("AT-2.2-4", "X-4")
def test_a_message_for_the_other_scope_crosses_like_any(place: Place, outbox: Outbox) -> None:
    service = Inbox(place.core, "svc/a", capable=True)
    answers = Inbox(place.edge, "q/answers")
    sent = message(to="svc/a", reply_to="q/answers")
    outbox.post(sent)
    got = service.take()
    assert bare(got) == bare(sent)
    responder = Outbox(place.core, "$replies.core")
    responder.post(message(b"home", da={"address-cookie": cookie_of(got)}))
    assert sections(answers.take())["data"] == b"home"
    plain = Inbox(place.core, "svc/b")
    outbox.post(message(to="svc/b", reply_to="q/answers"))
    assert sections(plain.take())["properties"]["reply_to"].startswith("$replies.core/")


OUTCOMES = {
    "accepted": frames.composite("accepted"),
    "released": frames.composite("released"),
    "rejected": frames.composite("rejected", error=frames.error("vendor:bad", "in these words", {Symbol("n"): 7})),
    "modified": frames.composite(
        "modified",
        delivery_failed=True,
        undeliverable_here=True,
        message_annotations={Symbol("x-opt-why"): "late"},
    ),
}


@pytest.mark.row("AT-2.1-2", "AT-2.2-2")
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_outcome_is_the_receivers(place: Place, outbox: Outbox, outcome: str) -> None:
    direct, inbox = Outbox(place.edge, "q/outcome"), Inbox(place.edge, "q/outcome")
    direct.credit()
    states = []
    for sender in (direct, outbox):
        delivery = sender.post(message(to="q/outcome"))
        inbox.take(OUTCOMES[outcome])
        states.append(sender.outcome(delivery))
    assert states[0] == states[1]
    assert states[1].name == outcome
    if outcome == "rejected":
        assert states[1]["error"].matches({"condition": "vendor:bad", "description": "in these words"})
        assert states[1]["error"]["info"] == {Symbol("n"): 7}
    if outcome == "modified":
        assert states[1]["message_annotations"] == {Symbol("x-opt-why"): "late"}


@pytest.mark.row("AT-2.2-3")
@pytest.mark.row("AT-2.2.2-4", part="not in a transaction")
def test_settled_messages_are_forwarded_and_their_failure_ends_the_link(place: Place, outbox: Outbox) -> None:
    inbox = Inbox(place.edge, "q/settled")
    outbox.post(message(b"1", to="q/settled"), settled=True)
    transfer = inbox.transfer()
    assert transfer.settled
    assert sections(transfer.payload)["data"] == b"1"
    assert outbox.fails(message(to="nope"), settled=True).error["condition"] == "amqp:not-found"


NOWHERE = {
    "unknown": "nope",
    "no rule": "nowhere/x",
    "denied": "denied/x",
    "empty": "",
    "temporary": "$temp/gone",
    "replies of nobody": "$replies.nowhere",
    "forged": "$replies.edge/forged",
    "long": "q/" + "x" * 5000,
    "control": "q/a\nb",
    "dots": "../q/x",
}


def directly(port: int, address: str, **fields: Any) -> dict[str, Any]:
    """Attach a sender to an address; return the error of the detach."""
    peer = connected(port)
    peer.attach("direct", SENDER, target=frames.target(address), **fields)
    peer.expect("attach", target=None)
    return dict(peer.expect("detach", closed=True).error)


@pytest.mark.row("AT-2.2.2-1", "AT-2.2.2-2")
@pytest.mark.parametrize("name", NOWHERE)
def test_the_error_is_that_of_a_direct_link(place: Place, outbox: Outbox, name: str) -> None:
    direct = directly(place.edge, NOWHERE[name])
    delivery = outbox.send(message(to=NOWHERE[name]), delivery_tag=b"\x01\x02")
    assert delivery.name == "rejected"
    error = dict(delivery["error"])
    info = dict(error.pop("info"))
    assert info.pop(Symbol("delivery-tag")) == b"\x01\x02"
    assert {**error, "info": info or None} == direct
    assert direct["condition"] in ("amqp:not-found", "amqp:unauthorized-access")
    assert (direct["condition"] == "amqp:unauthorized-access") is (name == "denied")


TAGS = [b"\x01\x02", b"\x00", b"a\x00b", b"\xff\xfe", bytes(range(32))]


@pytest.mark.row("AT-2.2.2-1", "AT-2.2.2-5", "AT-2.2.2-6", "CORE-4")
@pytest.mark.row("AT-2.2.2-4", part="not in a transaction")
@pytest.mark.parametrize("tag", TAGS, ids=[tag.hex() for tag in TAGS])
@pytest.mark.parametrize("mode", ["settled", "accepted only"])
def test_who_cannot_be_told_by_a_rejection_is_detached(place: Place, tag: bytes, mode: str) -> None:
    source = frames.source(outcomes=["amqp:accepted:list"] if mode == "accepted only" else None)
    outbox = Outbox(place.edge, None, source=source)
    detach = outbox.fails(message(to="nope"), delivery_tag=tag, settled=mode == "settled")
    error = dict(detach.error)
    assert error.pop("info") == {Symbol("delivery-tag"): tag}
    assert {**error, "info": None} == directly(place.edge, "nope")


@pytest.mark.row("AT-2.2.2-3", "CORE-4")
@pytest.mark.parametrize("outcomes", [None, ["amqp:accepted:list", "amqp:rejected:list"]])
def test_whoever_takes_rejections_keeps_the_link(place: Place, outcomes: list[str] | None) -> None:
    outbox = Outbox(place.edge, None, source=frames.source(outcomes=outcomes))
    assert outbox.send(message(to="nope")).matches({"error": "amqp:not-found"})
    assert outbox.send(message(to="nope")).matches({"error": "amqp:not-found"})


@pytest.mark.row("AT-2.2.2-7")
def test_what_came_before_a_failure_keeps_its_outcome(place: Place, outbox: Outbox) -> None:
    inbox = Inbox(place.edge, "q/before")
    first = outbox.post(message(b"first", to="q/before"))
    assert sections(inbox.take())["data"] == b"first"
    assert outbox.outcome(first).matches("accepted")
    outbox.post(message(b"bad", to="nope"), settled=True)
    outbox.post(message(b"last", to="q/before"))
    assert outbox.peer.expect("detach").error["condition"] == "amqp:not-found"
    assert inbox.empty()
    outbox.peer.close()
    assert outbox.peer.expect("close").error is None  # without an outcome before it: the last message stays unsettled


@pytest.mark.row("AT-2.2.2-2")
def test_rejections_give_their_credit_back(outbox: Outbox) -> None:
    """More messages than the window, each after the previous one's outcome: the link never runs out of credit."""
    posted = [outbox.post(message(to="nope")) for _ in range(300)]
    for delivery in posted:
        assert outbox.outcome(delivery).matches({"error": "amqp:not-found"})
    credit = WINDOW - 300
    for _ in range(1000):
        outbox.post(message(to="nope"))
        frame = outbox.peer.receive()
        while frame is not None and frame.kind == "flow":
            credit = frame.delivery_count + frame.link_credit - outbox.peer.last_delivery - 1
            frame = outbox.peer.receive()
        assert frame is not None
        assert frame.kind == "disposition"
        credit -= 1
    assert credit > 0


@pytest.mark.row("AT-2.2.2-13")
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("properties", [{}, {"subject": "no to"}, {"message_id": "m", "to": None}])
def test_a_message_without_to(outbox: Outbox, properties: dict[str, Any], settled: bool) -> None:
    payload = message(b"lost", **properties)
    if settled:
        detach = outbox.fails(payload, settled=True, delivery_tag=b"\x07")
        assert detach.error["condition"] == "amqp:precondition-failed"
        assert detach.error["info"] == {Symbol("delivery-tag"): b"\x07"}
    else:
        assert outbox.send(payload).matches({"error": "amqp:precondition-failed"})


def test_a_to_that_is_no_string_is_an_invalid_field(outbox: Outbox) -> None:
    wrong = section(0x73, [None, None, 7]) + section(0x75, b"x")
    outcome = outbox.send(wrong)
    assert outcome.matches({"error": "amqp:invalid-field"})
    assert outcome["error"]["info"][Symbol("field")] == "to"


@pytest.mark.parametrize("payload", [b"", b"noise", encode(Described(Ulong(0x73), "no list")), b"\x00\x53\x73"])
def test_what_is_no_message_is_rejected_alone(place: Place, outbox: Outbox, payload: bytes) -> None:
    assert outbox.send(payload).matches("rejected")
    inbox = Inbox(place.edge, "q/after")
    outbox.post(message(to="q/after"))
    assert "data" in split(inbox.take())


@pytest.mark.row("AT-2.2-5")
def test_slow_destinations_hold_up_nobody(place: Place, outbox: Outbox) -> None:
    """Up to MAX_QUEUED messages wait for each destination; more are released; other destinations are unaffected."""
    slow = [Inbox(place.edge, f"q/slow-{n}", credit=0) for n in range(3)]
    quick = Inbox(place.edge, "q/quick", credit=WINDOW)
    waiting = [outbox.post(message(b"%d" % n, to=f"q/slow-{n % 3}")) for n in range(3 * MAX_QUEUED)]
    extra = outbox.post(message(to="q/slow-0"))
    assert outbox.outcome(extra).matches("released")
    dropped = 'scopegate_dropped_total{rule="$anonymous",scope="edge"}'
    before = place.gateway.metrics().get(dropped, 0.0)
    outbox.post(message(to="q/slow-0"), settled=True)
    place.gateway.wait_metric(dropped, lambda value: value == before + 1)
    for n in range(10):
        outbox.post(message(b"%d" % n, to="q/nobody"))
    for n in range(300):  # more than the window has left
        delivery = outbox.post(message(b"%d" % n, to="q/quick"))
        assert sections(quick.take())["data"] == b"%d" % n
        assert outbox.outcome(delivery).matches("accepted")
    slow[1].peer.flow(0, link_credit=MAX_QUEUED, delivery_count=0)
    for n in range(MAX_QUEUED):
        assert sections(slow[1].take())["data"] == b"%d" % (3 * n + 1)
        assert outbox.outcome(waiting[3 * n + 1]).matches("accepted")


@pytest.mark.row("AT-2.2-5")
def test_a_destination_that_settles_nothing_holds_the_credit_it_gave_and_no_more(place: Place, outbox: Outbox) -> None:
    """Others use the rest of the window; once it is used up, the link waits until the first outcomes."""
    count = WINDOW - 1
    silent, quick = Inbox(place.edge, "q/silent", credit=WINDOW), Inbox(place.edge, "q/other")
    for n in range(count):
        outbox.post(message(b"%d" % n, to="q/silent"))
        silent.transfer()
    for n in range(3):
        delivery = outbox.post(message(b"%d" % n, to="q/other"))
        assert sections(quick.take())["data"] == b"%d" % n
        assert outbox.outcome(delivery).matches("accepted")
    outbox.post(message(b"the whole window", to="q/silent"))
    silent.transfer()
    silent.peer.disposition(0, "accepted", last=count)
    assert outbox.peer.until("flow", handle=0).link_credit >= WINDOW // 4
    delivery = outbox.post(message(b"on", to="q/other"))
    assert sections(quick.take())["data"] == b"on"
    assert outbox.outcome(delivery).matches("accepted")


def test_too_many_addresses_at_a_time_are_a_limit_not_a_leak(outbox: Outbox) -> None:
    first, *_ = [outbox.post(message(to=f"q/many-{n}")) for n in range(256)]
    outbox.post(message(to="q/one-more"))  # makes room where nobody receives
    assert outbox.outcome(first).matches("released")


def test_a_destination_that_goes_takes_nothing_along(place: Place, outbox: Outbox) -> None:
    """Sent but unsettled: modified. Queued at a deleted temporary node: its error. Later: not found."""
    peer = connected(place.edge)
    source = frames.source(dynamic=True)
    peer.attach("temporary", RECEIVER, source=source)
    address = peer.until("attach").source["address"]
    peer.flow(0, link_credit=1, delivery_count=0)
    sent, waits = (outbox.post(message(to=address)) for _ in range(2))
    peer.until("transfer")
    peer.detach(0).until("detach")
    outcomes = {frame.first: frame.state for frame in (outbox.peer.until("disposition") for _ in range(2))}
    assert outcomes[sent].matches({"delivery_failed": True})
    assert outcomes[waits].matches({"error": "amqp:resource-deleted"})
    assert outbox.send(message(to=address)).matches({"error": "amqp:not-found"})


def test_capabilities_are_not_granted_blindly(place: Place) -> None:
    attach = Outbox(
        place.edge, None, target=frames.target(capabilities=["foo-cap"]), properties={Symbol("bar"): 1}
    ).attach
    granted = attach.target["capabilities"]
    assert granted is None or "foo-cap" not in granted.items
    assert not attach.properties or "bar" not in attach.properties
