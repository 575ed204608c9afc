"""Capabilities of opens that the gateway makes and takes: each connection by what its own open said (table 0.6).

As initiator the gateway desires what its policy lets it use, uses it only where it is offered, and offers what the
targets of its own links announce. What it accepts is in `test_capability_cells`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import bare, message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Listener
from tests.support.gateway.crossing import SUPPORTED, Inbox, Outbox, connected, hop_annotations
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways

RELAY, RA, ES, PAIR = "ANONYMOUS-RELAY", "RESPONSE_ANNOTATIONS_V1_0", "AMQP_EVENT_STREAMS_V1_0", "LINK_PAIR_V1_0"
ALL = (RELAY, RA, ES, PAIR)
PULL = "pull: [{from: requests, to: in/1}]"
Fars = Callable[..., Far]


@pytest.fixture
def fars(start_gateway: Gateways) -> Iterator[Fars]:
    with Listener() as listener:
        yield lambda more="": Far(start_gateway, listener, f", {more}" if more else "")


def names(capabilities: Any) -> set[str]:
    return {str(name) for name in capabilities.items} if capabilities else set()


def sent_to(far: Far, payload: bytes, *, port: int, capable: bool) -> tuple[Frame, bytes]:
    """Send to far/x; return the attach of the link on which it came, and the message."""
    client = connected(port)
    client.attach("sender-0", SENDER, target=frames.target("far/x"))
    sender = Outbox.adopt(client)
    attach = None
    if not _relayed(far):
        attach = far.attach()
        far.take(attach, capable=capable)
    sender.credit()
    sender.post(payload)
    if attach is None:
        attach = far.attach()
        far.take(attach)
    return attach, far.transfer(attach)


def _relayed(far: Far) -> bool:
    return RELAY in names(far.opened.desired_capabilities) and RELAY in far.offered


# -- the gateway initiates


@pytest.mark.row("X-9", "RA-2.1-1", "RA-2.1-2", "RA-2.1-3", "AT-2.3-2")
@pytest.mark.parametrize(("offered", "desired"), [((), ()), (ALL, ()), ((), ALL)], ids=["neither", "offers", "desires"])
@pytest.mark.parametrize(
    ("more", "wanted", "given"),
    [
        ("", {RA}, {RA}),
        ("annotations: never", set(), {RA}),
        ("use_relay: true, annotations: never", {RELAY}, {RA}),
        (f"use_relay: true, {PULL}", {RELAY, RA}, {RA}),
    ],
)
def test_our_open_says_what_the_policy_wants_whatever_the_peer_has(
    fars: Fars, more: str, wanted: set[str], given: set[str], offered: tuple[str, ...], desired: tuple[str, ...]
) -> None:
    far = fars(more).accept(*offered, desired=desired)
    assert names(far.opened.desired_capabilities) == wanted
    assert names(far.opened.offered_capabilities) == given


@pytest.mark.row("X-9", "AT-2.3-3", "AT-2.3-4", "AT-2.3-5", "RA-2.1-5")
@pytest.mark.row("RA-2.1-4")
@pytest.mark.parametrize("offered", [True, False], ids=["offered", "not offered"])
@pytest.mark.parametrize("desired", [True, False], ids=["desired", "not desired"])
@pytest.mark.parametrize("capability", [RELAY, RA])
def test_what_is_used_takes_wish_and_offer(fars: Fars, capability: str, desired: bool, offered: bool) -> None:
    """Every cell of the gateway's own wishes; the other capability is offered or not just the other way round."""
    keys = {RELAY: {True: "use_relay: true", False: ""}, RA: {True: "offered", False: "never"}}
    requested = keys[capability][desired]
    more = requested if capability == RELAY else f"annotations: {requested}, replies: {{address: gateway}}"
    other = RA if capability == RELAY else RELAY
    far = fars(more).accept(*([capability] if offered else [other]))
    sent = message(b"ask", to="far/x", reply_to="q/1", message_id="m")
    attach, got = sent_to(far, sent, port=far.core if capability == RELAY else far.edge, capable=True)
    if capability == RELAY:
        assert (attach.target["address"] is None) is (desired and offered)
        assert got == sent
    else:
        assert ("response-address-cookie" in hop_annotations(got)) is (desired and offered)
        assert (bare(got) == bare(sent)) is (desired and offered)


@pytest.mark.row("X-9")
@pytest.mark.parametrize("capability", [ES, PAIR])
@pytest.mark.parametrize("offered", [True, False], ids=["offered", "not offered"])
def test_what_we_never_desire_of_a_peer_is_never_used(fars: Fars, capability: str, offered: bool) -> None:
    """Plain links, whatever is offered: what the client asked for passes, and nothing of ours is added."""
    far = fars().accept(*([capability] if offered else []))
    attach, _ = sent_to(far, message(b"plain"), port=far.core, capable=False)
    assert attach.properties is None
    client = connected(far.core)
    client.attach("receiver-0", RECEIVER, source=frames.source("far/log"), target=frames.target("here"))
    attach = far.attach()
    assert (attach.properties, attach.source["filter"]) == (None, None)


@pytest.mark.row("X-9", "RA-2.1-2", "RA-2.2-4")
@pytest.mark.parametrize("desired", [True, False])
def test_what_we_offer_the_targets_of_our_links_announce(fars: Fars, desired: bool) -> None:
    """The peer desires annotations, or not: our target says the same, and what it announced it honours."""
    far = fars(PULL).accept(desired=(RA,) if desired else ())
    assert names(far.opened.offered_capabilities) == {RA}
    attach = far.attach()
    assert names(attach.target["capabilities"]) == {SUPPORTED}
    handle = far.agree(attach)
    service = Inbox(far.edge, "q/1", capable=True)
    far.peer.until("flow", handle=attach.handle)
    asked = {"response-address-cookie": b"theirs", "response-link-target-address": "far/answers"}
    far.peer.transfer(message(b"ask", reply_to="temp", da=asked), handle)
    reported = hop_annotations(service.take())
    assert reported["response-link-target-address"] == "$replies.edge"
    responder = Outbox(far.edge, "$replies.edge")
    responder.post(message(b"yes", da={"address-cookie": reported["response-address-cookie"]}))
    home = far.attach()
    assert home.target.matches("far/answers")
    far.take(home)
    assert hop_annotations(far.transfer(home)) == {"address-cookie": b"theirs"}


@pytest.mark.row("X-9", "RA-2.3-3")
def test_a_target_announces_what_its_node_honours(fars: Fars) -> None:
    far = fars("pull: [{from: requests, to: here/1}]").accept(desired=(RA,))
    assert names(far.opened.offered_capabilities) == {RA}
    assert far.attach().target["capabilities"] is None


@pytest.mark.row("X-9")
@pytest.mark.parametrize("desired", ALL)
def test_a_peer_that_we_connect_to_gets_no_node_of_ours(fars: Fars, desired: str) -> None:
    """It desires what listeners offer; this open did not offer it, and its attach is refused."""
    far = fars().accept(desired=(desired,))
    far.peer.begin(channel=1)
    far.peer.until("begin")
    far.peer.attach("theirs", SENDER, 7, channel=1, target=frames.target())
    assert far.peer.until("detach").error["condition"] == "amqp:not-allowed"


@pytest.mark.row("X-9", "AT-2.3-3")
@pytest.mark.row("RA-2.1-4")
def test_a_later_connection_inherits_nothing(fars: Fars) -> None:
    """The same container offered both before; what counts is what it says now."""
    far = fars("use_relay: true, annotations: offered, replies: {address: gateway}").accept(RELAY, RA)
    attach, got = sent_to(far, message(b"1", to="far/x"), port=far.core, capable=True)
    assert attach.target["address"] is None
    far.peer.disconnect()
    far.accept()
    attach, got = sent_to(far, message(b"2", to="far/x", reply_to="q/1"), port=far.edge, capable=True)
    assert attach.target.matches("far/x")
    assert hop_annotations(got) == {}
    assert sections(got)["properties"]["reply_to"].startswith("$replies.core/")
