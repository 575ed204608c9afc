"""What a remote container cannot do in a transaction is refused, and concerns that transaction alone (KM-14)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, Listener
from tests.support.gateway.crossing import Inbox, Outbox, connected
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.transactions.acquiring import Acquirer
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.far_coordinator import FarCoordinator, FarWork

ROLLBACK = "amqp:transaction:rollback"


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listening:
        yield listening


def no_coordinator(far: Far) -> None:
    """The container refuses the gateway's link to its coordinator."""
    attach = far.attach()
    assert attach.target.name == "coordinator"
    handle = next(far.handles)
    far.peer.attach(attach.name, RECEIVER, handle, target=None)
    far.peer.detach(handle, error=frames.error("amqp:not-found", "no"))


@pytest.mark.row("CORE-9", part="acquisition at a remote container")
@pytest.mark.parametrize("coordinated", [False, True], ids=["first", "with work there"])
def test_messages_of_a_container_are_not_acquired(
    start_gateway: Gateways, listener: Listener, coordinated: bool
) -> None:
    """The flow ends its link; the transaction goes on, and another receiver gets the container's messages."""
    work = FarWork(start_gateway, listener)
    coordinator = work.begin() if coordinated else None
    peer, far = work.peer, work.far
    peer.attach("acquirer", RECEIVER, 2, source=frames.source("far/in"))
    attach = far.attach()
    far.agree(attach)
    peer.until("attach", name="acquirer")
    Acquirer.adopt(peer, 2).ask(work.txn_id, 1)
    peer.until("detach", handle=2, closed=True, error="amqp:not-implemented")
    other = connected(far.core)
    other.attach("other", RECEIVER, source=frames.source("far/in"))
    source = far.agree(far.attach())
    other.until("attach", name="other")
    other.flow(0, link_credit=1)
    far.peer.until("flow", link_credit=1)
    far.peer.transfer(message(b"for another"), source)
    assert Inbox.adopt(other).take().endswith(b"for another")
    discharge = work.controller.discharging(work.txn_id)
    if coordinator is not None:
        request = coordinator.discharge()
        assert not request.fail
        coordinator.answer(request)
    assert work.controller.outcome(discharge).matches("accepted")


@pytest.mark.row("CORE-9", part="retiring at a remote container")
@pytest.mark.parametrize("settled", [False, True])
def test_an_outcome_for_a_container_without_coordinator_fails_the_transaction(
    start_gateway: Gateways, listener: Listener, settled: bool
) -> None:
    """Nobody else could say so. A settled message has failed, another one has no outcome; then all goes on."""
    work = FarWork(start_gateway, listener, receives=True)
    far = work.far.peer
    for number in range(2):
        far.transfer(message(b"%d" % number), work.source)
    first, second = far.last_delivery - 1, far.last_delivery
    got = [work.inbox.transfer() for _ in range(2)]
    work.peer.disposition(got[0].delivery_id, in_transaction(work.txn_id, "accepted"), settled=settled)
    no_coordinator(work.far)
    if settled:
        assert far.until("disposition", first=first).state.matches({"delivery_failed": True})
    error = work.controller.discharge(work.txn_id)["error"]
    assert error["condition"] == ROLLBACK
    assert "amqp:not-implemented: the container behind this address takes no part" in error["description"]
    if not settled:
        work.peer.disposition(got[0].delivery_id, "released")
        assert far.until("disposition", first=first).state.matches("released")
    work.peer.disposition(got[1].delivery_id, "accepted")
    assert far.until("disposition", first=second).state.matches("accepted")


@pytest.mark.row("CORE-9", part="mixed with a remote container")
@pytest.mark.parametrize("settled", [False, True])
def test_an_outcome_for_a_container_after_other_work_fails_the_transaction(
    start_gateway: Gateways, listener: Listener, settled: bool
) -> None:
    """The container hears nothing of the transaction, and nothing of the other work is committed."""
    work = FarWork(start_gateway, listener, receives=True)
    inbox, here = Inbox(work.far.core, "here/a"), Outbox(work.peer, "here/a", 2)
    here.outcomes = work.controller.outcomes
    here.credit()
    assert here.send(message(b"no"), state=in_transaction(work.txn_id))["outcome"].name == "accepted"
    far = work.far.peer
    far.transfer(message(b"from there"), work.source)
    got = work.inbox.transfer()
    work.peer.disposition(got.delivery_id, in_transaction(work.txn_id, "accepted"), settled=settled)
    error = work.controller.discharge(work.txn_id)["error"]
    assert error["condition"] == ROLLBACK
    assert "amqp:not-implemented: this transaction already works on addresses that store" in error["description"]
    if not settled:
        work.peer.disposition(got.delivery_id, "released")
    told = far.until("disposition", first=far.last_delivery).state
    assert told.matches({"delivery_failed": True} if settled else "released")
    assert inbox.empty()


@pytest.mark.row("AT-2.2.2-8", part="remote container without a coordinator")
@pytest.mark.row("AT-2.2.2-9", part="remote container without a coordinator")
@pytest.mark.parametrize("fail", [False, True])
def test_a_settled_post_to_a_container_without_coordinator(
    start_gateway: Gateways, listener: Listener, fail: bool
) -> None:
    """Only a rollback succeeds, and the reason tells which message it was; the link stays."""
    work = FarWork(start_gateway, listener)
    tag = b"%d" % (work.peer.last_delivery + 1)
    work.post(b"lost", settled=True)
    no_coordinator(work.far)
    outcome = work.controller.discharge(work.txn_id, fail=fail)
    if fail:
        assert outcome.matches("accepted")
    else:
        assert outcome["error"]["condition"] == ROLLBACK
        assert "amqp:not-implemented" in outcome["error"]["description"]
        assert outcome["error"]["info"]["delivery-tag"] == tag
    work.outbox.post(message(b"outside"))
    assert work.posted().payload.endswith(b"outside")


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("core", "the container behind this address takes no part in transactions"),
        ("edge", "the node behind this address does not support this"),
    ],
)
@pytest.mark.parametrize("anonymous", [False, True])
def test_a_client_of_another_scope_does_not_hear_that_there_is_a_container(
    start_gateway: Gateways, listener: Listener, scope: str, words: str, anonymous: bool
) -> None:
    """Also if the refusal comes long after the message: the container is asked for its coordinator first."""
    work = FarWork(start_gateway, listener, ", replies: {address: gateway}", scope=scope)
    sender = work.outbox
    if anonymous:
        sender = Outbox(work.peer, None, 2)
        sender.credit()
    delivery = sender.post(message(b"x", to="far/x"), state=in_transaction(work.txn_id))
    if anonymous:
        work.far.take(work.far.attach())
    no_coordinator(work.far)
    error = sender.outcome(delivery)["outcome"]["error"]
    assert error["condition"] == "amqp:not-implemented"
    assert error["description"].startswith(words)


@pytest.mark.row("CORE-9", part="acquisition at a remote container")
def test_a_rollback_leaves_the_messages_of_a_container_with_the_client(
    start_gateway: Gateways, listener: Listener
) -> None:
    """What the client got outside of the transaction, and gave an outcome in it, is the container's business."""
    work = FarWork(start_gateway, listener, receives=True)
    far = work.far.peer
    far.transfer(message(b"from there"), work.source)
    got = work.inbox.transfer()
    work.peer.disposition(got.delivery_id, in_transaction(work.txn_id, "accepted"), settled=False)
    coordinator = FarCoordinator(work.far)
    coordinator.declared()
    far.until("disposition", first=far.last_delivery)
    work.peer.detach(0)
    work.peer.until("detach", handle=0)
    assert coordinator.discharge().fail is True
    work.peer.disposition(got.delivery_id, "accepted")
    assert far.until("disposition", first=far.last_delivery).state.matches("accepted")
    controller = Controller(work.peer)
    assert controller.discharge(controller.declare()).matches("accepted")
