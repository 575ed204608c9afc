"""The direct node where every receiver gets every message (`direct: multicast`), or all that its filter matches.

The slowest receiver sets the pace, and the sender gets the worst of the receivers' outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter
from typing import Final

from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, SETTLED
from gateway.amqp.link.transactions import Enlisting
from gateway.amqp.message.bounds import COPIES
from gateway.errors import NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.links.link import Delivery, MessageOrigin, TransformFactory
from gateway.links.reject import reject_delivery
from gateway.nodes.direct.backlog import Soon
from gateway.nodes.direct.copies import SLICE, Copies, Round
from gateway.nodes.direct.endpoints import ReceiverEndpoint, ReceiverGroup
from gateway.nodes.direct.node import DirectNode
from gateway.nodes.direct.queue import WaitingMessage
from gateway.nodes.direct.receiver_filter import source_of
from gateway.nodes.direct.returnable import send
from gateway.nodes.direct.state import Facts
from gateway.routing.cookie_offload import CookieOffload

_FEW: Final = 64
_TOO_MUCH: Final = f"the copies of this message for all receivers would exceed {COPIES} bytes; send smaller messages"
_serial: Final = attrgetter("serial")


class Multicast(DirectNode):
    """Copies messages to all receivers; those whose filter does not match are not waited for."""

    def __init__(
        self,
        address: str,
        make_transform: TransformFactory,
        *,
        unused: Callable[[DirectNode], None],
        soon: Soon | None = None,
    ) -> None:
        super().__init__(address, make_transform, unused=unused, soon=soon)
        self._everybody: Final = ReceiverGroup(None)  # for the queue: filters are evaluated when a message is sent
        self._least_credit: Final = _LeastCredit()
        self._round: Round[ReceiverEndpoint] | None = None
        """The message whose copies are being sent in several turns of the loop; all others wait for it."""
        self._later = False
        self._draining: dict[ReceiverEndpoint, None] = {}

    def _facts(self) -> Facts:
        return super()._facts()._replace(takes_all=False)  # every message goes to all, however few they are

    def _join_receiver(self, receiver: ReceiverEndpoint) -> None:
        super()._join_receiver(receiver)
        self._least_credit.credited(receiver)

    def _catch_up(self, group: ReceiverGroup) -> None:
        """Nothing: filters are evaluated when a message is sent."""

    def leave_receiver(self, receiver: ReceiverEndpoint) -> None:
        self._least_credit.leave(receiver)
        self._draining.pop(receiver, None)
        if (now := self._round) is not None and now.leave(receiver):
            now.copies.missed(lambda link, delivery: self.undeliverable(link, delivery, now.settled))
        super().leave_receiver(receiver)
        self._continue()  # the others may have waited for this one

    def credited(self, receiver: ReceiverEndpoint) -> None:
        if (now := self._round) is not None:
            now.serve(receiver)
        self._least_credit.credited(receiver)
        if now is not None and now.over:
            self._continue()
        super().credited(receiver)

    def transfer(self, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool) -> None:
        if not self.receivers.all:
            self.undeliverable(link, delivery, settled)
        elif not self.waiting and self._round is None and self._all_ready():
            self._forward_all(link, delivery, data, settled)
        else:
            self.wait(WaitingMessage(link, delivery, data, settled), (self._everybody,))

    def serve(self, group: ReceiverGroup) -> None:
        """Send waiting messages in order, as long as all receivers have credit, at most `SLICE` copies in one turn."""
        copies = 0
        while self._round is None and (message := self._everybody.queue.first) is not None:
            if self.receivers.all and not self._all_ready():
                return
            if copies >= SLICE:
                self._continue_later()
                return
            self.waiting.take(message)
            deliver = self._forward_all if self.receivers.all else self._nobody
            deliver(message.link, message.delivery, message.data, message.settled)
            copies += len(self.receivers.all)

    def _nobody(self, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool) -> None:
        self.undeliverable(link, delivery, settled)

    def _all_ready(self) -> bool:
        """Whether all receivers have credit; each is checked only if none is known to have none."""
        if self._least_credit.least() <= 0:
            return False
        blocked = [receiver for receiver in self.receivers.all if receiver.link.credit <= 0]
        for receiver in blocked:
            self._least_credit.credited(receiver)
        return not blocked

    def acquire(self, transaction: Enlisting) -> None:
        """Refused: after a rollback a copy would have to be available to its receiver alone."""
        raise AmqpError(NOT_IMPLEMENTED, "messages of a multicast address cannot be acquired in a transaction")

    def supply(self) -> int:
        return max(self._least_credit.least(), 0)

    def _forward_all(self, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool) -> None:
        receivers = sorted(self._receivers_of(data), key=_serial)
        if not receivers:  # no filter matches
            link.settle(delivery, SETTLED if settled else ACCEPTED)
            self.distribute_credit()
            return
        if len(data) * len(receivers) > COPIES:
            reject_delivery(link, delivery, AmqpError(RESOURCE_LIMIT_EXCEEDED, _TOO_MUCH), settled)
            self.distribute_credit()
            return
        self._least_credit.sent += 1
        copies = Copies(link, delivery, len(receivers))
        if self.soon is not None and len(receivers) > SLICE:
            self._begin_round(copies, delivery, data, settled, receivers)
            self._send_some()
            return
        left = iter(receivers)
        try:
            for each in left:
                self.forward(each, copies, delivery, data, settled)
        except Exception:  # an unexpected error with one of them: the others get theirs in the next turn
            copies.settle(delivery, FAILED)
            self._begin_round(copies, delivery, data, settled, left)
            self._continue_later()
            raise

    def _receivers_of(self, data: bytes) -> Iterator[ReceiverEndpoint]:
        receivers = self.receivers
        groups = receivers.matching_groups(source_of(data)) if receivers.filtered else receivers.groups.values()
        return (receiver for group in groups for receiver in group.members)

    def _begin_round(
        self, copies: Copies, delivery: int, data: bytes, settled: bool, receivers: Iterable[ReceiverEndpoint]
    ) -> None:
        def send_one(receiver: ReceiverEndpoint) -> None:
            self.forward(receiver, copies, delivery, data, settled)

        self._round = self._least_credit.owed = Round(copies, delivery, settled, receivers, send_one)

    # -- in turns of the loop

    def _send_some(self) -> None:
        """Send more copies of the present message."""
        now = self._round
        assert now is not None
        try:
            now.send_next()
        finally:
            if now.unfinished:
                self._continue_later()

    def _continue_later(self) -> None:
        if not self._later and self.soon is not None:
            self._later = True
            self.soon(self._next_turn)

    def _next_turn(self) -> None:
        self._later = False
        try:
            if self._round is not None and self._round.unfinished:
                self._send_some()
        finally:
            self._continue()

    def _continue(self) -> None:
        """Begin the next message if the present one has been sent to all; answer drains if nothing is left to send."""
        if self._round is not None and self._round.over:
            self._end_round(self._round.copies)
        self.serve(self._everybody)
        self.distribute_credit()
        if not self._busy:
            draining, self._draining = self._draining, {}
            for receiver in draining:
                if receiver.link.draining:
                    super().drain(receiver)

    def _end_round(self, copies: Copies) -> None:
        self._round, self._least_credit.owed = None, ()
        if not copies.open:  # its sender has left
            for receiver in self._own_transforms.pop(copies.context, ()):
                receiver.forget(copies)

    @property
    def _busy(self) -> bool:
        """Whether messages are left that later turns will send."""
        return self._later or (self._round is not None and self._round.unfinished)

    def drain(self, receiver: ReceiverEndpoint) -> None:
        """Answer a drain after waiting messages were sent (CORE-13, AMQP 2.6.7)."""
        if self._busy:
            self._draining[receiver] = None
        else:
            super().drain(receiver)

    def hold(self, wait: CookieOffload, receiver: ReceiverEndpoint, message: WaitingMessage) -> None:
        """A copy waits for its cookie by itself; it is released if its receiver has no credit by then."""
        link, delivery, settled = message.link, message.delivery, message.settled

        def known(kept: bool) -> None:
            if kept and receiver in self.receivers.all and receiver.link.credit > 0:
                send(self, receiver.link, link, delivery, wait.data, settled, message.data)
            else:
                link.settle(delivery, SETTLED if settled else RELEASED)

        if wait.kept is None:
            wait.on_persisted(known)
        else:
            known(False)


class _LeastCredit:
    """The least credit of many receivers, each of which gets nearly every message.

    A receiver is sorted by the number of the message up to which it has credit, which does not change when it gets one.
    """

    def __init__(self) -> None:
        self.sent = 0
        """Number of messages so far."""
        self.owed: Container[ReceiverEndpoint] = ()
        """Receivers that have not been sent the last message yet: one of their credit is reserved."""
        self._limits: dict[ReceiverEndpoint, int] = {}
        self._heap: list[tuple[int, int, ReceiverEndpoint]] = []
        self._serial = 0

    def credited(self, receiver: ReceiverEndpoint) -> None:
        """A receiver has attached, or its credit has changed."""
        limit = self.sent + self._credit(receiver)
        if self._limits.get(receiver) == limit:
            return
        self._limits[receiver] = limit
        heappush(self._heap, self._entry(receiver, limit))
        if len(self._heap) > 2 * len(self._limits) + _FEW:
            self._heap = [self._entry(each, limit) for each, limit in self._limits.items()]
            heapify(self._heap)

    def _entry(self, receiver: ReceiverEndpoint, limit: int) -> tuple[int, int, ReceiverEndpoint]:
        self._serial += 1
        return limit, self._serial, receiver

    def _credit(self, receiver: ReceiverEndpoint) -> int:
        return receiver.link.credit - (receiver in self.owed)

    def leave(self, receiver: ReceiverEndpoint) -> None:
        """A receiver has left."""
        self._limits.pop(receiver, None)

    def least(self) -> int:
        """The least credit of all receivers; it may be less if a socket has filled up since."""
        heap, limits = self._heap, self._limits
        while heap:
            limit, _, receiver = heap[0]
            if limits.get(receiver) != limit:
                heappop(heap)
            elif (now := self.sent + self._credit(receiver)) != limit:
                limits[receiver] = now
                heapreplace(heap, self._entry(receiver, now))
            else:
                return limit - self.sent
        return 0
