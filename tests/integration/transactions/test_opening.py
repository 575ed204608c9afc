"""Posts to the null target whose destination opens late or never: a scripted container behind a connector (KM-14)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Listener, Peer
from tests.support.gateway.crossing import Inbox, Outbox, connected
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.far_coordinator import THERE, FarCoordinator

ROLLBACK = "amqp:transaction:rollback"


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listening:
        yield listening


class Opening(NamedTuple):
    """A transaction with a post that waits for the container's answer to an attach."""

    far: Far
    peer: Peer
    controller: Controller
    outbox: Outbox
    txn_id: bytes
    attach: Frame

    def post(self, body: bytes, to: str) -> int:
        return self.outbox.post(message(body, to=to), state=in_transaction(self.txn_id))

    def waits(self) -> bool:
        """Whether the gateway has answered nothing of what it has got."""
        self.peer.flow(echo=True)
        return self.peer.receive().kind == "flow"


def opening(start: Gateways, listener: Listener, *, settled: bool) -> Opening:
    far = Far(start, listener, "").accept()
    peer = connected(far.core)
    controller, outbox = Controller(peer), Outbox(peer, None, 1)
    outbox.credit()
    outbox.outcomes = controller.outcomes
    txn_id = controller.declare()
    outbox.post(message(b"far", to="far/x"), state=in_transaction(txn_id), settled=settled)
    return Opening(far, peer, controller, outbox, txn_id, far.attach())


@pytest.mark.row("AT-2.2.2-11", part="destinations that are not open")
def test_a_commit_waits_for_the_destination_of_a_post(start_gateway: Gateways, listener: Listener) -> None:
    """And that post decides what the transaction works on, although the other address has long been open."""
    work = opening(start_gateway, listener, settled=True)
    inbox = Inbox(connected(work.far.core), "here/y")
    refused = work.post(b"near", "here/y")
    discharging = work.controller.discharging(work.txn_id)
    assert work.waits()
    work.far.take(work.attach)
    coordinator = FarCoordinator(work.far)
    coordinator.declared()
    posted = work.far.peer.until("transfer", handle=work.attach.handle)
    assert posted.payload.endswith(b"far")
    work.far.peer.disposition(posted.delivery_id, in_transaction(THERE, "accepted"))
    request = coordinator.discharge()
    assert not request.fail
    coordinator.answer(request)
    assert work.controller.outcome(discharging).matches("accepted")
    assert work.outbox.outcome(refused)["outcome"]["error"]["condition"] == "amqp:not-implemented"
    assert inbox.empty()


@pytest.mark.parametrize("settled", [False, True])
def test_a_commit_fails_if_a_container_has_not_got_a_post_before_the_end_of_its_link(
    start_gateway: Gateways, listener: Listener, settled: bool
) -> None:
    """The sender cannot learn an outcome any more, and the link to the container ends with the sender's."""
    work = opening(start_gateway, listener, settled=settled)
    work.peer.detach(1)
    work.peer.until("detach", handle=1)
    discharging = work.controller.discharging(work.txn_id)
    assert work.waits()
    work.far.take(work.attach)
    coordinator = FarCoordinator(work.far)
    coordinator.declared()
    request = coordinator.discharge()
    assert request.fail is True
    coordinator.answer(request)
    assert work.controller.outcome(discharging)["error"]["condition"] == ROLLBACK


def test_a_destination_that_never_opens_fails_a_commit(start_gateway: Gateways, listener: Listener) -> None:
    """As it fails a direct link: after five seconds (`ATTACH_PATIENCE`)."""
    work = opening(start_gateway, listener, settled=True)
    error = work.controller.discharge(work.txn_id)["error"]
    assert error["condition"] == ROLLBACK
    assert "amqp:link:detach-forced" in error["description"]


def test_a_rollback_does_not_wait_for_a_destination(start_gateway: Gateways, listener: Listener) -> None:
    """The container gets nothing of the transaction when it answers at last."""
    work = opening(start_gateway, listener, settled=False)
    assert work.controller.discharge(work.txn_id, fail=True).matches("accepted")
    work.far.take(work.attach)
    work.outbox.post(message(b"later", to="far/x"))
    assert work.far.peer.until("transfer").payload.endswith(b"later")
