"""Transactions in unusual orders: messages in several frames, links that end before the discharge, and what is late."""

from __future__ import annotations

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.transactions.controller import Controller, in_transaction

ADDRESSES = ["chat/orders", "events/orders"]


def bodies(inbox: Inbox, count: int) -> list[bytes]:
    """The next messages."""
    return [bytes(sections(inbox.take())["data"]) for _ in range(count)]


def working(served: Served, address: str) -> tuple[Inbox, Controller, Outbox]:
    """A receiver, a controller, and a sender with credit."""
    inbox, peer = Inbox(served.peer(), address), served.peer()
    controller, outbox = Controller(peer), Outbox(peer, address, 1)
    outbox.credit()
    return inbox, controller, outbox


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_was_posted_outlives_its_link(served: Served, address: str) -> None:
    """Only the end of the coordinator's link rolls back (4.1)."""
    inbox, controller, outbox = working(served, address)
    txn_id = controller.declare()
    for number in range(2):
        outbox.send(message(b"late %d" % number), state=in_transaction(txn_id))
    outbox.peer.detach(1)
    outbox.peer.until("detach", handle=1)
    discharging = controller.discharging(txn_id)
    assert bodies(inbox, 2) == [b"late 0", b"late 1"]
    assert controller.outcome(discharging).matches("accepted")


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("aborted", [False, True])
def test_a_message_of_several_frames_is_posted_with_the_state_of_its_first(
    served: Served, address: str, aborted: bool
) -> None:
    """One that its sender aborts is none."""
    inbox, controller, outbox = working(served, address)
    txn_id, whole = controller.declare(), message(b"x" * 150_000)
    pieces = [whole[at : at + 10_000] for at in range(0, len(whole), 10_000)]
    number = outbox.post(pieces[0], state=in_transaction(txn_id), more=True)
    for piece in pieces[1:-1]:
        outbox.peer.send("transfer", handle=1, more=True, payload=piece)
    if aborted:
        outbox.peer.send("transfer", handle=1, aborted=True)
    else:
        outbox.peer.send("transfer", handle=1, payload=pieces[-1])
        assert outbox.outcome(number).matches({"txn_id": txn_id, "outcome": "accepted"})
    assert outbox.send(message(b"last"), state=in_transaction(txn_id)).matches({"outcome": "accepted"})
    discharging = controller.discharging(txn_id)
    wanted = [b"last"] if aborted else [b"x" * 150_000, b"last"]
    assert bodies(inbox, len(wanted)) == wanted
    assert controller.outcome(discharging).matches("accepted")


@pytest.mark.row("CORE-9", part="partial delivery")
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("fail", [False, True])
def test_a_discharge_before_a_message_has_come_whole_ends_the_coordinator(
    served: Served, address: str, fail: bool
) -> None:
    """4.4.1: the control link MUST be terminated with the transaction-rollback error."""
    inbox, controller, outbox = working(served, address)
    txn_id, other = controller.declare(), controller.declare()
    assert outbox.send(message(b"lost"), state=in_transaction(txn_id)).matches({"outcome": "accepted"})
    outbox.post(message(b"half")[:3], state=in_transaction(txn_id), more=True)
    controller.discharging(txn_id, fail=fail)
    controller.peer.until("detach", handle=controller.handle, closed=True, error="amqp:transaction:rollback")
    controller.peer.detach(0)
    again = Controller(controller.peer)
    outbox.peer.send("transfer", handle=1, payload=message(b"half")[3:])
    assert again.discharge(again.declare()).matches("accepted")
    assert again.discharge(other)["error"]["condition"] == "amqp:transaction:unknown-id"
    assert inbox.empty() or address == "events/orders"


@pytest.mark.row("CORE-9", part="partial delivery")
def test_a_message_whose_link_ended_in_the_middle_is_none(served: Served) -> None:
    _, controller, outbox = working(served, "events/orders")
    txn_id = controller.declare()
    outbox.post(message(b"half")[:3], state=in_transaction(txn_id), more=True)
    outbox.peer.detach(1)
    outbox.peer.until("detach", handle=1)
    assert controller.discharge(txn_id).matches("accepted")


@pytest.mark.row("AT-2.2.2-12")
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_transaction_is_unknown_when_its_coordinator_is_gone_and_elsewhere(served: Served, address: str) -> None:
    """Its link has ended; another coordinator of the connection; another connection."""
    inbox, controller, outbox = working(served, address)
    txn_id, peer = controller.declare(), controller.peer
    assert outbox.send(message(b"lost"), state=in_transaction(txn_id)).matches({"outcome": "accepted"})
    elsewhere = served.peer()
    stranger, foreign = Controller(elsewhere), Outbox(elsewhere, address, 1)
    outcomes = [foreign.send(message(b"no"), state=in_transaction(txn_id)), stranger.discharge(txn_id)]
    outcomes.append(Controller(peer, 2).discharge(txn_id))
    peer.detach(0)
    peer.until("detach", handle=0)
    outcomes += [outbox.send(message(b"late"), state=in_transaction(txn_id)), Controller(peer).discharge(txn_id)]
    told = [each if each.name == "rejected" else each["outcome"] for each in outcomes]  # it may be being rolled back
    assert {each["error"]["condition"] for each in told} == {"amqp:transaction:unknown-id"}
    assert inbox.empty() or address == "events/orders"


@pytest.mark.row("AT-2.2.2-12")
@pytest.mark.parametrize("address", ADDRESSES)
def test_what_comes_behind_a_discharge_is_too_late(served: Served, address: str) -> None:
    """Also before its answer: another discharge, and a message."""
    inbox, controller, outbox = working(served, address)
    txn_id = controller.declare()
    outbox.send(message(b"in time"), state=in_transaction(txn_id))
    first, second = controller.discharging(txn_id), controller.discharging(txn_id, fail=True)
    late = outbox.post(message(b"late"), state=in_transaction(txn_id))
    assert bodies(inbox, 1) == [b"in time"]
    found = {}
    while len(found) < 3:
        frame = controller.peer.until("disposition")
        found[frame.first] = frame.state
    assert found[first].matches("accepted")
    assert found[second]["error"]["condition"] == "amqp:transaction:unknown-id"
    told = found[late] if found[late].name == "rejected" else found[late]["outcome"]
    assert told["error"]["condition"] == "amqp:transaction:unknown-id"
    assert inbox.empty() or address == "events/orders"
