"""A reload takes a sender's link away: first each of its messages gets an outcome, then the link its reason (X-8)."""

from __future__ import annotations

import pytest

from tests.support.amqp import frames
from tests.support.amqp.links import connected, outcomes, receiving, sending
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Listener, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways

pytestmark = pytest.mark.row("X-8")


def granted(sender: Peer, credit: int) -> None:
    """Wait until the sender may send so many messages."""
    while sender.until("flow", handle=0).link_credit < credit:
        pass


def ends(sender: Peer, condition: str, *states: str) -> None:
    """Its messages have these outcomes, and then its link ends."""
    found = outcomes(sender, len(states))
    assert tuple(found[number] for number in range(len(states))) == states
    sender.expect("detach", closed=True, error=condition)


def with_connector(document: Document, port: int, scope: str) -> Document:
    """The policy with `svc/…` at a container behind a connector of a scope."""
    changed = document.but()
    if scope == "core":
        changed.relay(replies="none", key={"file": "key"})
        changed.scope("core")["addresses"].clear()
        changed.connector(port, scope="core")
        changed.scope()["addresses"][-1]["address"] = "queues/{name}"
    else:
        changed.connector(port)
        changed.scope()["addresses"][-1] = {"match": "svc/**", "relay": "broker", "replies": "none"}
    return changed


def sent_on(port: int, listener: Listener) -> tuple[Peer, Peer]:
    """A sender whose message is at the container, which says nothing of it."""
    sender = connected(port)
    sender.attach("sender", SENDER, target=frames.target("svc/a"))
    far = listener.accept_started()
    asked = far.until("attach")
    far.attach(asked.name, RECEIVER, source=frames.source(), target=frames.target(asked.target["address"]))
    far.flow(0, link_credit=5)
    sender.until("flow", handle=0)
    sender.transfer(message(b"sent on"))
    far.until("transfer")
    return sender, far


@pytest.mark.parametrize("scope", ["edge", "core"])
def test_a_message_at_a_container_whose_scope_or_connector_goes(start_gateway: Gateways, scope: str) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    gateway.policy.with_name("key").write_text("k" * 43)
    with Listener() as listener:
        gateway.reload(with_connector(document, listener.port, scope).text)
        sender, far = sent_on(document.edge, listener)
        gateway.reload(document.text)
        far.until("close")
        ends(sender, "amqp:not-found", "modified")


def test_messages_at_a_receiver_and_before_it(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    stays, leaves = receiving(document.edge, "chat/room", credit=1), receiving(document.edge, "chat/room", credit=1)
    sender = connected(document.edge)
    sender.attach_sender("chat/room")
    granted(sender, 2)
    leaves.detach().until("detach")
    sender.transfer(message(b"to the receiver")).transfer(message(b"waits for credit"))
    stays.until("transfer")
    changed = denied(document)
    gateway.reload(changed.text)
    ends(sender, "amqp:unauthorized-access", "modified", "released")


def denied(document: Document) -> Document:
    """The policy where nobody may send any more."""
    changed = document.but()
    changed.scope()["access"] = [{"who": "*", "may": ["receive"], "on": "**"}]
    return changed


def test_a_message_that_came_settled_is_not_heard_of_again(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    stays, leaves = receiving(document.edge, "chat/room", credit=1), receiving(document.edge, "chat/room", credit=1)
    sender = connected(document.edge)
    sender.attach_sender("chat/room")
    granted(sender, 2)
    leaves.detach().until("detach")
    sender.transfer(message(b"one"), settled=True).transfer(message(b"two"), settled=True)
    stays.until("transfer")
    gateway.reload(denied(document).text)
    sender.expect("detach", closed=True, error="amqp:unauthorized-access")
    stays.flow(0, link_credit=1, delivery_count=1)
    assert stays.until("transfer").payload == message(b"two")


def test_messages_for_many_destinations(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    taken = receiving(document.edge, "chat/a", credit=1)
    _slow = receiving(document.edge, "chat/b", credit=0)
    sender = sending(document.edge, None)
    sender.transfer(message(b"one", to="chat/a"))
    taken.until("transfer")
    sender.transfer(message(b"two", to="chat/a")).transfer(message(b"three", to="chat/b"))
    sender.transfer(message(to="nowhere")).until("disposition", first=3)  # those before it are where they wait
    without = document.but()
    without.scope()["anonymous_relay"] = False
    gateway.reload(without.text)
    ends(sender, "amqp:not-implemented", "modified", "released", "released")

