"""Replay to an AMQP address: an event counts once it is accepted; a file beside the archive stores the progress.

After a killed run, the next one may send the last chunk again: sending and storing are not atomic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from bridges.spark.archive.storage.paths import StoragePath, write_whole
from bridges.spark.datasource.options import ReadOptions
from bridges.spark.errors import PipelineError, sentence
from gateway.amqp.link.outcomes import ACCEPTED, Outcome
from gateway.client.blocking import BlockingClient
from gateway.client.links import answer_to
from gateway.errors import AmqpError
from gateway.routing.event_annotations import forwarded

_LOT: Final = 500


class AmqpTarget:
    """One address. Raises `PipelineError` if the link is refused or an event is not accepted."""

    def __init__(self, options: ReadOptions, state: StoragePath) -> None:
        self._options: Final = options
        self._state: Final = state
        self._progress: Final = _read(state)
        self._send([])  # fails now if the connection does
        self._keep()  # and if the file cannot be written: without it, events would be sent again

    @property
    def progress(self) -> Mapping[int, int]:
        """The next offset to send, by partition of the archive."""
        return self._progress

    def write(self, rows: pa.RecordBatch) -> None:
        """Send the rows in chunks; the progress is stored after each chunk.

        Each call opens a connection, since the pause between two calls may exceed the peer's idle time-out.
        """
        self._send([rows.slice(first, _LOT) for first in range(0, len(rows), _LOT)])

    def _send(self, lots: list[pa.RecordBatch]) -> None:
        options = self._options
        try:
            with BlockingClient(options.endpoint, options.credentials()) as client:
                sender = client.sender(options.address)
                for lot in lots:
                    parts = zip(lot.column("head").to_pylist(), lot.column("bare_message").to_pylist(), strict=True)
                    messages = [forwarded(head + bare) for head, bare in parts]
                    self._count(lot, sender.send(messages))
        except AmqpError as error:
            raise PipelineError(f"{options.address} at {options.endpoint}: {error.description or error}") from None

    def _count(self, lot: pa.RecordBatch, outcomes: list[Outcome]) -> None:
        places = zip(lot.column("partition").to_pylist(), lot.column("offset").to_pylist(), outcomes, strict=True)
        try:
            for partition, offset, outcome in places:
                if outcome is not ACCEPTED:
                    event = f"the event at offset {offset} of partition {partition}"
                    raise PipelineError(self._refused(event, outcome))
                self._progress[partition] = offset + 1
        finally:
            self._keep()

    def _keep(self) -> None:
        try:
            self._state.parent.mkdir(exist_ok=True)
            write_whole(self._state, json.dumps(self._progress))
        except OSError as error:
            raise PipelineError(f"the progress in {self._state} cannot be stored: {sentence(error)}") from None

    def _refused(self, event: str, outcome: Outcome) -> str:
        return f"{self._options.address} at {self._options.endpoint} {answer_to(event, outcome)}"


def _read(state: StoragePath) -> dict[int, int]:
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(state.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError):
        raise PipelineError(f"{state} does not contain the progress of a replay: remove it to start again") from None
