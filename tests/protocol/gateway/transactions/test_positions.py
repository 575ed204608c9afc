"""Outcomes of events in transactions: positions of groups and durable links are committed with them (KM-14)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.frames import Frame, source
from tests.support.amqp.members import requested_properties
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.topics import consuming

ADDRESS = "events/orders"
GROUP = "event-streams-consumer-group"


def attached(peer: Peer, handle: int, *, group: bool, name: str = "transactions") -> Inbox:
    """A link of a group, or a durable one; its name is the same at every connection."""
    durable: dict[str, Any] = {} if group else {"durable": 1, "expiry_policy": "never"}
    properties = {GROUP: name} if group else None
    peer.attach("worker", RECEIVER, handle, source=source(ADDRESS, **durable), properties=properties)
    peer.until("attach", name="worker")
    peer.flow(handle, link_credit=10, delivery_count=0)
    return Inbox.adopt(peer, handle)


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("group", [True, False])
def test_a_link_resumes_after_what_was_committed(served: Served, group: bool, settled: bool) -> None:
    name = f"container-{group}-{settled}"
    peer, feed = served.peer(container_id=name), Outbox(served.peer(), ADDRESS)
    controller, inbox = Controller(peer), attached(peer, 1, group=group)
    bodies = [f"{name}-{number}".encode() for number in range(4)]
    for each in bodies:
        assert feed.send(message(each)).matches("accepted")
    transfers = [inbox.transfer() for _ in bodies]
    back, kept = controller.declare(), controller.declare()
    peer.disposition(transfers[3].delivery_id, in_transaction(back, "accepted"), settled=False)
    for transfer in transfers[:2]:
        peer.disposition(transfer.delivery_id, in_transaction(kept, "accepted"), settled=settled)
    assert controller.discharge(back, fail=True).matches("accepted")
    assert controller.discharge(kept).matches("accepted")
    peer.detach(1, closed=False)
    peer.until("detach")
    peer.disconnect()
    resumed = attached(served.peer(container_id=name), 0, group=group)
    assert [sections(resumed.take())["data"] for _ in range(2)] == bodies[2:]


def test_an_event_that_is_rolled_back_too_often_is_given_up_and_the_log_says_which(served: Served) -> None:
    """`max_redeliveries` counts rollbacks of settled events: a worker that waits for the event learns why (KM-12)."""
    peer, feed = served.peer(container_id="given-up"), Outbox(served.peer(), ADDRESS)
    controller, inbox = Controller(peer), consuming(peer, "orders", 1, group=False, credit=0)

    def next_one() -> Frame:
        peer.flow(1, link_credit=1, delivery_count=inbox.received)
        return inbox.transfer()

    assert feed.send(message(b"poison")).matches("accepted")
    for _ in range(6):
        txn_id, transfer = controller.declare(), next_one()
        assert sections(transfer.payload)["data"] == b"poison"
        peer.disposition(transfer.delivery_id, in_transaction(txn_id, "accepted"))
        assert controller.discharge(txn_id, fail=True).matches("accepted")
    assert feed.send(message(b"wholesome")).matches("accepted")
    assert sections(next_one().payload)["data"] == b"wholesome"
    line = served.gateway.wait_log("event given up after max_redeliveries")
    assert (line["topic"], line["partition"], line["copied"]) == ("orders", 0, False)


@pytest.mark.parametrize("later", ["accepted", "released", None])
def test_an_event_that_is_settled_after_its_outcome(served: Served, later: str | None) -> None:
    """In the same transaction; the last outcome holds, and the position is committed or not as it says."""
    name = f"settles-later-{later}"
    peer, feed = served.peer(container_id=name), Outbox(served.peer(), ADDRESS)
    controller, inbox = Controller(peer), attached(peer, 1, group=False)
    for each in (b"first", b"second"):
        assert feed.send(message(each)).matches("accepted")
    first, _ = [inbox.transfer() for _ in range(2)]
    txn_id = controller.declare()
    peer.disposition(first.delivery_id, in_transaction(txn_id, "accepted"), settled=False)
    peer.disposition(first.delivery_id, None if later is None else in_transaction(txn_id, later), settled=True)
    discharge = controller.discharging(txn_id)
    if later == "released":
        assert sections(inbox.transfer().payload)["data"] == b"first"
    assert controller.outcome(discharge).matches("accepted")
    peer.detach(1, closed=False)
    peer.until("detach")
    peer.disconnect()
    resumed = attached(served.peer(container_id=name), 0, group=False)
    assert sections(resumed.take())["data"] == (b"first" if later == "released" else b"second")


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("group", [True, False])
def test_a_transaction_fails_with_an_outcome_after_the_end_of_a_link(
    served: Served, group: bool, settled: bool
) -> None:
    """A detach is on its way to the client, which goes on: as the event comes again, nothing of it may be committed."""
    name = f"too-late-{group}-{settled}"
    peer, feed = served.peer(container_id=name), Outbox(served.peer(), ADDRESS)
    controller, inbox = Controller(peer), attached(peer, 1, group=group, name=name)
    assert feed.send(message(name.encode())).matches("accepted")
    transfer, txn_id = inbox.transfer(), controller.declare()
    successor = served.peer(container_id=name)
    asked = requested_properties(name, 0, epoch=1) if group else None
    durable: dict[str, Any] = {} if group else {"durable": 1, "expiry_policy": "never"}
    successor.attach("worker", RECEIVER, 0, source=source(ADDRESS, **durable), properties=asked)
    peer.until("detach", error="amqp:link:stolen")
    peer.disposition(transfer.delivery_id, in_transaction(txn_id, "accepted"), settled=settled)
    assert controller.discharge(txn_id)["error"]["condition"] == "amqp:transaction:rollback"
    resumed = Inbox.adopt(successor, 0)
    successor.flow(0, link_credit=1, delivery_count=0)
    assert sections(resumed.take())["data"] == name.encode()
