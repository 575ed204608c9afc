"""Messages that are sent in transactions: to topics, direct nodes, other scopes and the anonymous terminus."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp import frames
from tests.support.amqp.frames import composite
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.transactions.controller import Controller, in_transaction

LIMIT = "amqp:resource-limit-exceeded"
ACCEPTING = frames.source(outcomes=["amqp:accepted:list"])
"""The source of a sender that does not understand `rejected`."""


def working(served: Served, address: str | None, **fields: Any) -> tuple[Controller, Outbox]:
    """A controller, and a sender on the same session."""
    peer = served.peer(desired_capabilities=["ANONYMOUS-RELAY"])
    controller, outbox = Controller(peer), Outbox(peer, address, 1, **fields)
    return controller, outbox


def body(payload: bytes) -> bytes:
    return bytes(sections(payload)["data"])


@pytest.mark.row("AT-2.2.2-11")
@pytest.mark.parametrize("settled", [False, True])
def test_messages_to_a_topic_are_there_after_the_discharge(served: Served, settled: bool) -> None:
    inbox = Inbox(served.peer(), "events/orders")
    controller, outbox = working(served, "events/orders")
    txn_id = controller.declare()
    for number in range(3):
        delivery = outbox.post(message(b"%d" % number), state=in_transaction(txn_id), settled=settled)
        if not settled:
            assert outbox.outcome(delivery).matches({"txn_id": txn_id, "outcome": "accepted"})
    assert controller.discharge(txn_id).matches("accepted")
    for number in range(3):
        assert inbox.take().endswith(message(b"%d" % number))


@pytest.mark.row("AT-2.2.2-12")
@pytest.mark.parametrize("coordinated", [True, False])
def test_a_post_in_an_unknown_transaction_is_rejected(served: Served, coordinated: bool) -> None:
    peer = served.peer()
    if coordinated:
        Controller(peer)
    outbox = Outbox(peer, "events/orders", int(coordinated))
    state = outbox.send(message(b"no"), state=in_transaction(b"unknown"))
    assert state["error"]["condition"] == "amqp:transaction:unknown-id"


@pytest.mark.row("AT-2.2.2-12")
def test_a_settled_post_in_a_finished_transaction_ends_its_link(served: Served) -> None:
    controller, outbox = working(served, "events/orders")
    txn_id = controller.declare()
    assert controller.discharge(txn_id).matches("accepted")
    detach = outbox.fails(message(b"no"), state=in_transaction(txn_id), settled=True)
    assert detach.error["condition"] == "amqp:transaction:unknown-id"


@pytest.mark.row("AT-2.2.2-11")
@pytest.mark.parametrize("address", ["chat/a", "svc/a", "news/a", None])
@pytest.mark.parametrize("settled", [False, True])
def test_a_node_that_stores_nothing_gets_messages_when_they_are_committed(
    served: Served, address: str | None, settled: bool
) -> None:
    """Also in another scope, and by way of the anonymous terminus."""
    at, port = address or "chat/anonymous", served.core if address == "svc/a" else served.edge
    receiver = Peer(port)
    receiver.start()
    inbox = Inbox(receiver, at.replace("svc", "services"))
    controller, outbox = working(served, address)
    if address is not None:
        outbox.credit()
    txn_id = controller.declare()
    for number in range(3):
        delivery = outbox.post(message(b"%d" % number, to=at), state=in_transaction(txn_id), settled=settled)
        if not settled:
            assert outbox.outcome(delivery).matches({"txn_id": txn_id, "outcome": "accepted"})
    assert inbox.empty()
    discharging = controller.discharging(txn_id)
    assert [body(inbox.take()) for _ in range(3)] == [b"0", b"1", b"2"]
    assert controller.outcome(discharging).matches("accepted")


@pytest.mark.parametrize("fail", [True, None])
def test_nobody_gets_messages_that_were_rolled_back(served: Served, fail: bool | None) -> None:
    """By a discharge, or by the end of the controller's link."""
    inbox = Inbox(served.peer(), "chat/back")
    controller, outbox = working(served, "chat/back")
    outbox.credit()
    txn_id = controller.declare()
    outbox.send(message(b"never"), state=in_transaction(txn_id))
    if fail is None:
        controller.peer.detach(controller.handle)
        controller.peer.until("detach")
    else:
        assert controller.discharge(txn_id, fail=True).matches("accepted")
    state = outbox.send(message(b"late"), state=in_transaction(txn_id))
    assert state["error"]["condition"] == "amqp:transaction:unknown-id"
    assert inbox.empty()


@pytest.mark.row("AT-2.2.2-4", "AT-2.2.2-8", "AT-2.2.2-9")
@pytest.mark.parametrize("fail", [False, True])
def test_a_settled_post_that_fails_dooms_its_transaction(served: Served, fail: bool) -> None:
    """The message cannot be refused by itself; its sender's link stays."""
    inbox = Inbox(served.peer(), "chat/doomed")
    controller, outbox = working(served, None)
    txn_id = controller.declare()
    outbox.send(message(b"fine", to="chat/doomed"), state=in_transaction(txn_id))
    outbox.post(message(b"lost", to="nope"), state=in_transaction(txn_id), settled=True, delivery_tag=b"\0tag")
    outcome = controller.discharge(txn_id, fail=fail)
    if fail:
        assert outcome.matches("accepted")
    else:
        assert outcome["error"]["condition"] == "amqp:transaction:rollback"
        assert "amqp:not-found: 'nope': no node has this address" in outcome["error"]["description"]
        assert outcome["error"]["info"] == {"delivery-tag": b"\0tag"}
    assert inbox.empty()
    again = controller.declare()
    assert outbox.send(message(b"on", to="chat/doomed"), state=in_transaction(again)).matches({"outcome": "accepted"})


@pytest.mark.row("AT-2.2.2-8")
def test_a_sender_without_rejected_is_detached_and_its_transaction_doomed(served: Served) -> None:
    controller, outbox = working(served, None, source=ACCEPTING)
    txn_id = controller.declare()
    detach = outbox.fails(message(b"lost", to="nope"), state=in_transaction(txn_id))
    assert detach.error["condition"] == "amqp:not-found"
    assert controller.discharge(txn_id)["error"]["condition"] == "amqp:transaction:rollback"


@pytest.mark.row("AT-2.2.2-8")
def test_a_controller_without_rejected_loses_its_link(served: Served) -> None:
    peer = served.peer()
    controller = Controller(peer, outcomes=["amqp:accepted:list"])
    outbox = Outbox(peer, None, 1)
    txn_id = controller.declare()
    outbox.post(message(b"lost", to="nope"), state=in_transaction(txn_id), settled=True)
    controller.discharging(txn_id)
    peer.until("detach", handle=0, error="amqp:transaction:rollback")


@pytest.mark.row("AT-2.2.2-10")
@pytest.mark.parametrize("to", ["nope", "chat/mixed"])
def test_a_rejection_is_a_part_of_the_transaction_and_dooms_nothing(served: Served, to: str) -> None:
    """Of an unknown address, and of one that cannot be committed together with the others."""
    inbox = Inbox(served.peer(), "events/orders")
    controller, outbox = working(served, None)
    txn_id = controller.declare()
    assert outbox.send(message(b"kept", to="events/orders"), state=in_transaction(txn_id)).matches({"txn_id": txn_id})
    state = outbox.send(message(b"no", to=to), state=in_transaction(txn_id), delivery_tag=b"\xff\0")
    assert state["txn_id"] == txn_id
    error = state["outcome"]["error"]
    assert error["condition"] == ("amqp:not-found" if to == "nope" else "amqp:not-implemented")
    assert error["info"] == {"delivery-tag": b"\xff\0"}
    assert controller.discharge(txn_id).matches("accepted")
    assert body(inbox.take()) == b"kept"


@pytest.mark.parametrize("outcome", ["rejected", "released", None])
def test_a_discharge_succeeds_only_if_receivers_took_the_messages(served: Served, outcome: str | None) -> None:
    """None: there is no receiver any more."""
    receiver = served.peer()
    inbox = Inbox(receiver, "chat/taken")
    controller, outbox = working(served, "chat/taken")
    outbox.credit()
    txn_id = controller.declare()
    outbox.send(message(b"1"), state=in_transaction(txn_id))
    if outcome is None:
        receiver.detach()
        receiver.until("detach")
    discharging = controller.discharging(txn_id)
    if outcome is not None:
        inbox.take(composite(outcome))
    assert controller.outcome(discharging)["error"]["condition"] == "amqp:transaction:rollback"


def test_several_transactions_of_one_session_have_nothing_to_do_with_each_other(served: Served) -> None:
    inbox = Inbox(served.peer(), "chat/several")
    controller, outbox = working(served, "chat/several")
    outbox.credit()
    first, second = controller.declare(), controller.declare()
    for number in range(4):
        outbox.send(message(b"%d" % number), state=in_transaction((first, second)[number % 2]))
    assert controller.discharge(second, fail=True).matches("accepted")
    outbox.post(message(b"outside"))
    assert body(inbox.take()) == b"outside"
    discharging = controller.discharging(first)
    assert [body(inbox.take()) for _ in range(2)] == [b"0", b"2"]
    assert controller.outcome(discharging).matches("accepted")


def test_a_transaction_of_too_many_messages_is_bounded(served: Served) -> None:
    """What waits for a transaction has a limit; a client that goes on regardless is told of it each time.

    So is one that does not look at outcomes: without the messages that are refused the others are not committed.
    """
    inbox = Inbox(served.peer(), "chat/bounded")
    controller, outbox = working(served, "chat/bounded")
    outbox.credit()
    txn_id, large = controller.declare(), message(bytes(16_000))
    refused = 0
    while refused < 20:
        outcome = outbox.send(large, state=in_transaction(txn_id))["outcome"]
        if not outcome.matches("accepted"):
            assert outcome["error"]["condition"] == ("amqp:transaction:rollback" if refused else LIMIT)
            assert not refused or LIMIT in outcome["error"]["description"]
            refused += 1
    assert controller.discharge(txn_id)["error"]["condition"] == "amqp:transaction:rollback"
    assert inbox.empty()
    other = controller.declare()
    assert outbox.send(message(b"x"), state=in_transaction(other))["outcome"].matches("accepted")
    assert controller.discharge(other, fail=True).matches("accepted")
