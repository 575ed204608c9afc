"""The direct node where every receiver gets every message (`direct: multicast`), or all that its filter matches.

The slowest receiver sets the pace; the sender hears the worst of the receivers' outcomes.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, SETTLED, Modified, Outcome, Rejected
from gateway.amqp.message.bounds import COPIES
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.nodes.direct.node import DirectNode, ReceiverEndpoint
from gateway.nodes.direct.queue import WaitingMessage
from gateway.nodes.direct.receiver_filter import source_of
from gateway.nodes.direct.receivers import ReceiverGroup
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

    def _choose(self) -> None:
        self.only = None  # every message takes the long way: to all

    def _join_outlet(self, outlet: ReceiverEndpoint) -> None:
        super()._join_outlet(outlet)
        self._pace.credited(outlet)

    def _ask(self, group: ReceiverGroup) -> None:
        """What waits is for all, and is judged when it is sent."""

    def leave_outlet(self, outlet: ReceiverEndpoint) -> None:
        self._pace.leave(outlet)
        super().leave_outlet(outlet)
        self.serve(self._everybody)  # perhaps the others waited for this one
        self.share_credit()

    def credited(self, outlet: ReceiverEndpoint) -> None:
        self._pace.credited(outlet)
        super().credited(outlet)

    def transfer(self, link: Link, delivery: Any, data: bytes, settled: bool) -> None:
        if not self.receivers.all:
            self.undeliverable(link, delivery, settled)
        elif not self.waiting and self._all_ready():
            self._forward_all(link, delivery, data, settled)
        else:
            self.wait(WaitingMessage(link, delivery, data, settled), (self._everybody,))

    def serve(self, group: ReceiverGroup) -> None:
        """Send what waits, in its order, as far as all have credit."""
        while (message := self._everybody.queue.first) is not None:
            if self.receivers.all and not self._all_ready():
                return
            self.waiting.take(message)
            deliver = self._forward_all if self.receivers.all else self._nobody
            deliver(message.link, message.delivery, message.data, message.settled)

    def _nobody(self, link: Link, delivery: Any, data: bytes, settled: bool) -> None:
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
        return self._pace.least()

    def _forward_all(self, link: Link, delivery: Any, data: bytes, settled: bool) -> None:
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
        copies = _Copies(link, delivery, len(outlets))
        for each in outlets:
            self.forward(each, copies, delivery, data, settled)  # type: ignore[arg-type]

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
        self._limits: dict[ReceiverEndpoint, int] = {}
        self._heap: list[tuple[int, int, ReceiverEndpoint]] = []
        self._serial = 0

    def credited(self, outlet: ReceiverEndpoint) -> None:
        """A receiver came, or its credit has changed."""
        limit = self.sent + outlet.link.credit
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
            elif (now := self.sent + outlet.link.credit) != limit:
                limits[outlet] = now
                heapreplace(heap, self._entry(outlet, now))
            else:
                return limit - self.sent
        return 0


class _Copies:
    """Stands for the sender's link while copies are under way: settles once all outcomes are in."""

    def __init__(self, link: Link, delivery: Any, count: int) -> None:
        self._link, self._delivery, self._left = link, delivery, count
        self._worst: Outcome | None = None
        self.way, self.requester = link.way, link.requester

    @property
    def rejects(self) -> bool:
        return self._link.rejects

    @property
    def scope(self) -> str:
        return self._link.scope

    def message_refused(self, error: AmqpError) -> None:
        self._link.message_refused(error)

    def tag(self, delivery: Any) -> bytes:
        return self._link.tag(delivery)

    def fail(self, error: AmqpError) -> None:
        self._link.fail(error)

    def settle(self, delivery: Any, outcome: Outcome) -> None:
        if self._worst is None or _severity(outcome) > _severity(self._worst):
            self._worst = outcome
        self._left -= 1
        if not self._left:
            self._link.settle(self._delivery, self._worst)


def _severity(outcome: Outcome) -> int:
    order = (Rejected, Modified)
    if outcome is RELEASED:
        return 1
    return next((3 - index for index, kind in enumerate(order) if isinstance(outcome, kind)), 0)
