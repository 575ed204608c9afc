"""Messages of direct nodes that are acquired in transactions (AMQP 1.0 part 4, 4.4.3 and 4.4.4)."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from gateway.amqp.codec.types import Symbol
from tests.protocol.conftest import Served
from tests.support.amqp import frames
from tests.support.amqp.frames import source
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.transactions.acquiring import Acquirer
from tests.support.transactions.controller import Controller, in_transaction

pytestmark = pytest.mark.row("CORE-9", part="acquisition")


class Ends(NamedTuple):
    """A controller that receives, and the sender of its messages."""

    controller: Controller
    inbox: Acquirer
    outbox: Outbox


def ends(served: Served, name: str, **fields: int) -> Ends:
    peer = served.peer()
    controller, inbox = Controller(peer), Acquirer(peer, f"acquired/{name}", 1, credit=0, **fields)
    return Ends(controller, inbox, Outbox(served.peer(), f"acquired/{name}"))


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("outcome", ["accepted", "rejected", "released"])
def test_acquired_and_retired_in_one_transaction(served: Served, outcome: str, settled: bool) -> None:
    controller, inbox, outbox = ends(served, "one")
    txn_id = controller.declare()
    inbox.ask(txn_id, 1)
    outbox.credit()
    delivery = outbox.post(message(b"1"))
    inbox.retire(inbox.acquired(txn_id), txn_id, outcome, settled=settled)
    assert controller.discharge(txn_id).matches("accepted")
    assert outbox.outcome(delivery).matches(outcome)


@pytest.mark.parametrize("retired", [None, True, False])
def test_a_rollback_gives_the_message_back(served: Served, retired: bool | None) -> None:
    """`retired`: with an outcome in the transaction, and whether that settled it. Its sender may send it again."""
    controller, inbox, outbox = ends(served, "back")
    txn_id = controller.declare()
    inbox.ask(txn_id, 1)
    outbox.credit()
    delivery = outbox.post(message(b"1"))
    transfer = inbox.acquired(txn_id)
    if retired is not None:
        inbox.retire(transfer, txn_id, settled=retired)
    discharging = controller.discharging(txn_id, fail=True)
    if not retired:
        assert inbox.taken_back(transfer)
    assert controller.outcome(discharging).matches("accepted")
    assert outbox.outcome(delivery).matches("released")


def test_after_a_commit_messages_without_an_outcome_are_like_any_other(served: Served) -> None:
    controller, inbox, outbox = ends(served, "kept")
    first = controller.declare()
    inbox.ask(first, 3)
    outbox.credit()
    deliveries = [outbox.post(message(b"%d" % number)) for number in range(3)]
    transfers = [inbox.acquired(first) for _ in deliveries]
    assert controller.discharge(first).matches("accepted")
    inbox.retire(transfers[0], None)
    assert outbox.outcome(deliveries[0]).matches("accepted")
    inbox.retire(transfers[1], None, "released")
    assert outbox.outcome(deliveries[1]).matches("released")
    second = controller.declare()
    inbox.retire(transfers[2], second)
    assert controller.discharge(second).matches("accepted")
    assert outbox.outcome(deliveries[2]).matches("accepted")


@pytest.mark.parametrize("outcome", ["accepted", "released"])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_an_outcome_outside_of_the_transaction_ends_the_control_link(
    served: Served, elsewhere: bool, outcome: str
) -> None:
    """4.4.2: "the control link MUST be terminated with a transaction-rollback error"; with it both transactions."""
    controller, inbox, outbox = ends(served, "elsewhere")
    txn_id, other = controller.declare(), controller.declare()
    inbox.ask(txn_id, 2)
    outbox.credit()
    deliveries = [outbox.post(message(b"%d" % number)) for number in range(2)]
    transfers = [inbox.acquired(txn_id) for _ in deliveries]
    inbox.retire(transfers[0], other if elsewhere else None, outcome)
    controller.peer.until("detach", handle=0, closed=True, error="amqp:transaction:rollback")
    for delivery in deliveries:
        assert outbox.outcome(delivery).matches("released")
    inbox.peer.flow(1, link_credit=1, delivery_count=2)
    assert outbox.credit()
    outbox.post(message(b"after"))
    assert inbox.bodies(None, 1) == [b"after"]


def test_a_message_that_is_settled_without_an_outcome_is_accepted_in_the_transaction(served: Served) -> None:
    controller, inbox, outbox = ends(served, "default")
    txn_id = controller.declare()
    inbox.ask(txn_id, 1)
    outbox.credit()
    delivery = outbox.post(message(b"1"))
    inbox.peer.disposition(inbox.acquired(txn_id).delivery_id, None)
    assert inbox.drained()
    assert delivery not in outbox.outcomes
    assert controller.discharge(txn_id).matches("accepted")
    assert outbox.outcome(delivery).matches("accepted")


@pytest.mark.parametrize("fail", [True, False])
def test_the_credit_that_is_left_at_the_discharge_is_used_outside(served: Served, fail: bool) -> None:
    controller, inbox, outbox = ends(served, "left")
    txn_id = controller.declare()
    inbox.ask(txn_id, 10)
    outbox.credit()
    outbox.post(message(b"in"))
    inbox.acquired(txn_id)
    assert controller.discharge(txn_id, fail=fail).matches("accepted")
    outbox.post(message(b"out"))
    assert inbox.bodies(None, 1) == [b"out"]


def test_two_transactions_of_one_link_in_turn(served: Served) -> None:
    """A message stays in the transaction that was named when it was sent; credit alone does not change that."""
    controller, inbox, outbox = ends(served, "turns")
    first, second = controller.declare(), controller.declare()
    inbox.ask(first, 1)
    outbox.credit()
    posted = [outbox.post(message(b"1"))]
    taken = [inbox.acquired(first)]
    inbox.peer.flow(1, link_credit=1, delivery_count=1)
    outbox.credit()
    posted.append(outbox.post(message(b"2")))
    taken.append(inbox.acquired(first))
    inbox.ask(second, 1)
    outbox.credit()
    posted.append(outbox.post(message(b"3")))
    taken.append(inbox.acquired(second))
    inbox.ask(None, 1)
    outbox.credit()
    posted.append(outbox.post(message(b"4")))
    taken.append(inbox.acquired(None))
    inbox.retire(taken[0], first)
    inbox.retire(taken[2], second)
    discharging = controller.discharging(first, fail=True)
    assert inbox.taken_back(taken[1])
    assert controller.outcome(discharging).matches("accepted")
    assert controller.discharge(second).matches("accepted")
    inbox.retire(taken[3], None)
    wanted = ["released", "released", "accepted", "accepted"]
    assert all(outbox.outcome(delivery).matches(each) for delivery, each in zip(posted, wanted, strict=True))


def test_a_drain_in_a_transaction(served: Served) -> None:
    """As 4.4.3 advises: with no credit left nothing is acquired outside of the transaction."""
    controller, inbox, outbox = ends(served, "drain")
    txn_id = controller.declare()
    inbox.ask(txn_id, 10)
    outbox.credit()
    delivery = outbox.post(message(b"1"))
    inbox.retire(inbox.acquired(txn_id), txn_id)
    assert inbox.drained(txn_id)
    assert controller.discharge(txn_id).matches("accepted")
    assert outbox.outcome(delivery).matches("accepted")


@pytest.mark.parametrize(
    ("named", "condition"),
    [
        ("never", "amqp:transaction:unknown-id"),
        ("done", "amqp:transaction:unknown-id"),
        ("failed", "amqp:transaction:rollback"),
        ("number", "amqp:decode-error"),
    ],
)
def test_a_flow_with_another_id_ends_its_link(served: Served, named: str, condition: str) -> None:
    controller, inbox, _ = ends(served, "refused")
    done, failed = controller.declare(), controller.declare()
    assert controller.discharge(done).matches("accepted")
    outbox = Outbox(controller.peer, None, 2)
    outbox.credit()
    outbox.post(message(b"lost", to="nope"), state=in_transaction(failed), settled=True)
    inbox.ask({"never": b"never", "done": done, "failed": failed, "number": 7}[named], 1)
    inbox.peer.until("detach", handle=1, closed=True, error=condition)
    assert controller.discharge(controller.declare()).matches("accepted")


def test_a_link_gets_nothing_in_a_transaction_that_has_failed(served: Served) -> None:
    """Not outside of it either, before the controller knows; a drain is answered."""
    controller, inbox, outbox = ends(served, "halted")
    txn_id = controller.declare()
    inbox.ask(txn_id, 10)
    outbox.credit()
    first = outbox.post(message(b"1"))
    transfer = inbox.acquired(txn_id)
    anonymous = Outbox(controller.peer, None, 2)
    anonymous.credit()
    anonymous.post(message(b"lost", to="nope"), state=in_transaction(txn_id), settled=True)
    assert inbox.drained()
    inbox.peer.flow(1, link_credit=1, delivery_count=inbox.received)
    second = outbox.post(message(b"2"))
    discharging = controller.discharging(txn_id)
    assert inbox.taken_back(transfer)
    assert controller.outcome(discharging)["error"]["condition"] == "amqp:transaction:rollback"
    assert inbox.bodies(None, 1) == [b"2"]
    assert outbox.outcome(first).matches("released")
    assert second not in outbox.outcomes


@pytest.mark.parametrize("address", ["news/acquired", "events/orders/$info"])
def test_nodes_that_cannot_take_messages_back_refuse(served: Served, address: str) -> None:
    peer = served.peer()
    controller, inbox = Controller(peer), Acquirer(peer, address, 1, credit=0)
    inbox.ask(controller.declare(), 1)
    peer.until("detach", handle=1, closed=True, error="amqp:not-implemented")


def test_what_cannot_be_committed_together_is_refused_at_the_flow(served: Served) -> None:
    controller, inbox, _ = ends(served, "mixed")
    txn_id, events = controller.declare(), Outbox(controller.peer, "events/orders", 2)
    events.credit()
    events.send(message(b"1"), state=in_transaction(txn_id))
    inbox.ask(txn_id, 1)
    inbox.peer.until("detach", handle=1, closed=True, error="amqp:not-implemented")
    assert controller.discharge(txn_id).matches("accepted")


@pytest.mark.parametrize("loss", ["detach", "end", "close", "disconnect"])
def test_the_end_of_the_controller_gives_messages_back(served: Served, loss: str) -> None:
    controller, inbox, outbox = ends(served, "lost")
    txn_id = controller.declare()
    inbox.ask(txn_id, 3)
    outbox.credit()
    deliveries = [outbox.post(message(b"%d" % number)) for number in range(2)]
    transfers = [inbox.acquired(txn_id) for _ in deliveries]
    inbox.retire(transfers[0], txn_id, settled=False)
    if loss == "detach":
        controller.peer.detach(0)
        assert inbox.taken_back(transfers[0])
        outbox.post(message(b"after"))
        assert inbox.bodies(None, 1) == [b"after"]
    else:
        getattr(controller.peer, loss)()
    for delivery in deliveries:
        assert outbox.outcome(delivery).matches("released")


@pytest.mark.parametrize("fail", [True, False])
def test_messages_of_a_link_that_has_ended_wait_for_the_discharge(served: Served, fail: bool) -> None:
    """After a commit they have failed, as unsettled messages of any link that ends."""
    controller, inbox, outbox = ends(served, "ended")
    txn_id = controller.declare()
    inbox.ask(txn_id, 1)
    outbox.credit()
    delivery = outbox.post(message(b"1"))
    inbox.acquired(txn_id)
    inbox.peer.detach(1)
    inbox.peer.until("detach", handle=1)
    assert controller.discharge(txn_id, fail=fail).matches("accepted")
    assert outbox.outcome(delivery).matches("released" if fail else {"delivery_failed": True})


@pytest.mark.parametrize("fail", [True, False])
def test_a_link_of_settled_messages(served: Served, fail: bool) -> None:
    """4.4.4: what is sent settled is accepted with the commit; after a rollback it is available again."""
    controller, inbox, outbox = ends(served, "presettled", snd_settle_mode=1)
    txn_id = controller.declare()
    inbox.ask(txn_id, 1)
    outbox.credit()
    delivery = outbox.post(message(b"1"))
    assert inbox.acquired(txn_id).settled
    assert inbox.drained()
    assert delivery not in outbox.outcomes
    assert controller.discharge(txn_id, fail=fail).matches("accepted")
    assert outbox.outcome(delivery).matches("released" if fail else "accepted")


@pytest.mark.parametrize("mode", [1, 2])
def test_a_message_that_came_settled_goes_to_the_next_receiver_after_a_rollback(served: Served, mode: int) -> None:
    """Its sender cannot send it again, so it waits at the node; after a commit nobody else gets it."""
    controller, inbox, outbox = ends(served, "settled", snd_settle_mode=mode)
    for fail in (True, False):
        txn_id = controller.declare()
        inbox.ask(txn_id, 1)
        outbox.credit()
        outbox.post(message(b"%d" % fail), settled=True)
        transfer = inbox.acquired(txn_id)
        assert inbox.drained()
        if not fail and mode == 2:
            inbox.retire(transfer, txn_id)
        other = Inbox(served.peer(), "acquired/settled", credit=1)
        assert controller.discharge(txn_id, fail=fail).matches("accepted")
        if fail:
            assert sections(other.transfer().payload)["data"] == b"1"
        else:
            assert other.empty()
        other.peer.disconnect()


def test_a_flow_before_the_answer_to_its_attach(served: Served) -> None:
    controller, feed = Controller(served.peer()), Outbox(served.peer(), "events/orders")
    txn_id = controller.declare()
    controller.peer.attach("early", RECEIVER, 1, source=source("events/orders"))
    inbox = Acquirer.adopt(controller.peer, 1)
    inbox.ask(txn_id, 1)
    inbox.peer.until("attach", handle=1)
    feed.credit()
    assert feed.send(message(b"early")).matches("accepted")
    assert inbox.bodies(txn_id, 1) == [b"early"]


@pytest.mark.parametrize("size", [0, 100, 5000])
@pytest.mark.parametrize("piece", [1, 7, 20, 79, 90])
def test_flows_of_any_size_in_pieces(served: Served, size: int, piece: int) -> None:
    """Other properties may come before the transaction; the flow and the bytes behind it are cut anywhere."""
    controller, inbox, outbox = ends(served, "pieces")
    txn_id = controller.declare()
    properties = {**({Symbol("x"): "y" * size} if size else {}), Symbol("txn-id"): txn_id}
    session = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 1, "outgoing_window": 100}
    link = {"handle": 1, "delivery_count": 0, "link_credit": 2, "echo": True}
    raw = frames.framed(frames.performative("flow", **session, **link, properties=properties))
    step = piece if size < 5000 else 50 * piece
    for start in range(0, len(raw), step):
        inbox.peer.send_raw(raw[start : start + step])
    inbox.peer.until("flow", handle=1)
    outbox.credit()
    outbox.post(message(b"1"))
    inbox.acquired(txn_id)
