"""What a peer hears of another scope when something is refused there: the condition, and no word more (RA 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.amqp.codec.codec import Described, Symbol
from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Listener
from tests.support.gateway.crossing import Inbox, Outbox, Place, answer, connected, cookie_of, pair, start
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways

SECRET = "secret-place"
WORDS = {"description": f"no {SECRET} for you", "info": {"where": SECRET, "x-opt-more": {"deep": SECRET}}}


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway, "gw-words")


@pytest.fixture
def fars(start_gateway: Gateways) -> Iterator[Callable[[], Far]]:
    with Listener() as listener:
        yield lambda: Far(start_gateway, listener, ", replies: {address: gateway}")


def assert_own_words(error: Any, condition: str, words: str) -> None:
    """The peer heard this condition, our own words, and at most its delivery's tag."""
    assert error["condition"] == condition
    assert error["description"] == f"the node behind this address {words}"
    assert set(error["info"] or ()) <= {"delivery-tag"}


def rejected(condition: str) -> Any:
    return frames.composite("rejected", error=frames.error(condition, WORDS["description"], WORDS["info"]))


@pytest.mark.row("RA-1-1", "RA-3-7")
@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize(
    ("condition", "received", "words"),
    [
        ("amqp:not-found", "amqp:not-found", "does not exist"),
        ("amqp:unauthorized-access", "amqp:unauthorized-access", "does not permit this"),
        ("amqp:link:redirect", "amqp:not-found", "is in another container"),
        ("vendor:no", "vendor:no", "has refused this"),
    ],
)
def test_a_rejection_in_another_scope(place: Place, anonymous: bool, condition: str, received: str, words: str) -> None:
    receiver = Inbox(place.core, f"services/{words}")
    sender = Outbox(place.edge, None if anonymous else f"plain/{words}")
    sender.credit()
    delivery = sender.post(message(to=f"plain/{words}"))
    receiver.take(rejected(condition))
    outcome = sender.outcome(delivery)
    assert outcome.matches("rejected")
    assert_own_words(outcome["error"], received, words)


@pytest.mark.row("RA-3-7")
def test_a_rejection_in_the_same_scope_is_told_word_for_word(place: Place) -> None:
    receiver, sender = Inbox(place.edge, "q/words"), Outbox(place.edge, "q/words")
    sender.credit()
    delivery = sender.post(message())
    receiver.take(rejected("amqp:not-found"))
    error = sender.outcome(delivery)["error"]
    assert (error["description"], error["info"]) == (WORDS["description"], WORDS["info"])


@pytest.mark.row("RA-3-7", "RA-1-1")
@pytest.mark.parametrize("capable", [False, True])
@pytest.mark.parametrize("anonymous", [False, True])
def test_a_response_that_cannot_be_delivered(place: Place, capable: bool, anonymous: bool) -> None:
    """The requester's address is nobody's business where the responder is."""
    service, client, _, _ = pair(place, capable=capable)
    client.post(message(reply_to=SECRET, message_id="m"))
    asked = service.take()
    to = "$replies.core" if capable else sections(asked)["properties"]["reply_to"]
    reply = answer(cookie_of(asked), to=to) if capable else message(b"yes", to=to)
    responder = Outbox(place.core, None if anonymous else to)
    responder.credit()
    outcome = responder.send(reply)
    assert outcome.matches("rejected")
    assert_own_words(outcome["error"], "amqp:not-found", "does not exist")


@pytest.mark.row("RA-3-7")
@pytest.mark.parametrize("capable", [False, True])
def test_a_response_whose_requester_has_closed_its_receiver(place: Place, capable: bool) -> None:
    """docs/guide/errors.md says so of a dynamic one, whose node has ended with it."""
    service, client, _, _ = pair(place, capable=capable)
    answers = Inbox(client.peer, None, 1, source=frames.source(None, dynamic=True))
    client.post(message(reply_to=answers.attach.source["address"], message_id="m"))
    asked = service.take()
    client.peer.detach(1)
    client.peer.until("detach", handle=1)
    to = "$replies.core" if capable else sections(asked)["properties"]["reply_to"]
    responder = Outbox(place.core, to)
    responder.credit()
    error = responder.send(answer(cookie_of(asked)) if capable else message(b"yes"))["error"]
    assert_own_words(error, "amqp:not-found", "does not exist")


@pytest.mark.row("RA-3-7")
@pytest.mark.parametrize("capable", [False, True])
def test_a_response_that_its_receiver_rejects(place: Place, capable: bool) -> None:
    service, client, answers, reply_to = pair(place, capable=capable)
    client.post(message(reply_to=reply_to, message_id="m"))
    asked = service.take()
    to = "$replies.core" if capable else sections(asked)["properties"]["reply_to"]
    responder = Outbox(place.core, to)
    responder.credit()
    delivery = responder.post(answer(cookie_of(asked)) if capable else message(b"yes"))
    answers.take(rejected("amqp:invalid-field"))
    assert_own_words(responder.outcome(delivery)["error"], "amqp:invalid-field", "has refused this")


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize("role", [SENDER, RECEIVER])
@pytest.mark.parametrize(("scope", "address"), [("edge", "far/x"), ("core", "far/x"), ("core", "renamed/x")])
@pytest.mark.parametrize("later", [False, True])
def test_a_link_that_a_container_refuses_or_ends(
    fars: Callable[[], Far], scope: str, address: str, role: bool, later: bool
) -> None:
    """Its words are for peers of its scope, and for those only who named the address that it knows."""
    far = fars().accept()
    peer = connected(getattr(far, scope))
    terminus = {"source": frames.source(address)} if role is RECEIVER else {"target": frames.target(address)}
    peer.attach("link", role, **terminus)
    attach = far.attach()
    if later:
        handle = far.agree(attach)
        peer.until("attach")
    else:
        handle = far.agree(attach, **{"source" if attach.role is RECEIVER else "target": None})
    far.peer.detach(handle, error=frames.error("amqp:not-found", WORDS["description"], WORDS["info"]))
    error = peer.until("detach").error
    if (scope, address) != ("core", "far/x"):
        assert_own_words(error, "amqp:not-found", "does not exist")
    else:
        assert (error["description"], error["info"]) == (WORDS["description"], WORDS["info"])


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize("relay", [False, True])
@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize("address", ["far/x", "renamed/x"])
def test_a_rejection_by_a_container_of_the_same_scope(
    start_gateway: Gateways, address: str, anonymous: bool, relay: bool
) -> None:
    """Whoever named another address than the container knows hears the condition alone."""
    with Listener() as listener:
        more = ", use_relay: true" if relay else ""
        far = Far(start_gateway, listener, more).accept(*(["ANONYMOUS-RELAY"] if relay else []))
        client = connected(far.core)
        client.attach("sender", SENDER, target=frames.target(None if anonymous else address))
        if anonymous or relay:
            client.until("flow", handle=0)
            client.transfer(message(to=address if anonymous else "renamed"))
        attach = far.attach()
        assert attach.target["address"] in ("far/x", None)  # None: `to` is the container's own address already
        far.take(attach)
        if not (anonymous or relay):
            client.until("flow", handle=0)
            client.transfer(message())
        far.transfer(attach)
        far.peer.disposition(0, rejected("amqp:not-allowed"))
        error = client.until("disposition", first=0).state["error"]
        if address == "far/x":
            assert (error["description"], error["info"]) == (WORDS["description"], WORDS["info"])
        else:
            assert_own_words(error, "amqp:not-allowed", "does not permit this")


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize("scope", ["edge", "core"])
def test_the_name_of_a_link_is_not_told_to_a_container(fars: Callable[[], Far], scope: str) -> None:
    far = fars().accept()
    peer = connected(getattr(far, scope))
    peer.attach(SECRET, RECEIVER, source=frames.source("far/x"))
    assert SECRET not in far.attach().name


@pytest.mark.row("RA-1-1", "RA-3-7")
def test_a_rejection_by_a_container_and_its_name(fars: Callable[[], Far]) -> None:
    far = fars().accept()
    client = Outbox(far.edge, None)
    client.credit()
    delivery = client.post(message(to="far/x"))
    attach = far.attach()
    far.take(attach)
    far.transfer(attach)
    far.peer.disposition(0, rejected("amqp:not-allowed"))
    assert_own_words(client.outcome(delivery)["error"], "amqp:not-allowed", "does not permit this")
    far.peer.disconnect()
    peer = connected(far.edge)
    peer.attach("link", SENDER, target=frames.target("far/y"))
    error = peer.until("detach").error
    assert_own_words(error, "amqp:link:detach-forced", "has ended the link; try again")
    peer = connected(far.core)
    peer.attach("link", SENDER, target=frames.target("far/y"))
    assert peer.until("detach").error["description"].startswith("the container behind this address")


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize("address", ["plain/filtered", "far/x"])
def test_a_filter_of_the_peer_is_its_own_business(place: Place, fars: Callable[[], Far], address: str) -> None:
    """What is wrong with it is told wherever the node is, which is nothing that the peer does not know."""
    far = fars().accept() if address == "far/x" else None
    peer = connected(place.edge if far is None else far.edge)
    wrong = {Symbol("sql"): Described(Symbol("amqp:sql-filter"), "a =")}
    peer.attach("link", RECEIVER, source=frames.source(address, filter=wrong))
    if far is not None:
        far.agree(far.attach(), source=frames.source(address))
    error = peer.until("detach", closed=True, error="amqp:invalid-field").error
    assert "line 1, column 4" in error["description"]
    assert error["info"] == {Symbol("filter"): "sql"}


@pytest.mark.row("RA-1-1")
def test_a_fault_of_the_peer_is_told_wherever_the_node_is(place: Place) -> None:
    sender = Outbox(place.edge, "plain/nobody")
    assert sender.fails(message()).error["description"] == "a transfer arrived without link credit"


@pytest.mark.row("RA-1-1", "CORE-7")
def test_a_link_whose_name_was_taken_hears_so_wherever_the_node_is(place: Place) -> None:
    first, second = (connected(place.edge, container_id="one") for _ in range(2))
    for peer in (first, second):
        peer.attach_receiver("plain/taken", name="taken")
    assert first.until("detach", closed=True).error["description"].startswith("a link of the same name was attached")


NOTE = {Symbol("x-opt-note"): SECRET}


def modified() -> Any:
    return frames.composite("modified", delivery_failed=True, message_annotations=NOTE)


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize("unsaid", [False, True])
def test_annotations_of_a_modification_stay_in_their_scope(place: Place, anonymous: bool, unsaid: bool) -> None:
    """Whether they come with the outcome, or with the source's default outcome."""
    for scope, there, here in (("core", "services/noted", "plain/noted"), ("edge", "q/noted", "q/noted")):
        source = frames.source(there, default_outcome=modified() if unsaid else None)
        receiver = Inbox(getattr(place, scope), there, source=source)
        sender = Outbox(place.edge, None if anonymous else here)
        sender.credit()
        delivery = sender.post(message(to=here))
        receiver.take(None if unsaid else modified())
        outcome = sender.outcome(delivery)
        assert outcome.matches("modified")
        assert outcome["delivery_failed"] is True
        assert (outcome["message_annotations"] or {}) == (NOTE if scope == "edge" else {})


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize("role", [SENDER, RECEIVER])
@pytest.mark.parametrize("scope", ["edge", "core"])
def test_link_properties_of_a_relay_stay_in_their_scope(fars: Callable[[], Far], scope: str, role: bool) -> None:
    """Those of event streams are for the log, wherever it is."""
    far = fars().accept()
    peer = connected(getattr(far, scope))
    stream = {Symbol("event-streams-partition"): Symbol("1")}
    terminus = {"source": frames.source("far/x")} if role is RECEIVER else {"target": frames.target("far/x")}
    peer.attach("link", role, properties={Symbol("from"): SECRET, **stream}, **terminus)
    attach = far.attach()
    far.agree(attach, properties={Symbol("to"): SECRET, **stream})
    answer = peer.until("attach")
    words = scope == "core"
    assert attach.properties == ({Symbol("from"): SECRET, **stream} if words else stream)
    assert answer.properties == ({Symbol("to"): SECRET, **stream} if words else stream)
