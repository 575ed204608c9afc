"""Evaluates a new filter on the messages that already wait at a direct node, when a receiver with it attaches.

There may be thousands of messages, and many receivers may attach at once: messages are evaluated in slices, one in each
turn of the loop. Nothing is sent to a group of receivers before it has caught up, so that the order is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from gateway.nodes.direct.endpoints import ReceiverGroup
from gateway.nodes.direct.queue import WaitingMessage, WaitingMessages

SLICE: Final = 500
"""Messages that are evaluated in one turn of the loop."""
Takes = Callable[[ReceiverGroup, WaitingMessage], bool]
"""Evaluates the filter of a group on a message."""
Done = Callable[[ReceiverGroup], None]
"""Called when a group has caught up."""
Soon = Callable[[Callable[[], None]], Any]
"""Schedules a call for the next turn of the loop."""


class _Pending:
    """A group, the messages that are not evaluated for it yet, and those that match so far."""

    __slots__ = ("done", "group", "matching", "takes", "unevaluated")

    def __init__(self, group: ReceiverGroup, unevaluated: Iterator[WaitingMessage], takes: Takes, done: Done) -> None:
        self.group, self.unevaluated, self.takes, self.done = group, unevaluated, takes, done
        self.matching: list[WaitingMessage] = []


class Backlog:
    """The groups that have not caught up."""

    __slots__ = ("_pending", "_soon", "_waiting")

    def __init__(self, waiting: WaitingMessages, soon: Soon | None) -> None:
        self._waiting: Final = waiting
        self._soon: Final = soon
        self._pending: Final[deque[_Pending]] = deque()

    def catch_up(self, group: ReceiverGroup, takes: Takes, done: Done) -> None:
        """Evaluate all waiting messages for a new group: at once if they are few, else in later turns."""
        group.behind = True
        self._pending.append(_Pending(group, iter(self._waiting), takes, done))
        if self._soon is None or len(self._waiting) <= SLICE:
            while self._pending:
                self._slice()
        elif len(self._pending) == 1:
            self._soon(self._continue)

    def _continue(self) -> None:
        self._slice()
        if self._pending and self._soon is not None:
            self._soon(self._continue)

    def _slice(self) -> None:
        """Evaluate the next slice for the first group."""
        pending = self._pending[0]
        group, evaluated = pending.group, 0
        for message in islice(pending.unevaluated, SLICE):
            evaluated += 1
            if not message.gone and group.members and pending.takes(group, message):
                pending.matching.append(message)
        if evaluated < SLICE or not group.members:
            self._pending.popleft()
            self._caught_up(pending)

    def _caught_up(self, pending: _Pending) -> None:
        group = pending.group
        group.behind = False
        if not group.members:
            return
        for message in reversed(pending.matching):
            if not message.gone:
                self._waiting.add_to(message, group.queue, first=True)
        pending.done(group)
