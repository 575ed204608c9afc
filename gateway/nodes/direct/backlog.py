"""What waits at a direct node when a receiver with a new filter comes: each message is judged once for it.

That may be thousands of messages, and many receivers may come at once: they are judged in slices, one a turn of the
loop. Until a receiver's group has caught up nothing is sent to it, so that it gets what waited before what came later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from gateway.nodes.direct.endpoints import ReceiverGroup
from gateway.nodes.direct.queue import WaitingMessage, WaitingMessages

SLICE: Final = 500
"""Messages that are judged before others have their turn of the loop."""
Soon = Callable[[Callable[[], None]], Any]
"""Calls a function in the next turn of the loop."""


class _Pending:
    """A group, what it has not been asked about yet, and what it takes of the rest."""

    __slots__ = ("found", "group", "unasked")

    def __init__(self, group: ReceiverGroup, unasked: Iterator[WaitingMessage]) -> None:
        self.group, self.unasked = group, unasked
        self.found: list[WaitingMessage] = []


class Backlog:
    """The groups that have not caught up; `takes(group, message)` judges, `done(group)` hears when one has."""

    __slots__ = ("_done", "_pending", "_soon", "_takes", "_waiting")

    def __init__(
        self,
        waiting: WaitingMessages,
        takes: Callable[[ReceiverGroup, WaitingMessage], bool],
        done: Callable[[ReceiverGroup], None],
        soon: Soon | None,
    ) -> None:
        self._waiting: Final = waiting
        self._takes: Final = takes
        self._done: Final = done
        self._soon: Final = soon
        self._pending: Final[deque[_Pending]] = deque()

    def ask(self, group: ReceiverGroup) -> None:
        """Judge all that waits for a new group: a little at once, the rest in later turns."""
        group.behind = True
        self._pending.append(_Pending(group, iter(self._waiting)))
        if self._soon is None or len(self._waiting) <= SLICE:
            while self._pending:
                self._slice()
        elif len(self._pending) == 1:
            self._soon(self._go_on)

    def _go_on(self) -> None:
        self._slice()
        if self._pending and self._soon is not None:
            self._soon(self._go_on)

    def _slice(self) -> None:
        """A part of what the first group has not been asked about."""
        pending = self._pending[0]
        group, asked = pending.group, 0
        for message in islice(pending.unasked, SLICE):
            asked += 1
            if not message.gone and group.members and self._takes(group, message):
                pending.found.append(message)
        if asked < SLICE or not group.members:
            self._pending.popleft()
            self._caught_up(group, pending.found)

    def _caught_up(self, group: ReceiverGroup, found: list[WaitingMessage]) -> None:
        group.behind = False
        if not group.members:
            return
        for message in reversed(found):
            if not message.gone:
                self._waiting.also(message, group.queue, first=True)
        self._done(group)
