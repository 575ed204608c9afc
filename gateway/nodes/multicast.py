"""The direct node where every receiver gets every message (`direct: multicast`), or all that its filter matches.

The slowest receiver sets the pace; the sender hears the worst of the receivers' outcomes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.amqp.outcomes import ACCEPTED, RELEASED, SETTLED, Modified, Outcome, Rejected
from gateway.errors import AmqpError
from gateway.nodes.filtering import takers
from gateway.nodes.keeping import Keeping
from gateway.nodes.meeting import Item, Meeting, Outlet, send

if TYPE_CHECKING:
    from gateway.amqp.link import Link


class Multicast(Meeting):
    """Copies messages; who is not interested is not waited for."""

    def _choose(self) -> None:
        self.only = None  # every message takes the long way: to all

    def pick(self) -> Outlet | None:
        ready = self.outlets and all(outlet.link.credit > 0 for outlet in self.outlets)
        return self.outlets[0] if ready else None

    def _sift(self, item: Item) -> bool:
        if (first := self.pick()) is None:
            return False
        self.forward(first, *item)
        return True

    def supply(self) -> int:
        return min((outlet.link.credit for outlet in self.outlets), default=0)

    def forward(self, outlet: Outlet, link: Link, delivery: Any, data: bytes, settled: bool) -> None:
        outlets = takers(self.outlets, link, delivery, data) if self.filtered else list(self.outlets)
        if not outlets:  # everybody who is here has been asked
            link.settle(delivery, SETTLED if settled else ACCEPTED)
            self.share_credit()
            return
        copies = _Copies(link, delivery, len(outlets))
        for each in outlets:
            super().forward(each, copies, delivery, data, settled)  # type: ignore[arg-type]

    def hold(self, wait: Keeping, outlet: Outlet, item: Item) -> None:
        """Each copy waits alone, and is released if its receiver has no credit any more."""

        def known(kept: bool) -> None:
            if kept and outlet in self.outlets and outlet.link.credit > 0:
                send(outlet.link, item, wait.data)
            else:
                item[0].settle(item[1], SETTLED if item[3] else RELEASED)

        if wait.kept is None:
            wait.when_known(known)
        else:
            known(False)


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
