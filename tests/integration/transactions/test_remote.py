"""Transactions at a remote container, by its own coordinator, which is scripted here (KM-14, decision 83)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import SENDER, Listener
from tests.support.gateway.crossing import Inbox, Outbox, connected
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.far_coordinator import THERE, FarCoordinator, FarWork

ROLLBACK = "amqp:transaction:rollback"


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listening:
        yield listening


@pytest.mark.parametrize("relay", [False, True], ids=["link", "anonymous relay"])
def test_a_container_without_coordinator_takes_no_part(
    start_gateway: Gateways, listener: Listener, relay: bool
) -> None:
    """By way of a link of its own, or of the anonymous terminus there; the gateway asks once for each connection."""
    far = Far(start_gateway, listener, ", use_relay: true" if relay else "")
    far.accept(*(["ANONYMOUS-RELAY"] if relay else []))
    peer = connected(far.core)
    controller = Controller(peer)
    peer.attach("sender", SENDER, 1, target=frames.target("far/x"))
    if not relay:
        far.take(far.attach())
    peer.until("flow", handle=1)
    outbox = Outbox.adopt(peer, 1)
    for times in range(2):
        txn_id = controller.declare()
        refused = outbox.post(message(b"no", to="far/x"), state=in_transaction(txn_id))
        if relay and not times:  # its link there comes with the first message
            far.take(far.attach())
        if not times:
            attach = far.attach()
            handle = next(far.handles)
            far.peer.attach(attach.name, True, handle, target=None)
            far.peer.detach(handle, error=frames.error("amqp:not-found", "no"))
        assert outbox.outcome(refused)["outcome"]["error"]["condition"] == "amqp:not-implemented"
        assert controller.discharge(txn_id).matches("accepted")
    outbox.post(message(b"outside", to="far/x"))
    assert far.peer.until("transfer").payload.endswith(b"outside")


@pytest.mark.row("AT-2.2.2-11", part="remote container")
@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("settled", [False, True])
def test_the_discharge_is_that_of_the_container(
    start_gateway: Gateways, listener: Listener, fail: bool, settled: bool
) -> None:
    """It is answered after the container, and never before all posts have their outcomes."""
    work = FarWork(start_gateway, listener)
    coordinator = work.begin(settled=settled)
    work.post(b"second", settled=settled)
    second = work.posted()
    delivery = work.controller.discharging(work.txn_id, fail=fail)
    if not fail:
        work.peer.flow(echo=True)
        assert work.peer.receive().kind == "flow", "the second post has no outcome yet"
    work.answer(second)
    request = coordinator.discharge()
    assert bool(request.fail) is fail
    coordinator.answer(request)
    assert work.controller.outcome(delivery).matches("accepted")
    again = work.controller.declare()
    assert work.controller.discharge(again).matches("accepted"), "one without work asks nobody"


def test_a_container_may_refuse_to_commit(start_gateway: Gateways, listener: Listener) -> None:
    work = FarWork(start_gateway, listener)
    coordinator = work.begin()
    delivery = work.controller.discharging(work.txn_id)
    error = frames.error("amqp:transaction:timeout", "too slow")
    coordinator.answer(coordinator.discharge(), frames.composite("rejected", error=error))
    error = work.controller.outcome(delivery)["error"]
    assert error["condition"] == ROLLBACK
    assert "amqp:transaction:timeout" in error["description"]


@pytest.mark.parametrize("outcome", ["released", "modified"])
def test_an_outcome_that_is_none_of_a_discharge(start_gateway: Gateways, listener: Listener, outcome: str) -> None:
    """`released` says that it was not processed: then it is rolled back. `modified` says nothing."""
    work = FarWork(start_gateway, listener)
    coordinator = work.begin()
    delivery = work.controller.discharging(work.txn_id)
    coordinator.answer(coordinator.discharge(), outcome)
    if outcome == "released":
        assert work.controller.outcome(delivery)["error"]["condition"] == ROLLBACK
        assert coordinator.discharge().fail is True
    else:
        work.peer.until("detach", handle=0, error="amqp:internal-error")


@pytest.mark.row("CORE-9", part="remote coordinator lost")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["connection", "link"])
def test_a_container_that_is_lost(start_gateway: Gateways, listener: Listener, when: str, what: str) -> None:
    """Before it has the discharge, it rolls back (4.1). Later nobody knows, and the coordinator says so by a detach."""
    work = FarWork(start_gateway, listener)
    coordinator = work.begin()
    delivery = work.controller.discharging(work.txn_id) if when == "after" else None
    if delivery is not None:
        coordinator.discharge()
    if what == "connection":
        work.far.peer.disconnect()
    else:
        work.far.peer.detach(coordinator.handle)
        work.far.peer.until("detach", handle=coordinator.theirs)
    if delivery is not None:
        work.peer.until("detach", handle=0, error="amqp:internal-error")
        return
    if what == "connection":
        wait_until(lambda: not work.far.gateway.is_ready(), "the connector to notice")
    assert work.controller.discharge(work.txn_id)["error"]["condition"] == ROLLBACK


def test_a_detach_with_the_error_of_a_transaction_answers_the_only_discharge(
    start_gateway: Gateways, listener: Listener
) -> None:
    """So says a coordinator whose controller supports no `rejected` (4.3); the next transaction attaches again."""
    work = FarWork(start_gateway, listener)
    coordinator = work.begin()
    delivery = work.controller.discharging(work.txn_id)
    coordinator.discharge()
    work.far.peer.detach(coordinator.handle, error=frames.error("amqp:transaction:rollback", "no"))
    assert work.controller.outcome(delivery)["error"]["condition"] == ROLLBACK
    work.txn_id = work.controller.declare()
    work.begin()


def test_posts_wait_for_the_container_in_order(start_gateway: Gateways, listener: Listener) -> None:
    """For its answer to the declare, and for credit; a rollback meanwhile sends none of them."""
    work = FarWork(start_gateway, listener)
    first = [work.post(b"%d" % number) for number in range(3)]
    coordinator = FarCoordinator(work.far, credit=0)
    coordinator.credit(10)
    coordinator.declared()
    for number, delivery in enumerate(first):
        transfer = work.posted()
        assert transfer.payload.endswith(b"%d" % number)
        work.answer(transfer)
        assert work.outbox.outcome(delivery)["outcome"].name == "accepted"
    work.txn_id = work.controller.declare()
    waiting = work.post(b"never sent")
    coordinator.request()
    assert work.controller.discharge(work.txn_id, fail=True).matches("accepted")
    assert work.outbox.outcome(waiting)["outcome"].name == "released"


def outcomes_of_posts() -> list[Any]:
    error = frames.error("amqp:precondition-failed", "full")
    return [frames.composite("rejected", error=error), "released"]


@pytest.mark.row("AT-2.2.2-10", part="remote container")
@pytest.mark.parametrize("outcome", outcomes_of_posts(), ids=["rejected", "released"])
def test_a_post_that_the_container_does_not_take(start_gateway: Gateways, listener: Listener, outcome: Any) -> None:
    """Its sender knows. The transaction goes on after a rejection, which is about the message, and about no other."""
    work = FarWork(start_gateway, listener)
    coordinator = work.begin()
    delivery = work.post(b"no")
    work.answer(work.posted(), outcome)
    given = work.outbox.outcome(delivery)["outcome"]
    assert given.name in ("rejected", "released")
    if given.name == "rejected":
        assert given["error"]["condition"] == "amqp:precondition-failed"
    discharge = work.controller.discharging(work.txn_id)
    request = coordinator.discharge()
    coordinator.answer(request)
    assert bool(request.fail) is (given.name == "released")
    assert work.controller.outcome(discharge).matches("rejected" if request.fail else "accepted")


@pytest.mark.row("AT-2.2.2-8", part="remote container")
@pytest.mark.parametrize("outcome", outcomes_of_posts(), ids=["rejected", "released"])
@pytest.mark.parametrize("early", [False, True])
def test_a_settled_post_that_the_container_does_not_take(
    start_gateway: Gateways, listener: Listener, outcome: Any, early: bool
) -> None:
    """Nobody else would learn it: the container rolls back, also if the discharge has come already."""
    work = FarWork(start_gateway, listener)
    coordinator = work.begin(settled=True)
    work.post(b"no", settled=True)
    transfer = work.posted()
    delivery = work.controller.discharging(work.txn_id) if early else None
    work.answer(transfer, outcome)
    if delivery is None:
        delivery = work.controller.discharging(work.txn_id)
    request = coordinator.discharge()
    assert request.fail is True
    coordinator.answer(request)
    assert work.controller.outcome(delivery)["error"]["condition"] == ROLLBACK


@pytest.mark.row("CORE-9", part="mixed with a remote container")
def test_nothing_else_is_in_a_transaction_with_a_container(start_gateway: Gateways, listener: Listener) -> None:
    """Neither after work at a container nor before it; what was accepted is committed."""
    work = FarWork(start_gateway, listener)
    inbox = Inbox(work.far.core, "here/a")
    here = Outbox(work.peer, "here/a", 2)
    here.outcomes = work.outbox.outcomes
    coordinator = work.begin()
    refused = here.send(message(b"no"), state=in_transaction(work.txn_id))
    assert refused["outcome"]["error"]["condition"] == "amqp:not-implemented"
    other = work.controller.declare()
    assert here.send(message(b"yes"), state=in_transaction(other))["outcome"].name == "accepted"
    assert work.outbox.send(message(b"no"), state=in_transaction(other))["outcome"].name == "rejected"
    delivery = work.controller.discharging(work.txn_id)
    coordinator.answer(coordinator.discharge())
    assert work.controller.outcome(delivery).matches("accepted")
    delivery = work.controller.discharging(other)
    assert inbox.take().endswith(b"yes")
    assert work.controller.outcome(delivery).matches("accepted")


@pytest.mark.row("CORE-9", part="remote coordinator lost")
@pytest.mark.parametrize("settled", [False, True])
def test_a_container_that_is_lost_before_it_has_a_coordinator(
    start_gateway: Gateways, listener: Listener, settled: bool
) -> None:
    """Its attach is not answered any more: the posts that wait for it are refused at once, not after thirty seconds."""
    work = FarWork(start_gateway, listener)
    post = work.post(settled=settled)
    assert work.far.attach().target.name == "coordinator"
    work.far.peer.disconnect()
    if not settled:
        assert work.outbox.outcome(post)["outcome"].matches({"error": "amqp:link:detach-forced"})
    error = work.controller.discharge(work.txn_id)["error"]
    assert error["condition"] == ROLLBACK
    assert "the link to its coordinator has ended" in error["description"]


@pytest.mark.row("CORE-9", part="remote container away")
def test_a_transaction_is_not_committed_without_what_came_while_its_container_was_away(
    start_gateway: Gateways, listener: Listener
) -> None:
    """A client that sends without waiting learns nothing else; the container is back before the other posts come."""
    work = FarWork(start_gateway, listener)
    work.far.peer.disconnect()
    work.far.gateway.wait_log("connector down")
    assert work.outbox.outcome(work.post())["outcome"].matches({"error": "amqp:link:detach-forced"})
    assert work.controller.discharge(work.txn_id)["error"]["condition"] == ROLLBACK


@pytest.mark.row("CORE-9", part="retiring at a remote container")
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("fail", [False, True])
def test_outcomes_of_messages_of_a_container(
    start_gateway: Gateways, listener: Listener, settled: bool, fail: bool
) -> None:
    """They reach the container in its transaction, settled or not as the client has them."""
    work = FarWork(start_gateway, listener, receives=True)
    far = work.far.peer
    far.transfer(message(b"from there"), work.source)
    sent, got = far.last_delivery, work.inbox.transfer()
    work.peer.disposition(got.delivery_id, in_transaction(work.txn_id, "accepted"), settled=settled)
    coordinator = FarCoordinator(work.far)
    coordinator.declared()
    told = far.until("disposition", first=sent)
    assert (bool(told.settled), told.state["txn_id"], told.state["outcome"].name) == (settled, THERE, "accepted")
    discharge = work.controller.discharging(work.txn_id, fail=fail)
    request = coordinator.discharge()
    coordinator.answer(request)
    assert work.controller.outcome(discharge).matches("accepted")
    if not settled and fail:  # it has no outcome, as before
        work.peer.disposition(got.delivery_id, "released")
        assert far.until("disposition", first=sent).state.name == "released"
    elif not settled:
        assert far.until("disposition", first=sent, settled=True).state.name == "accepted"
    work.peer.disconnect()
    assert far.until("detach", handle=work.there), "no further disposition is needed"
