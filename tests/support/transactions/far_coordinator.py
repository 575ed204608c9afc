"""A scripted container with a coordinator behind the gateway's connector, and a client that works there."""

from __future__ import annotations

from typing import Any, NamedTuple

from gateway.amqp.codec.codec import decode
from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Listener, Peer
from tests.support.gateway.crossing import Inbox, Outbox, connected
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.transactions.controller import LOCAL, Controller, in_transaction

THERE = b"there"
"""The container's id of its transaction."""


class FarRequest(NamedTuple):
    """A declare or discharge that the container has got."""

    delivery: int
    kind: str
    txn_id: bytes | None
    fail: bool | None


class FarCoordinator:
    """The coordinator of a scripted container; it answers as its test says."""

    def __init__(self, far: Far, attach: Frame | None = None, credit: int = 10) -> None:
        attach = attach or far.attach()
        assert attach.target.name == "coordinator"
        assert [str(name) for name in attach.target["capabilities"].items] == [LOCAL]
        self.far, self.theirs, self.handle = far, attach.handle, next(far.handles)
        coordinator = frames.composite("coordinator", capabilities=[LOCAL])
        source = frames.composite("source", **attach.fields["source"])
        far.peer.attach(attach.name, RECEIVER, self.handle, source=source, target=coordinator)
        if credit:
            self.credit(credit)

    def credit(self, count: int) -> None:
        """Grant credit for requests."""
        self.far.peer.flow(self.handle, link_credit=count, delivery_count=0)

    def request(self) -> FarRequest:
        """Return the gateway's next request."""
        transfer = self.far.peer.until("transfer", handle=self.theirs)
        value = frames.nested(decode(transfer.payload)[0].value)
        return FarRequest(transfer.delivery_id, value.name, value.get("txn_id"), value.get("fail"))

    def declared(self, txn_id: bytes = THERE) -> None:
        """Take a declare, and answer it."""
        request = self.request()
        assert request.kind == "declare"
        self.answer(request, frames.composite("declared", txn_id=txn_id))

    def discharge(self) -> FarRequest:
        """Take a discharge of the transaction."""
        request = self.request()
        assert (request.kind, request.txn_id) == ("discharge", THERE)
        return request

    def answer(self, request: FarRequest, outcome: Any = "accepted") -> None:
        """Answer a request."""
        self.far.peer.disposition(request.delivery, outcome)


class FarWork:
    """A client with a transaction, and a link of its to the container: for posts, or for retirements."""

    def __init__(
        self, gateways: Gateways, listener: Listener, more: str = "", *, receives: bool = False, scope: str = "core"
    ) -> None:
        """`scope` is the client's."""
        self.far = Far(gateways, listener, more)
        self.far.accept()
        self.peer: Peer = connected(getattr(self.far, scope))
        self.controller = Controller(self.peer)
        self.receives = receives
        self.peer.attach("work", RECEIVER if receives else SENDER, 1, **self._terminus())
        attach = self.far.attach()
        self.there = attach.handle
        self.source = self.far.agree(attach) if receives else self.far.take(attach)
        self.peer.until("attach", name="work")
        if receives:
            self.peer.flow(1, link_credit=10, delivery_count=0)
            self.inbox = Inbox.adopt(self.peer, 1)
            self.far.peer.until("flow", handle=self.there, link_credit=10)
        else:
            self.peer.until("flow", handle=1)
            self.outbox = Outbox.adopt(self.peer, 1)
            self.outbox.outcomes = self.controller.outcomes
        self.txn_id = self.controller.declare()

    def _terminus(self) -> dict[str, Any]:
        return {"source": frames.source("far/x")} if self.receives else {"target": frames.target("far/x")}

    def post(self, body: bytes = b"x", **fields: Any) -> int:
        """Post a message in the transaction."""
        return self.outbox.post(message(body), state=in_transaction(self.txn_id), **fields)

    def posted(self) -> Frame:
        """Return the next message that the container has got."""
        return self.far.peer.until("transfer", handle=self.there)

    def answer(self, transfer: Frame, outcome: Any = "accepted") -> None:
        """Give a post its outcome in the container's transaction."""
        self.far.peer.disposition(transfer.delivery_id, in_transaction(THERE, outcome))

    def begin(self, **fields: Any) -> FarCoordinator:
        """Post one message, which the container accepts in a transaction of its own."""
        delivery = self.post(**fields)
        coordinator = FarCoordinator(self.far)
        coordinator.declared()
        transfer = self.posted()
        assert (transfer.state.name, transfer.state["txn_id"], transfer.state["outcome"]) == (
            "transactional_state", THERE, None,
        )  # fmt: skip
        assert not transfer.settled
        self.answer(transfer)
        if not fields.get("settled"):
            outcome = self.outbox.outcome(delivery)
            assert (outcome["txn_id"], outcome["outcome"].name) == (self.txn_id, "accepted")
        return coordinator
