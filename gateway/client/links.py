"""Receiver and sender links of the blocking client. Both block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from gateway.amqp.link.handlers import BatchIncoming, LinkHandler, Transfer
from gateway.amqp.link.link import Link
from gateway.amqp.link.outcomes import Outcome, Rejected
from gateway.errors import INTERNAL_ERROR, AmqpError

PATIENCE: Final = 30.0
"""Seconds to wait for an answer of the peer."""
_CREDIT: Final = "credit (is there a receiver at the address?)"
_LOT: Final = 8 * 1024 * 1024
"""Bytes of messages after which a batch is complete, however few messages it has."""


def answer_to(what: str, outcome: Outcome) -> str:
    """How the peer answered a message that it did not accept, with its reason if it gave one."""
    error = outcome.error if isinstance(outcome, Rejected) else None
    why = "" if error is None else f": {error.description or error.condition}"
    return f"answers {outcome.name} to {what}{why}"


class BlockingConnection(Protocol):
    """The connection of a link (`blocking.BlockingClient`); it works only while one of its links waits."""

    def wait(self, condition: Callable[[], bool], seconds: float, what: str = "") -> bool: ...
    def work(self) -> None: ...


class Handler(LinkHandler):
    """What both kinds of links share: attach and detach."""

    link: Link

    def __init__(self, client: BlockingConnection, changed: Callable[[], None]) -> None:
        self._client: Final = client
        self._changed: Final = changed
        self.attached = False
        self.ended = False
        self._error: AmqpError | None = None

    def check(self) -> None:
        """Raise the `AmqpError` that ended the link, if it has ended."""
        if self.ended:
            if self._error is None:
                self._client.wait(lambda: False, 0)  # raises the error of the connection, if that has ended
            raise self._error or AmqpError(INTERNAL_ERROR, "the peer ended the link without a reason")

    def on_attached(self, link: Link) -> None:
        if (link.source if link.incoming else link.target).address is not None:  # else a refusal follows
            self.attached = True
            self._changed()

    def on_detach(self, error: AmqpError | None) -> None:
        self.ended, self._error = True, error
        self._changed()

    on_refused = on_detach


class BatchHandler(Handler, BatchIncoming):
    """A receiver that takes messages together; a subclass has `on_transfers`."""

    def takes_batches(self) -> bool:
        return True

    def on_transfer(self, delivery: int, data: bytes, settled: bool) -> None:
        self.on_transfers([(delivery, data, settled)])


class BlockingReceiver(BatchHandler):
    """A receiver. It accepts unsettled messages as they arrive: events stay in their log."""

    def __init__(self, client: BlockingConnection, changed: Callable[[], None], window: int) -> None:
        super().__init__(client, changed)
        self._window: Final = window
        self._messages: list[bytes] = []
        self._size = 0
        self._wanted = 1
        self._drained = False

    def on_transfers(self, messages: Sequence[Transfer]) -> None:
        deliveries, found, _ = zip(*messages, strict=True)
        self._messages += found
        self._size += sum(map(len, found))
        self.link.accept_all(list(deliveries))  # those that came settled get no answer
        if len(self._messages) >= self._wanted or self._size >= _LOT:
            self._changed()

    def on_drained(self) -> None:
        self._drained = True
        self._changed()

    def take(self, count: int, idle: float) -> list[bytes]:
        """About the next `count` messages: fewer if they are large, or if none arrives for `idle` seconds.

        Raises the `AmqpError` that ended the link.
        """
        while len(self._messages) < count and self._size < _LOT and not self.ended:
            self._ask()
            before = len(self._messages)
            self._wanted = min(count, before + max(self._window // 2, 1))
            self._client.wait(self._enough, idle)
            if len(self._messages) == before:
                break
        if not self._messages:
            self.check()
        elif self._ask():
            self._client.work()  # the peer sends while these are worked on
        return self._taken()

    def _ask(self) -> bool:
        """Top up the credit if half of it is used; returns whether it was."""
        granted = self.link.granted
        if granted >= self._window // 2 and granted:
            return False
        self.link.grant(self._window - granted)
        return True

    def _enough(self) -> bool:
        return len(self._messages) >= self._wanted or self._size >= _LOT or self.ended

    def _taken(self) -> list[bytes]:
        messages, self._messages, self._size = self._messages, [], 0
        return messages

    def rest(self) -> list[bytes]:
        """The messages up to the end of the log, at most one window of them (drain, 2.6.7); none at the end."""
        self._drained = False
        self.link.grant(max(self._window - self.link.granted, 0))
        self.link.drain()
        # credit that is used up is the other end of a drain: no flow answers it then (2.6.7)
        self._wanted = self._window
        self._client.wait(lambda: self._drained or self.link.granted <= 0 or self.ended, PATIENCE, "a drain")
        found = self._taken()
        if not found:
            self.check()
        return found

    def close(self) -> None:
        """Detach."""
        self.link.detach()


class BlockingSender(Handler):
    """A sender."""

    def __init__(self, client: BlockingConnection, changed: Callable[[], None]) -> None:
        super().__init__(client, changed)
        self._outcomes: Final[dict[int, Outcome]] = {}
        self._sent = 0

    def on_credit(self) -> None:
        self._changed()

    def on_outcome(self, context: int, outcome: Outcome) -> None:
        self._outcomes[context] = outcome
        self._changed()

    def begin(self, data: bytes) -> None:
        """Send one message and forget the outcomes of others; `outcome` has its own once it is in.

        Raises the `AmqpError` that ended the link.
        """
        self._forget()
        self._send(data, 0, lambda: False)

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the message that `begin` sent."""
        return self._outcomes.get(0)

    def _send(self, data: bytes, number: int, stopped: Callable[[], bool]) -> bool:
        """Send the message when there is credit, and return True; False if `stopped` comes first."""
        self._client.wait(lambda: self.link.credit > 0 or self.ended or stopped(), PATIENCE, _CREDIT)
        self.check()
        if self.link.credit <= 0:
            return False
        self.link.send(data, number)
        self._sent += 1
        return True

    def _forget(self) -> None:
        self._outcomes.clear()
        self._sent = 0

    @property
    def unanswered(self) -> int:
        """The number of messages of the last call that were sent and have no outcome yet."""
        return self._sent - len(self._outcomes)

    def outcomes(self, count: int) -> list[Outcome | None]:
        """The outcomes so far of the last call's first messages."""
        return [self._outcomes.get(number) for number in range(count)]

    def send(self, messages: list[bytes], stopped: Callable[[], bool] = lambda: False) -> list[Outcome]:
        """Send the messages and return their outcomes in the same order. Raises the `AmqpError` that ended the link.

        There are fewer outcomes than messages if it was `stopped` while it waited for credit; it looks each second.
        """
        self._forget()
        for number, data in enumerate(messages):
            if not self._send(data, number, stopped):
                break
        self._client.wait(lambda: not self.unanswered or self.ended, PATIENCE, "outcomes")
        if self.unanswered:
            self.check()
        return [self._outcomes[number] for number in range(self._sent)]
