"""The messages that wait at a direct node for credit of a receiver that takes them.

Filters are evaluated once for each message: it is in the queue of every group of receivers that takes it. When one of
them has got it, the others skip it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, TypeAlias

from gateway.filters.evaluate.access import Encoded
from gateway.links.link import Delivery, MessageOrigin
from gateway.routing.requester_limits import BESIDE, DETACHED


class Unread(Enum):
    """Marks a message that no filter has read."""

    UNREAD = "unread"


UNREAD: Final = Unread.UNREAD
MessageSource: TypeAlias = Encoded | Unread | None
"""A message as filters read it (`receiver_filter.source_of`); None: it is malformed."""
_FEW: Final = 32
"""Messages that are gone and may stay in a queue, whatever its length."""


class WaitingMessage:
    """A message with its sender's link and delivery; `groups_left` counts the groups that can still take it."""

    __slots__ = ("charged", "data", "delivery", "gone", "groups_left", "link", "queues", "settled", "source")

    def __init__(
        self, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool, source: MessageSource = UNREAD
    ) -> None:
        """`source`: the message as filters read it (`receiver_filter.source_of`), where that is known."""
        self.link, self.delivery, self.data, self.settled = link, delivery, data, settled
        self.source = source
        self.queues: list[Queue] = []
        self.groups_left = self.charged = 0
        """`charged`: its bytes in `DETACHED`, since its link has ended."""
        self.gone = False


class Queue:
    """The messages that one group of receivers takes, oldest first."""

    __slots__ = ("_gone", "_messages")

    def __init__(self) -> None:
        self._messages: deque[WaitingMessage] = deque()
        self._gone = 0

    @property
    def first(self) -> WaitingMessage | None:
        """The oldest message that still waits."""
        return self._messages[0] if self._messages else None

    def put(self, message: WaitingMessage, *, first: bool = False) -> None:
        """Add a message after all others, or before them."""
        if first:
            self._messages.appendleft(message)
        else:
            self._messages.append(message)

    def passed(self) -> None:
        """One of its messages is gone: remove gone ones from the front, and all of them if they are more than half."""
        messages = self._messages
        self._gone += 1
        while messages and messages[0].gone:
            messages.popleft()
            self._gone -= 1
        if self._gone > _FEW and 2 * self._gone > len(messages):
            self._messages = deque(message for message in messages if not message.gone)
            self._gone = 0

    def clear(self) -> list[WaitingMessage]:
        """Remove all; returns those that still wait."""
        left = [message for message in self._messages if not message.gone]
        self._messages.clear()
        self._gone = 0
        return left


class WaitingMessages:
    """All messages that wait at one node, oldest first.

    They come in only by `add` and leave only by `take`.
    """

    __slots__ = ("_all", "_of")

    def __init__(self) -> None:
        self._all: dict[WaitingMessage, None] = {}
        self._of: dict[MessageOrigin, dict[WaitingMessage, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[WaitingMessage]:
        return iter(list(self._all))

    def add(self, message: WaitingMessage, queues: Iterable[Queue], *, first: bool = False) -> None:
        """Let a message wait in `queues`."""
        self._all[message] = None
        self._of.setdefault(message.link, {})[message] = None
        for queue in queues:
            self.add_to(message, queue, first=first)

    @staticmethod
    def add_to(message: WaitingMessage, queue: Queue, *, first: bool = False) -> None:
        """Add a waiting message to the queue of one more group."""
        message.queues.append(queue)
        message.groups_left += 1
        queue.put(message, first=first)

    def take(self, message: WaitingMessage) -> None:
        """Remove a message that is sent or released."""
        del self._all[message]
        message.gone = True
        own = self._of[message.link]
        del own[message]
        if not own:
            del self._of[message.link]
        DETACHED.give_back(message.charged)
        for queue in message.queues if message.groups_left else ():  # without groups no queue has it
            queue.passed()

    def unsettled_of(self, link: MessageOrigin) -> list[WaitingMessage]:
        """The unsettled messages of `link` that wait."""
        return [message for message in self._of.get(link, ()) if not message.settled]

    def left_by(self, link: MessageOrigin) -> list[WaitingMessage]:
        """A link has ended: its settled messages wait on while `DETACHED` has room; returns those without room."""
        over = []
        for message in self._of.get(link, ()):
            if message.settled and not message.charged:
                size = len(message.data) + BESIDE
                if DETACHED.take(size):
                    message.charged = size
                else:
                    over.append(message)
        return over
