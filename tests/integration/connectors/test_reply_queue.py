"""A connector against a scripted container: its response address, what is annotated, and the relay it may use."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.amqp.codec.codec import Ulong
from tests.support.amqp import frames
from tests.support.amqp.messages import bare, fields, message, sections, split
from tests.support.amqp.peer import RECEIVER, SENDER, Listener
from tests.support.gateway.crossing import SUPPORTED, Inbox, Outbox, connected, hop_annotations
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until

ANNOTATIONS = "RESPONSE_ANNOTATIONS_V1_0"
RELAY = "ANONYMOUS-RELAY"
_numbers = itertools.count(1)

Fars = Callable[..., Far]


@pytest.fixture
def fars(start_gateway: Gateways) -> Iterator[Fars]:
    with Listener() as listener:
        yield lambda more="": Far(start_gateway, listener, f", {more}" if more else "")


def asking(far: Far, address: str = "far/x") -> Outbox:
    """Ask for a link from edge; its answer is still to come."""
    client = connected(far.edge)
    client.attach("sender-0", SENDER, target=frames.target(address))
    return Outbox.adopt(client)


def answers(far: Far) -> tuple[Inbox, str]:
    """Attach a place for responses in edge; return its address too."""
    address = f"q/{next(_numbers)}"
    return Inbox(far.edge, address), address


@pytest.mark.row("RA-2.5-2", "RA-2.5-3", "RA-2.5-4", "RA-2.5-5", "RA-2.5-6", "RA-2.5-7", "RA-2.2-1")
@pytest.mark.parametrize("echoed", ["message_id", "correlation_id"])
@pytest.mark.parametrize("original", ["m", Ulong(7), b"\x00\xff"])
def test_a_rewritten_request_is_answered_at_a_dynamic_node_of_the_container(
    fars: Fars, echoed: str, original: Any
) -> None:
    far = fars().accept()
    inbox, reply_to = answers(far)
    client = asking(far)
    responses = far.respond_at("dynamic-1")
    attach = far.attach()
    far.take(attach)
    ids = {"message_id": "other", "correlation_id": "other", echoed: original}
    sent = message(b"ask", reply_to=reply_to, subject="s", app={"n": 1}, **ids)
    client.peer.until("attach")
    delivery = client.post(sent)
    got = far.transfer(attach)
    assert {**split(got), "properties": b""} == {**split(sent), "properties": b""}
    reported = sections(got)["properties"]
    assert reported["reply_to"] == "dynamic-1"
    assert {"reply_to", "message_id", "correlation_id"} == {
        name for name, raw in fields(split(got)["properties"]).items() if raw != fields(split(sent)["properties"])[name]
    }
    far.peer.disposition(0, "accepted")
    assert client.outcome(delivery).matches("accepted")
    far.peer.transfer(message(b"yes", to="dynamic-1", correlation_id=reported[echoed]), responses)
    home = sections(inbox.take())
    assert home["data"] == b"yes"
    assert home["properties"] == {"to": reply_to, "correlation_id": original}
    assert far.peer.until("disposition", role=RECEIVER).state.matches("accepted")


@pytest.mark.row("RA-2.5-3", "RA-2.5-7")
def test_the_correlation_id_stays_where_the_policy_says_so(fars: Fars) -> None:
    """The message-id alone brings the response home (ledger A36)."""
    far = fars("replies: {ids: message-id}").accept()
    inbox, reply_to = answers(far)
    client = asking(far)
    responses = far.respond_at("dynamic-1")
    attach = far.attach()
    far.take(attach)
    client.peer.until("attach")
    sent = message(b"ask", reply_to=reply_to, subject="s", message_id="m", correlation_id="kept")
    client.post(sent)
    got = far.transfer(attach)
    old, new = (fields(split(data)["properties"]) for data in (sent, got))
    assert {name for name in new if new[name] != old[name]} == {"reply_to", "message_id"}
    far.peer.transfer(message(correlation_id="kept"), responses)
    assert far.peer.until("disposition", role=RECEIVER).state.matches({"error": "amqp:not-found"})
    far.peer.transfer(message(b"yes", correlation_id=sections(got)["properties"]["message_id"]), responses)
    assert sections(inbox.take())["properties"] == {"to": reply_to, "correlation_id": "m"}


@pytest.mark.row("RA-2.5-9")
def test_what_names_no_request_is_rejected_and_the_response_address_stays(fars: Fars) -> None:
    far = fars().accept()
    inbox, reply_to = answers(far)
    client = asking(far)
    responses = far.respond_at("dynamic-1")
    attach = far.attach()
    far.take(attach)
    client.peer.until("attach")
    client.post(message(reply_to=reply_to))
    reported = sections(far.transfer(attach))["properties"]
    for correlation in (None, "m", reported["message_id"][:-2]):
        far.peer.transfer(message(correlation_id=correlation), responses)
        outcome = far.peer.until("disposition", role=RECEIVER).state
        assert outcome.matches({"error": "amqp:not-found"})
    far.peer.transfer(message(b"settled, and forged", correlation_id="m"), responses, settled=True)
    far.peer.transfer(message(b"genuine", correlation_id=reported["message_id"]), responses)
    assert sections(inbox.take())["data"] == b"genuine"
    refused = 'scopegate_messages_refused_total{condition="amqp:not-found",scope="core"}'
    assert far.gateway.metrics()[refused] == 4


@pytest.mark.row("RA-2.3-5", "RA-2-3", "RA-3-2")
def test_an_annotated_request_names_the_dynamic_node_and_its_response_comes_home(fars: Fars) -> None:
    far = fars().accept(ANNOTATIONS)
    inbox, reply_to = answers(far)
    client = asking(far)
    responses = far.respond_at("dynamic-1")
    attach = far.attach()
    far.take(attach, capable=True)
    client.peer.until("attach")
    sent = message(b"ask", reply_to=reply_to, message_id="m")
    client.post(sent)
    got = far.transfer(attach)
    assert bare(got) == bare(sent)
    reported = hop_annotations(got)
    assert reported["response-link-target-address"] == "dynamic-1"
    reply = message(b"yes", to=reply_to, correlation_id="m", da={"address-cookie": reported["response-address-cookie"]})
    far.peer.transfer(reply, responses)
    home = inbox.take()
    assert bare(home) == bare(reply)
    assert not hop_annotations(home)


def test_a_container_without_dynamic_nodes_answers_at_the_gateway(fars: Fars) -> None:
    far = fars().accept()
    client = asking(far)
    far.refuse(far.attach())
    attach = far.attach()
    far.take(attach)
    client.peer.until("attach")
    client.post(message(reply_to="q/1"))
    assert sections(far.transfer(attach))["properties"]["reply_to"].startswith("$replies.core/")
    far.gateway.wait_log("no response address")


def test_a_queue_for_responses_that_is_refused_refuses_whoever_asks(fars: Fars) -> None:
    """With the container's own word, and at once; nothing is sent that could not be answered."""
    far = fars("replies: {address: gate-queue}").accept()
    attach = far.attach()
    client = asking(far).peer
    client.attach("beside", RECEIVER, 1, source=frames.source("q/1"))
    assert client.until("attach").name == "beside", "so the gateway has seen the other, and waits"
    far.refuse(attach)
    refused = client.until("attach")
    assert (refused.name, refused.target) == ("sender-0", None)
    assert client.until("detach").error.matches("amqp:not-implemented")


def test_no_response_address_is_made_for_what_needs_none(fars: Fars) -> None:
    """One-way traffic, traffic within the scope, and receivers."""
    far = fars().accept()
    for port, role, address in (
        (far.edge, SENDER, "one-way/x"),
        (far.core, SENDER, "far/x"),
        (far.edge, RECEIVER, "far/x"),
    ):
        terminus = {"target": frames.target(address)} if role is SENDER else {"source": frames.source(address)}
        client = connected(port)
        client.attach("link", role, **terminus)
        attach = far.attach()
        assert attach.role is role
        assert not attach.source["dynamic"]


def test_a_new_connection_brings_a_new_address(fars: Fars) -> None:
    """Links stay; requests name the new node, and what was answered at the old one is lost with it."""
    far = fars().accept()
    inbox, reply_to = answers(far)
    client = asking(far)
    far.respond_at("dynamic-1")
    far.take(far.attach())
    client.peer.until("attach")
    far.peer.disconnect()
    far.accept()
    responses = far.respond_at("dynamic-2")
    attach = far.attach()
    far.take(attach)
    client.credit()
    client.post(message(reply_to=reply_to))
    reported = sections(far.transfer(attach))["properties"]
    assert reported["reply_to"] == "dynamic-2"
    far.peer.transfer(message(b"yes", correlation_id=reported["message_id"]), responses)
    assert sections(inbox.take())["data"] == b"yes"


def test_a_response_address_that_the_container_takes_away_is_replaced(fars: Fars) -> None:
    far = fars().accept()
    inbox, reply_to = answers(far)
    client = asking(far)
    responses = far.respond_at("dynamic-1")
    attach = far.attach()
    far.take(attach)
    client.peer.until("attach")
    client.post(message(reply_to=reply_to))
    assert sections(far.transfer(attach))["properties"]["reply_to"] == "dynamic-1"
    far.peer.detach(responses, error=frames.error("amqp:resource-deleted"))
    again = far.respond_at("dynamic-2")

    def next_request() -> dict[str, Any]:
        client.post(message(reply_to=reply_to))
        return dict(sections(far.transfer(attach))["properties"])

    wait_until(lambda: next_request()["reply_to"] == "dynamic-2", "requests to name the new address")
    far.peer.transfer(message(b"yes", correlation_id=next_request()["message_id"]), again)
    assert sections(inbox.take())["data"] == b"yes"


def test_a_queue_with_a_name_is_read_from_the_start_and_by_any_process(fars: Fars) -> None:
    """A response to a request of the previous process reaches its requester: the id has all that is needed."""
    far = fars("replies: {address: gate-queue}").accept()
    attach = far.attach()
    assert attach.source.matches("gate-queue")
    far.agree(attach)
    inbox, reply_to = answers(far)
    client = asking(far)
    attach = far.attach()
    far.take(attach)
    client.peer.until("attach")
    client.post(message(reply_to=reply_to, message_id="m"))
    reported = sections(far.transfer(attach))["properties"]
    assert reported["reply_to"] == "gate-queue"
    far.gateway.kill()
    far.peer.disconnect()
    far.gateway.restart()
    far.accept()
    responses = far.agree(far.attach())
    inbox = Inbox(far.edge, reply_to)
    far.peer.transfer(message(b"late", correlation_id=reported["message_id"]), responses)
    assert sections(inbox.take())["data"] == b"late"


# -- what is annotated


@pytest.mark.row("RA-2.1-3", "RA-2.1-5", "RA-2.2-1", "RA-2.2-3", "RA-2.5-1", "RA-2.5-10", "RA-3-3")
@pytest.mark.row("RA-2.1-4")
@pytest.mark.parametrize(
    ("policy", "offered", "capable", "annotated"),
    [
        ("trust", True, True, True),
        ("trust", False, True, True),
        ("trust", True, False, False),
        ("trust", False, False, False),
        ("offered", True, True, True),
        ("offered", False, True, False),
        ("", True, True, True),
        ("", False, True, False),
        ("", True, False, False),
        ("never", True, True, False),
        ("never", False, False, False),
    ],
)
def test_which_requests_are_annotated(fars: Fars, policy: str, offered: bool, capable: bool, annotated: bool) -> None:
    requested = f"annotations: {policy}, " if policy else ""
    far = fars(requested + "replies: {address: gateway}").accept(*([ANNOTATIONS] if offered else []))
    desired = far.opened.desired_capabilities
    assert (ANNOTATIONS in (desired.items if desired else ())) is (policy != "never")
    client = Outbox(far.edge, None)
    sent = message(b"early", to="far/x", reply_to="q/1", da={"x-opt-hop": 1})
    client.post(sent)  # waits in the gateway until the target has said what it understands
    attach = far.attach()
    other = asking(far, "far/other")
    far.peer.expect("attach")  # and no transfer came before
    other.peer.disconnect()
    far.take(attach, capable=capable)
    got = far.transfer(attach)
    names = set(hop_annotations(got))
    assert bool(names) is annotated
    assert (bare(got) == bare(sent)) is annotated


@pytest.mark.row("RA-2.2-4")
@pytest.mark.parametrize(
    ("crossing", "capable", "announced"),
    [(True, False, True), (True, True, True), (False, False, False), (False, True, True)],
)
def test_what_a_target_behind_a_connector_announces(fars: Fars, crossing: bool, capable: bool, announced: bool) -> None:
    """Into another scope the gateway honours annotations itself; in the same one the container has to."""
    far = fars("replies: {address: gateway}").accept(ANNOTATIONS)
    client = connected(far.edge if crossing else far.core)
    client.attach("sender-0", SENDER, target=frames.target("far/x"))
    far.take(far.attach(), capable=capable)
    capabilities = client.until("attach").target["capabilities"]
    assert (capabilities is not None and SUPPORTED in capabilities.items) is announced


@pytest.mark.row("RA-2.2-5", "RA-3-1", "RA-2.3-4")
def test_two_targets_of_one_connection_and_a_hundred_messages(fars: Fars) -> None:
    far = fars("replies: {address: gateway}").accept(ANNOTATIONS)
    links = {}
    for capable in (True, False):
        client = asking(far, f"far/{capable}")
        attach = far.attach()
        far.take(attach, capable=capable)
        client.peer.until("attach")
        links[capable] = client, attach
    for capable, (client, attach) in links.items():
        for number in range(100):
            client.post(message(b"%d" % number, reply_to="q/1"))
        for number in range(100):
            got = far.transfer(attach)
            assert sections(got)["data"] == b"%d" % number
            assert any(name.startswith("response-") for name in hop_annotations(got)) is capable


# -- the gateway as user of a relay


@pytest.mark.row("AT-2.3-4", "AT-2.3-7")
def test_an_offered_relay_carries_what_names_its_destination_itself(fars: Fars) -> None:
    far = fars("use_relay: true").accept(RELAY)
    assert RELAY in far.opened.desired_capabilities.items
    assert far.opened.offered_capabilities is None or RELAY not in far.opened.offered_capabilities.items
    client, other = Outbox(far.core, "far/a"), Outbox(far.core, "far/b")
    client.post(message(b"by the relay", to="far/a"))
    relay = far.attach()
    assert relay.target["address"] is None
    far.take(relay)
    assert sections(far.transfer(relay))["data"] == b"by the relay"
    far.peer.disposition(0, "accepted")
    assert client.outcome(0).matches("accepted")
    delivery = other.post(message(b"the same link", to="far/b"))
    transfer = far.peer.until("transfer", handle=relay.handle)
    error = frames.error("amqp:not-found", "no far/b")
    far.peer.disposition(transfer.delivery_id, frames.composite("rejected", error=error))
    assert other.outcome(delivery).matches({"error": "amqp:not-found"})
    for to in ("elsewhere", None):
        client.post(message(b"by its own link", to=to))
        if to:
            direct = far.attach()
            assert direct.target.matches("far/a")
            far.take(direct)
        assert sections(far.transfer(direct))["data"] == b"by its own link"


@pytest.mark.row("AT-2.3-3", "AT-2.3-5")
@pytest.mark.parametrize(("use", "offered"), [(True, False), (False, True)])
def test_without_wish_or_offer_no_link_goes_to_the_null_target(fars: Fars, use: bool, offered: bool) -> None:
    far = fars(f"use_relay: {str(use).lower()}").accept(*([RELAY] if offered else []))
    desired = far.opened.desired_capabilities
    assert (RELAY in (desired.items if desired else ())) is use
    for name in ("a", "b"):
        client = connected(far.core)
        client.attach("sender-0", SENDER, target=frames.target(f"far/{name}"))
        attach = far.attach()
        assert attach.target.matches(f"far/{name}")
        far.take(attach)
        client.until("attach")
        Outbox.adopt(client).post(message(to=f"far/{name}"))
        far.transfer(attach)


@pytest.mark.row("AT-2.3-4")
def test_a_relay_that_goes_away_is_used_again_with_the_next_connection(fars: Fars) -> None:
    far = fars("use_relay: true").accept(RELAY)
    client = Outbox(far.core, "far/a")
    client.post(message(b"1", to="far/a"))
    far.refuse(far.attach())
    assert client.outcome(0).matches({"error": "amqp:not-implemented"})
    client.post(message(b"2", to="far/a"))
    direct = far.attach()
    assert direct.target.matches("far/a")
    far.peer.disconnect()
    far.accept(RELAY)
    later = Outbox(far.core, "far/b")
    later.post(message(b"3", to="far/b"))
    relay = next(each for each in iter(far.attach, None) if each.target["address"] is None)
    far.take(relay)
    assert sections(far.transfer(relay))["data"] == b"3"
