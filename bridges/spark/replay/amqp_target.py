"""Replay to an AMQP address: an event counts once it is accepted; a file beside the archive stores the progress.

After a killed run, the next one may send the last chunk again: sending and storing are not atomic. What the peer has
not answered when it goes away is sent again as well, and the error says how many events these are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.datasource.options import PeerOptions
from bridges.spark.errors import PipelineError
from bridges.spark.replay.accepted import AcceptedEvents
from gateway.amqp.link.outcomes import ACCEPTED, Outcome, Rejected
from gateway.client.blocking import BlockingClient
from gateway.client.links import BlockingSender, answer_to
from gateway.errors import AmqpError
from gateway.plural import counted
from gateway.routing.event_annotations import forwarded

_LOT: Final = 500
_AGAIN: Final = "run the same command to send it and the others that were not accepted"
"""What helps where the peer did not take an event now; one that it rejects it would reject again."""


class AmqpTarget:
    """One address. Raises `PipelineError` if the link is refused or an event is not accepted."""

    def __init__(self, options: PeerOptions, state: StoragePath, source: str) -> None:
        """`source` names the log whose events are sent."""
        self._options: Final = options
        self._send([], lambda: False, lambda _: None)  # fails now if the connection does
        self._accepted: Final = AcceptedEvents(state, f"{source} to {options.address} at {options.endpoint}")

    @property
    def progress(self) -> Mapping[int, int]:
        """The next offset to send, by partition of the archive."""
        return self._accepted.next_offsets

    def write(
        self,
        rows: pa.RecordBatch,
        stopped: Callable[[], bool] = lambda: False,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Send the rows in chunks until `stopped`; stores and tells the progress after each. Returns the number sent.

        Each call opens a connection, since the pause between two calls may exceed the peer's idle time-out.
        """
        rows = self._accepted.left(rows)
        return self._send([rows.slice(first, _LOT) for first in range(0, len(rows), _LOT)], stopped, on_progress)

    def _send(
        self, lots: list[pa.RecordBatch], stopped: Callable[[], bool], on_progress: Callable[[int], None]
    ) -> int:
        options, sent = self._options, 0
        try:
            with BlockingClient(options.endpoint, options.credentials()) as client:
                sender = client.sender(options.address)
                for lot in lots:
                    if stopped():
                        break
                    sent += self._send_lot(sender, lot, stopped)
                    on_progress(sent)
        except AmqpError as error:
            raise PipelineError(f"{options.address} at {options.endpoint}: {error.description or error}") from None
        return sent

    def _send_lot(self, sender: BlockingSender, lot: pa.RecordBatch, stopped: Callable[[], bool]) -> int:
        """Return the number of events that were sent: fewer than there are if `stopped` came before credit."""
        parts = zip(lot.column("head").to_pylist(), lot.column("bare_message").to_pylist(), strict=True)
        messages = [forwarded(head + bare) for head, bare in parts]
        try:
            sent = len(sender.send(messages, stopped))
        except AmqpError as error:
            raise AmqpError(error.condition, f"{error.description or error}{_doubt(sender.unanswered)}") from None
        finally:  # what was accepted is not sent again, whatever became of the others
            outcomes = sender.outcomes(len(messages))
            self._accepted.count(lot, outcomes)
        self._check(lot, outcomes)
        return sent

    def _check(self, lot: pa.RecordBatch, outcomes: list[Outcome | None]) -> None:
        """Raise `PipelineError` unless all were accepted."""
        for place, outcome in enumerate(outcomes):
            if outcome is not None and outcome is not ACCEPTED:
                partition, offset = (lot.column(name)[place].as_py() for name in ("partition", "offset"))
                event = f"the event at offset {offset} of partition {partition}"
                said = f"{self._options.address} at {self._options.endpoint} {answer_to(event, outcome)}"
                raise PipelineError(said if isinstance(outcome, Rejected) else f"{said}; {_AGAIN}")


def _doubt(unanswered: int) -> str:
    return f"; {counted(unanswered, 'event')} without an answer, which the next run sends again" if unanswered else ""
