"""The credit of the senders of a direct node: equal shares of the credit of its receivers.

Senders are grouped by their remaining credit, in powers of two. A sender is granted its share again when about half of
it is left, so that no message or flow frame has to check all senders. Each has at least one credit while there is any:
a sender that sends nothing must not prevent the others from sending.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gateway.nodes.direct.endpoints import SenderEndpoint

MOST: Final = 10_000
"""Maximum credit of one sender, whatever the receivers grant: it cannot be taken back when they stop."""
SLICE: Final = 200
"""Senders that are granted credit in one turn of the loop."""


class SenderCredit:
    """The senders by their credit; `soon(call)` schedules a call for the next turn of the loop, None: at once."""

    __slots__ = ("_again", "_later", "_levels", "_sharing", "_soon", "all")

    def __init__(self, soon: Callable[[Callable[[], None]], Any] | None = None) -> None:
        self.all: dict[SenderEndpoint, None] = {}
        self._soon: Final = soon
        self._levels: Final[dict[int, dict[SenderEndpoint, None]]] = {}
        self._sharing = self._again = self._later = False

    def join(self, sender: SenderEndpoint) -> None:
        """Add a sender, which has no credit yet."""
        self.all[sender] = None
        self._file(sender, sender.link.granted)

    def leave(self, sender: SenderEndpoint) -> None:
        """Remove a sender."""
        del self.all[sender]
        self._unfile(sender)
        if len(self.all) == 1:  # a copy is small again: iteration would pass the slots of all that have left
            self.all = self.all.copy()

    def credit_used(self, sender: SenderEndpoint) -> None:
        """A sender has used so much credit that it belongs to another level."""
        self._unfile(sender)
        self._file(sender, sender.link.granted)

    def _file(self, sender: SenderEndpoint, granted: int) -> None:
        granted = max(granted, 0)
        sender.level = level = granted.bit_length()
        sender.left = granted - (1 << level >> 1)
        self._levels.setdefault(level, {})[sender] = None

    def _unfile(self, sender: SenderEndpoint) -> None:
        level = self._levels[sender.level]
        del level[sender]
        if not level:
            del self._levels[sender.level]

    # -- sharing

    def distribute(self, free: Callable[[], int]) -> None:
        """Grant the receivers' credit, `free()`, to the senders.

        An internal link may send at once, and a skipped message frees credit again: both cause another round here.
        """
        self._again = True
        if self._sharing or self._later:
            return
        self._sharing = True
        try:
            while self._again:
                self._again = False
                self._round(free)
        finally:
            self._sharing = False

    def _round(self, count: Callable[[], int]) -> None:
        if not self.all or (free := count()) <= 0:
            return
        if len(self.all) == 1:
            self._grant(next(iter(self.all)), min(free, MOST))
            return
        share = min(free // len(self.all) or 1, MOST)
        for sender in self._poorest(share.bit_length(), count):
            if sender in self.all:  # an earlier grant may have ended its link
                self._grant(sender, share)

    def _poorest(self, below: int, free: Callable[[], int]) -> list[SenderEndpoint]:
        """The senders in the levels `below` one; if they are too many for one turn, the rest is done later."""
        found: list[SenderEndpoint] = []
        for level in sorted(at for at in self._levels if at < below):
            found += islice(self._levels[level], SLICE + 1 - len(found)) if self._soon else self._levels[level]
            if self._soon is not None and len(found) > SLICE:
                self._later = True
                self._soon(partial(self._continue, free))
                return found[:SLICE]
        return found

    def _continue(self, free: Callable[[], int]) -> None:
        self._later = False
        self.distribute(free)

    def _grant(self, sender: SenderEndpoint, share: int) -> None:
        """Grant credit; a sender that gets none now is filed as if it had, so that it is not checked at every event."""
        link = sender.link
        if (missing := share - link.granted) > 0:
            link.grant(missing)
        elif sender.level >= share.bit_length():
            return
        if sender in self.all:
            self._unfile(sender)
            self._file(sender, max(link.granted, share))
