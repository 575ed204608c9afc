"""`write.format("scopegate")` and `writeStream`: send rows to an AMQP address; a batch fails unless all are accepted.

A task sends its rows in chunks and waits for the outcome of each message. For a streaming query it stores the digest of
each accepted chunk, so that a repeated micro-batch sends only the other chunks. Sending and storing are not atomic: the
chunk in flight when a task dies may be sent twice. A repeated batch write is sent twice as a whole
(docs/pipeline.md, "Write").
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from bridges.spark.archive.contents.token import Token
from bridges.spark.archive.store import write_whole
from bridges.spark.datasource.options import WriteOptions
from bridges.spark.datasource.row_encoder import Encoder, Row, encoder
from bridges.spark.errors import PipelineError, sentence
from gateway.amqp.link.outcomes import ACCEPTED, Outcome
from gateway.amqp.message import sections
from gateway.client.links import BlockingSender, answer_to
from gateway.client.reconnecting import ReconnectingClient
from gateway.errors import AmqpError

_CHUNK: Final = 500
_SHARED: Final = ".scopegate-progress"
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties of a task that have the query and the micro-batch."""


@dataclass
class WrittenRows(WriterCommitMessage):
    """The result of a task."""

    sent: int
    skipped: int
    """Number of rows that an earlier attempt at the same micro-batch had sent."""


class _Sink:
    _token: Token | None = None
    """A file in the progress folder; a process that does not see it sees another folder at that path."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        """Raises `PipelineError` if rows of this schema cannot be encoded as messages."""
        if overwrite:
            raise PipelineError(f"{options.address}: sent events cannot be overwritten, write with mode append")
        self._options = options
        self._encoder: Encoder = encoder(schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of a task. Raises `PipelineError` if one is not accepted."""
        options = self._options
        self._check_folder()
        done = _Progress.of_task(options.progress)
        task = TaskContext.get()
        number = 0 if task is None else task.partitionId()
        sent = skipped = 0
        try:
            with ReconnectingClient(options) as connection:
                known, sender = None, None
                for rows in _chunks(iterator):
                    messages = self._encoded(rows, number, sent + skipped)
                    if done.contains(messages):
                        skipped += len(messages)
                        continue
                    if (client := connection.client()) is not known or sender is None:
                        known, sender = client, client.sender(options.address)
                    self._send(sender, rows, messages, number, sent + skipped)
                    done.add(messages)
                    sent += len(messages)
        except AmqpError as error:
            raise PipelineError(f"{options.address} at {options.endpoint}: {error.description or error}") from None
        return WrittenRows(sent, skipped)

    def _check_folder(self) -> None:
        """Raise `PipelineError` if this process sees another progress folder than the driver."""
        if self._token is not None and not self._token.seen():
            raise PipelineError(
                f"a worker of Spark cannot reach the progress: for the one at {socket.gethostname()}, working "
                f"directory {os.getcwd()}, {self._options.progress} is another folder or none; every machine of the "
                f"job needs the same folder there (progressLocation), or whole micro-batches may be sent twice"
            )

    def _encoded(self, rows: Sequence[Row], task: int, before: int) -> list[bytes]:
        messages = []
        for number, row in enumerate(rows, before):
            try:
                messages.append(self._encoder(row))
            except (ValueError, TypeError, AmqpError) as error:
                raise PipelineError(f"{_row_name(row, task, number)} is not a message: {error}") from None
        return messages

    def _send(
        self, sender: BlockingSender, rows: Sequence[Row], messages: list[bytes], task: int, before: int
    ) -> None:
        for number, (row, outcome) in enumerate(zip(rows, sender.send(messages), strict=True), before):
            if outcome is not ACCEPTED:
                raise PipelineError(self._refused(_row_name(row, task, number), outcome))

    def _refused(self, row_name: str, outcome: Outcome) -> str:
        return f"{self._options.address} at {self._options.endpoint} {answer_to(row_name, outcome)}"


class BatchSink(_Sink, DataSourceArrowWriter):
    """Writes a batch of rows."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do: all messages were accepted."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do: accepted messages cannot be revoked."""


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """Writes micro-batches of rows."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        """Runs on the driver. Also raises `PipelineError` if the progress folder cannot be written."""
        super().__init__(options, schema, overwrite=overwrite)
        if (folder := options.progress) is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._token = Token.shared(folder / _SHARED)
            except OSError as error:
                raise PipelineError(f"the progress in {folder} cannot be stored: {sentence(error)}") from None

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: all messages were accepted."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: accepted messages cannot be revoked."""


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[list[Row]]:
    for batch in batches:
        for first in range(0, batch.num_rows, _CHUNK):
            yield batch.slice(first, _CHUNK).to_pylist(maps_as_pydicts="strict")


def _row_name(row: Row, task: int, number: int) -> str:
    """A name of the row for errors: its position in the log it came from, or its number in its task."""
    if isinstance(row.get("partition"), int) and isinstance(row.get("offset"), int):
        return f"the row of partition {row['partition']}, offset {row['offset']}"
    return f"row {number} of task {task}"


class _Progress:
    """The accepted chunks of one task of one micro-batch; without a file, none are recorded."""

    def __init__(self, file: Path | None = None, batch: str = "") -> None:
        self._file, self._batch = file, batch
        self._chunks: list[str] = []
        self._earlier: Counter[str] = Counter()
        if file is not None:
            # if the file is unreadable, everything is sent again
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                found = json.loads(file.read_bytes())
                if found["batch"] == batch:
                    self._earlier = Counter(map(str, found["lots"]))

    @classmethod
    def of_task(cls, folder: Path | None) -> _Progress:
        """The progress of earlier attempts at this task. Raises `PipelineError` if it cannot be stored."""
        task = TaskContext.get()
        batch = None if task is None else task.getLocalProperty(_BATCH)
        if task is None or batch is None or folder is None:
            return cls()
        file = folder / f"{task.getLocalProperty(_QUERY)}-{task.partitionId()}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"progressLocation {folder} cannot be written: {sentence(error)}") from None
        done = cls(file, batch)
        done.store()  # fail before sending: unrecorded chunks would be sent again
        return done

    def contains(self, messages: Sequence[bytes]) -> bool:
        """Whether an earlier attempt has had these messages accepted."""
        if not self._earlier:
            return False
        digest = _digest(messages)
        if found := digest in self._earlier:
            self._earlier -= Counter((digest,))
            self._chunks.append(digest)
        return found

    def add(self, messages: Sequence[bytes]) -> None:
        """Record that these messages were accepted. Raises `PipelineError`."""
        if self._file is not None:
            self._chunks.append(_digest(messages))
            self.store()

    def store(self) -> None:
        """Write the file. Raises `PipelineError`."""
        if self._file is None:
            return
        lots = [*self._chunks, *self._earlier.elements()]
        try:
            write_whole(self._file, json.dumps({"batch": self._batch, "lots": lots}))
        except OSError as error:
            raise PipelineError(f"the progress in {self._file} cannot be stored: {sentence(error)}") from None


def _digest(messages: Sequence[bytes]) -> str:
    found = hashlib.sha256()
    for data in map(_without_ttl, messages):
        found.update(len(data).to_bytes(8, "big"))
        found.update(data)
    return found.hexdigest()


def _without_ttl(data: bytes) -> bytes:
    """The message without its ttl, which a log reduces each time the event is read (3.2.1)."""
    layout = sections.walk(data)
    fields = sections.header(data, layout)
    return repr([*fields[:2], *fields[3:]]).encode() + data[layout.da :] if len(fields) > 2 else data
