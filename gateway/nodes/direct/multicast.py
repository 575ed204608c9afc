"""The direct node where every receiver gets every message (`direct: multicast`), or all that its filter matches.

The slowest receiver sets the pace; the sender hears the worst of the receivers' outcomes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, SETTLED
from gateway.amqp.message.bounds import COPIES
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.nodes.direct.backlog import Soon
from gateway.nodes.direct.copies import SLICE, Copies, Round
from gateway.nodes.direct.node import DirectNode, ReceiverEndpoint
from gateway.nodes.direct.queue import WaitingMessage
from gateway.nodes.direct.receiver_filter import source_of
from gateway.nodes.direct.receivers import ReceiverGroup
from gateway.nodes.link import Delivery
from gateway.nodes.reject import refuse
from gateway.routing.cookie_offload import CookieOffload
from gateway.routing.pending_cookies import send

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link

_FEW: Final = 64
_TOO_MUCH: Final = f"the copies of this message for all receivers would exceed {COPIES} bytes; send smaller messages"
_serial: Final = attrgetter("serial")


class Multicast(DirectNode):
    """Copies messages; who is not interested is not waited for."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._everybody: Final = ReceiverGroup(None)  # for the queue: a message is judged when it is sent
        self._pace: Final = _Pace()
        self._soon: Final[Soon | None] = options.get("soon")
        self._round: Round[ReceiverEndpoint] | None = None
        """The message whose copies are being sent, in turns of the loop; all others wait behind it."""
        self._later = False
        self._draining: dict[ReceiverEndpoint, None] = {}

    def _choose(self) -> None:
        self.only = None  # every message takes the long way: to all

    def _join_outlet(self, outlet: ReceiverEndpoint) -> None:
        super()._join_outlet(outlet)
        self._pace.credited(outlet)

    def _ask(self, group: ReceiverGroup) -> None:
        """What waits is for all, and is judged when it is sent."""

    def leave_outlet(self, outlet: ReceiverEndpoint) -> None:
        self._pace.leave(outlet)
        self._draining.pop(outlet, None)
        if (now := self._round) is not None and now.leave(outlet):
            now.copies.missed(lambda link, delivery: self.undeliverable(link, delivery, now.settled))
        super().leave_outlet(outlet)
        self._go_on()  # perhaps the others waited for this one

    def credited(self, outlet: ReceiverEndpoint) -> None:
        if (now := self._round) is not None:
            now.serve(outlet)
        self._pace.credited(outlet)
        if now is not None and now.over:
            self._go_on()
        super().credited(outlet)

    def transfer(self, link: Link, delivery: Delivery, data: bytes, settled: bool) -> None:
        if not self.receivers.all:
            self.undeliverable(link, delivery, settled)
        elif not self.waiting and self._round is None and self._all_ready():
            self._forward_all(link, delivery, data, settled)
        else:
            self.wait(WaitingMessage(link, delivery, data, settled), (self._everybody,))

    def serve(self, group: ReceiverGroup) -> None:
        """Send what waits, in its order, as far as all have credit, and so much of it in one turn of the loop."""
        copies = 0
        while self._round is None and (message := self._everybody.queue.first) is not None:
            if self.receivers.all and not self._all_ready():
                return
            if copies >= SLICE:
                self._go_on_later()
                return
            self.waiting.take(message)
            deliver = self._forward_all if self.receivers.all else self._nobody
            deliver(message.link, message.delivery, message.data, message.settled)
            copies += len(self.receivers.all)

    def _nobody(self, link: Link, delivery: Delivery, data: bytes, settled: bool) -> None:
        self.undeliverable(link, delivery, settled)

    def _all_ready(self) -> bool:
        """Whether all have credit; each is asked only where no one is known to have none."""
        if self._pace.least() <= 0:
            return False
        blocked = [outlet for outlet in self.receivers.all if outlet.link.credit <= 0]
        for outlet in blocked:
            self._pace.credited(outlet)
        return not blocked

    def supply(self) -> int:
        return max(self._pace.least(), 0)

    def _forward_all(self, link: Link, delivery: Delivery, data: bytes, settled: bool) -> None:
        receivers = self.receivers
        groups = receivers.takers(source_of(data)) if receivers.filtered else receivers.groups.values()
        outlets = sorted((outlet for group in groups for outlet in group.members), key=_serial)
        if not outlets:  # everybody who is here has been asked
            link.settle(delivery, SETTLED if settled else ACCEPTED)
            self.share_credit()
            return
        if len(data) * len(outlets) > COPIES:
            refuse(link, delivery, AmqpError(RESOURCE_LIMIT_EXCEEDED, _TOO_MUCH), settled)
            self.share_credit()
            return
        self._pace.sent += 1
        copies = Copies(link, delivery, len(outlets))
        if self._soon is not None and len(outlets) > SLICE:
            self._begin_round(copies, delivery, data, settled, outlets)
            self._some()
            return
        left = iter(outlets)
        try:
            for each in left:
                self.forward(each, copies, delivery, data, settled)  # type: ignore[arg-type]
        except Exception:  # a bug of ours with one of them: the others get theirs in the next turn
            copies.settle(delivery, FAILED)
            self._begin_round(copies, delivery, data, settled, left)
            self._go_on_later()
            raise

    def _begin_round(
        self, copies: Copies, delivery: int, data: bytes, settled: bool, outlets: Iterable[ReceiverEndpoint]
    ) -> None:
        def send_one(outlet: ReceiverEndpoint) -> None:
            self.forward(outlet, copies, delivery, data, settled)  # type: ignore[arg-type]

        self._round = self._pace.owed = Round(copies, delivery, settled, outlets, send_one)

    # -- in turns of the loop

    def _some(self) -> None:
        """Some more copies of the message that is on its way."""
        now = self._round
        assert now is not None
        try:
            now.some()
        finally:
            if now.goes_on:
                self._go_on_later()

    def _go_on_later(self) -> None:
        if not self._later and self._soon is not None:
            self._later = True
            self._soon(self._next_turn)

    def _next_turn(self) -> None:
        self._later = False
        try:
            if self._round is not None and self._round.goes_on:
                self._some()
        finally:
            self._go_on()

    def _go_on(self) -> None:
        """Where a message has gone to all, begin the next; what nobody waits for in turns is drained."""
        if self._round is not None and self._round.over:
            self._end_round(self._round.copies)
        self.serve(self._everybody)
        self.share_credit()
        if not self._busy:
            draining, self._draining = self._draining, {}
            for outlet in draining:
                if outlet.link.draining:
                    super().drain(outlet)

    def _end_round(self, copies: Copies) -> None:
        self._round, self._pace.owed = None, ()
        if not copies.open:  # its sender has left meanwhile
            for outlet in self._crossed.pop(copies.context, ()):
                outlet.forget(copies)  # type: ignore[arg-type]

    @property
    def _busy(self) -> bool:
        """Whether what is there is still to be sent, in later turns, to who has credit."""
        return self._later or (self._round is not None and self._round.goes_on)

    def drain(self, outlet: ReceiverEndpoint) -> None:
        """What is there is sent first (CORE-13, AMQP 2.6.7)."""
        if self._busy:
            self._draining[outlet] = None
        else:
            super().drain(outlet)

    def hold(self, wait: CookieOffload, outlet: ReceiverEndpoint, message: WaitingMessage) -> None:
        """Each copy waits alone, and is released if its receiver has no credit any more."""
        link, delivery, settled = message.link, message.delivery, message.settled

        def known(kept: bool) -> None:
            if kept and outlet in self.receivers.all and outlet.link.credit > 0:
                send(outlet.link, link, delivery, wait.data, settled)
            else:
                link.settle(delivery, SETTLED if settled else RELEASED)

        if wait.kept is None:
            wait.when_known(known)
        else:
            known(False)


class _Pace:
    """The least credit of many receivers, each of which gets nearly every message.

    A receiver is filed by the number of the message up to which it has credit: that stays when it gets one.
    """

    def __init__(self) -> None:
        self.sent = 0
        """Messages so far."""
        self.owed: Container[ReceiverEndpoint] = ()
        """Who has not been sent the last of them yet: one of its credit is spoken for."""
        self._limits: dict[ReceiverEndpoint, int] = {}
        self._heap: list[tuple[int, int, ReceiverEndpoint]] = []
        self._serial = 0

    def credited(self, outlet: ReceiverEndpoint) -> None:
        """A receiver came, or its credit has changed."""
        limit = self.sent + self._credit(outlet)
        if self._limits.get(outlet) == limit:
            return
        self._limits[outlet] = limit
        heappush(self._heap, self._entry(outlet, limit))
        if len(self._heap) > 2 * len(self._limits) + _FEW:
            self._heap = [self._entry(each, limit) for each, limit in self._limits.items()]
            heapify(self._heap)

    def _entry(self, outlet: ReceiverEndpoint, limit: int) -> tuple[int, int, ReceiverEndpoint]:
        self._serial += 1
        return limit, self._serial, outlet

    def _credit(self, outlet: ReceiverEndpoint) -> int:
        return outlet.link.credit - (outlet in self.owed)

    def leave(self, outlet: ReceiverEndpoint) -> None:
        """A receiver has left."""
        self._limits.pop(outlet, None)

    def least(self) -> int:
        """The least credit of all; it may be less where a socket has filled up since."""
        heap, limits = self._heap, self._limits
        while heap:
            limit, _, outlet = heap[0]
            if limits.get(outlet) != limit:
                heappop(heap)
            elif (now := self.sent + self._credit(outlet)) != limit:
                limits[outlet] = now
                heapreplace(heap, self._entry(outlet, now))
            else:
                return limit - self.sent
        return 0
