"""Since when links wait for credit, as far as looks in intervals can tell; pure.

A link waits if its sender has no credit at two looks, and has sent nothing between them. Links with credit cost nothing
here, and the sending of messages is not slowed down by a clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.admin.documents.links import credit_of

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link

LinkKey = tuple[int, int]
"""The number of a connection, and the serial number of the link in it."""


class _Wait(NamedTuple):
    since: float
    sent: int


class CreditWaits:
    """The links that wait."""

    def __init__(self) -> None:
        self._known: dict[LinkKey, _Wait] = {}
        self._next: Final[dict[LinkKey, _Wait]] = {}

    def look(self, key: LinkKey, link: Link, now: float) -> None:
        """Look at a link, once in each round."""
        if link.open and credit_of(link) <= 0:
            before, sent = self._known.get(key), link.counted + link.transfers
            self._next[key] = before if before is not None and before.sent == sent else _Wait(now, sent)

    def finish(self) -> None:
        """A round is over: links that it has not seen are forgotten."""
        self._known = dict(self._next)
        self._next.clear()

    def since(self, key: LinkKey, link: Link) -> float | None:
        """The time since which a link has waited; None: it does not wait, or not for as long as two looks."""
        found = self._known.get(key)
        if found is None or not link.open or credit_of(link) > 0 or found.sent != link.counted + link.transfers:
            return None
        return found.since
