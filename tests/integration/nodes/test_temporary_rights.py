"""Who may use a temporary node: its maker's connection receives, others send only where it receives (A2)."""

from __future__ import annotations

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.crossing import Inbox, Outbox, Place, answer, connected, cookie_of, pair, start
from tests.support.gateway.gateway import Gateways


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway, "gw-temporary")


def refusal(peer: Peer, name: str, role: bool, handle: int, address: str) -> str:
    """Attach and return the condition of the refusal."""
    end = {"source": frames.source(address)} if role is RECEIVER else {"target": frames.target(address)}
    peer.attach(name, role, handle, **end)
    return str(peer.until("detach").error["condition"])


def test_nobody_else_receives_what_is_sent_to_a_temporary_node(place: Place) -> None:
    mine = Inbox(place.edge, None, source=frames.source(dynamic=True))
    address = mine.attach.source["address"]
    assert refusal(connected(place.edge), "thief", RECEIVER, 0, address) == "amqp:not-allowed"
    service, client, _, _ = pair(place, capable=True)
    client.post(message(reply_to=address))
    responder = Outbox(place.core, "$replies.core")
    responder.credit()
    cookie = cookie_of(service.take())
    for number in range(4):
        delivery = responder.post(answer(cookie, b"%d" % number))
        assert sections(mine.take())["data"] == b"%d" % number
        assert responder.outcome(delivery).matches("accepted")


def test_the_connection_that_made_it_may_receive_on_several_links(place: Place) -> None:
    peer = connected(place.edge)
    address = Inbox(peer, None, source=frames.source(dynamic=True)).attach.source["address"]
    Inbox(peer, address, 1)


def test_others_send_where_the_maker_receives(place: Place) -> None:
    mine = Inbox(place.edge, None, source=frames.source(dynamic=True))
    address = mine.attach.source["address"]
    for target in (address, None):
        sender = Outbox(place.edge, target)
        sender.credit()
        delivery = sender.post(message(b"for you", to=address))
        assert sections(mine.take())["data"] == b"for you"
        assert sender.outcome(delivery).matches("accepted")


def test_only_the_maker_uses_a_node_that_it_made_to_send(place: Place) -> None:
    peer = connected(place.edge)
    peer.attach("made", SENDER, 0, target=frames.target(dynamic=True))
    address = peer.until("attach").target["address"]
    other = connected(place.edge)
    assert refusal(other, "sender", SENDER, 0, address) == "amqp:not-allowed"
    assert refusal(connected(place.edge), "receiver", RECEIVER, 0, address) == "amqp:not-allowed"
    behind = Outbox(place.edge, None)
    assert behind.send_with_credit(message(to=address)).matches({"error": "amqp:not-allowed"})
    mine = Inbox(peer, address, 1)
    delivery = Outbox.adopt(peer).post(message(b"to myself"))
    assert sections(mine.take())["data"] == b"to myself"
    assert delivery == 0
    # JMS clients make a temporary queue with a sender and receive from it on another link.
    for target in (address, None):
        sender = Outbox(place.edge, target)
        sender.credit()
        sender.post(message(b"an answer", to=address))
        assert sections(mine.take())["data"] == b"an answer"
    assert refusal(connected(place.edge), "receiver", RECEIVER, 0, address) == "amqp:not-allowed"
