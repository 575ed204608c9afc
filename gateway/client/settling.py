"""A receiver link that leaves the outcome of each message to its caller, for commands that print messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.amqp.link.handlers import Transfer
from gateway.amqp.link.outcomes import Outcome
from gateway.client.links import PATIENCE, BatchHandler, BlockingConnection


class SettlingReceiver(BatchHandler):
    """A receiver with as much credit as messages are wanted: the peer sends no others."""

    def __init__(self, client: BlockingConnection, changed: Callable[[], None]) -> None:
        super().__init__(client, changed)
        self._arrived: list[Transfer] = []
        self._drained = False

    def on_transfers(self, messages: Sequence[Transfer]) -> None:
        self._arrived += messages
        self._changed()

    def on_drained(self) -> None:
        self._drained = True
        self._changed()

    def take(self, most: int, seconds: float, until: Callable[[], bool] = lambda: False) -> list[Transfer]:
        """The messages that have arrived, after waiting at most `seconds` for the first; the credit becomes `most`.

        The wait ends early when `until` becomes true.

        Raises the `AmqpError` that ended the link, once all messages before it were taken.
        """
        self.expect(most)
        self._client.wait(lambda: bool(self._arrived) or self.ended or until(), seconds)
        return self._taken()

    def rest(self, most: int) -> list[Transfer]:
        """At most `most` messages that the peer can send now (drain, 2.6.7); none if it has no more."""
        self._drained = False
        self.expect(most)
        self.link.drain()
        self._client.wait(lambda: self._drained or self.link.granted <= 0 or self.ended, PATIENCE, "a drain")
        return self._taken()

    def expect(self, most: int) -> None:
        """Let the peer send until `most` messages have arrived."""
        wanted = most - self.link.granted - len(self._arrived)
        if wanted > 0 and not self.ended:
            self.link.grant(wanted)

    def _taken(self) -> list[Transfer]:
        if not self._arrived:
            self.check()
        found, self._arrived = self._arrived, []
        return found

    def accept(self, messages: Sequence[Transfer]) -> None:
        """Accept messages; those that came settled get no answer. The outcomes are written by the next `flush`."""
        if not self.ended:
            self.link.accept_all([delivery for delivery, _, _ in messages])

    def settle(self, messages: Sequence[Transfer], outcome: Outcome) -> None:
        """Give messages another outcome."""
        for delivery, _, settled in messages:
            if not (settled or self.ended):
                self.link.settle(delivery, outcome)

    def flush(self) -> None:
        """Let the connection write what is waiting."""
        self._client.work()
