"""A receiver that drains a direct node: what is there comes first, then the credit goes back (AMQP 1.0, 2.6.7)."""

from __future__ import annotations

import pytest

from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Inbox, Outbox, Place, connected, start
from tests.support.gateway.gateway import Gateways


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway, "gw-drained")


def drained(peer: Peer, handle: int, delivery_count: int) -> None:
    """The next frame gives all credit of a link back."""
    peer.expect("flow", handle=handle, delivery_count=delivery_count, link_credit=0, drain=True)


@pytest.mark.row("CORE-13")
def test_what_waits_is_sent_before_the_credit_goes_back(place: Place) -> None:
    """Found as C18. The receiver's one credit was given to both senders, one of which says nothing more."""
    peer = connected(place.edge)
    first, second, inbox = (
        Outbox(peer, "q/waits", 0), Outbox(peer, "q/waits", 1), Inbox(peer, "q/waits", 2, credit=1)
    )  # fmt: skip
    first.credit()
    second.credit()
    first.post(message(b"first"))
    second.post(message(b"second"))
    assert sections(inbox.take())["data"] == b"first"
    peer.flow(2, link_credit=5, delivery_count=1, drain=True)
    assert sections(inbox.take())["data"] == b"second"
    peer.until("flow", handle=2, delivery_count=6, link_credit=0, drain=True)


@pytest.mark.row("CORE-13")
def test_a_node_without_messages_gives_the_credit_back_at_once(place: Place) -> None:
    """It stores nothing. What a sender sends with the credit that it was given comes with the receiver's next."""
    receiver, sender = connected(place.edge), connected(place.edge)
    inbox, outbox = Inbox(receiver, "q/empty", credit=0), Outbox(sender, "q/empty")
    receiver.flow(0, link_credit=3, delivery_count=0, drain=True)
    drained(receiver, 0, 3)
    delivery = outbox.post(message(b"late")) if outbox.credit() else None
    assert delivery is not None
    receiver.flow(0, link_credit=1, delivery_count=3)
    assert sections(inbox.take())["data"] == b"late"
    assert outbox.outcome(delivery).matches("accepted")


@pytest.mark.row("CORE-13")
def test_nobody_has_to_answer_before_the_credit_goes_back(place: Place) -> None:
    """Senders that are silent keep what they were given: the receiver's drain is not theirs."""
    peer = connected(place.edge)
    silent = [Outbox(peer, "q/silent", handle) for handle in range(2)]
    Inbox(peer, "q/silent", 2, credit=0)
    peer.flow(2, link_credit=2, delivery_count=0, drain=True)
    flows = [peer.expect("flow") for _ in range(3)]
    assert sorted((flow.handle, flow.link_credit, bool(flow.drain)) for flow in flows) == [
        (silent[0].handle, 1, False), (silent[1].handle, 1, False), (2, 0, True)
    ]  # fmt: skip
