"""Writes records and the progress of a replay in transactions: both are visible, or neither (decision 38).

A replay has a group of writers; each has some partitions of the target, a transactional id and a committed offset of
the consumer group `scopegate-replay-NAME`, which has no members. The metadata of the offset are the next offsets of the
source by partition, the offset itself is the number of records written. A writer that starts fences an earlier one of
the same id, so a job that was killed, or a second attempt of a task, resumes with the record after the last one that
readers can see.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bridges.kafka.common import errors
from bridges.kafka.common.librdkafka import ClientSettings, calls_back
from bridges.kafka.produce.client import BOUND
from bridges.kafka.produce.column_sender import ColumnSender, FallbackSender, NativeSender, RecordsFailed
from bridges.kafka.produce.record_columns import OutgoingColumns
from gateway.errors import INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, AmqpError

WRITERS: Final = 16
"""The most writers of a replay. They depend on the target only, so that each run fences those of an earlier one."""
_TIMEOUT: Final = 30.0
_TRIES: Final = 3
_METADATA: Final = 4000
"""Bytes of metadata that Kafka stores with an offset (offset.metadata.max.bytes, 4096 by default)."""
_SOURCE: Final = "of"
"""The key of the source in the metadata, beside those of the partitions."""
_TOPIC: Final = "to"
"""The key of the topic's id in the metadata."""
_FRAME: Final = 512
"""Bytes of a batch beside its records, roughly."""
_BATCH: Final = 1_000_000
_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.FENCED_INSTANCE_ID}
)
_PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
_MOVING: Final = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
_OF_SEVERAL: Final = frozenset({KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD})
"""All that librdkafka tells of several records of a batch that the broker refuses, whatever the broker's reason."""
_SILENT: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT})
_PAUSE: Final = 0.1


@dataclass(frozen=True)
class ReplayTarget:
    """The topic that a replay writes to; may be sent to the tasks of a job."""

    settings: ClientSettings = field(repr=False)
    """Settings of librdkafka."""
    topic: str
    partitions: int
    max_bytes: int
    """The topic's `max.message.bytes`."""
    name: str
    """The name of the replay."""
    source: str = ""
    """The log whose events are sent: the progress of a replay of this name is that of one log."""
    identity: str = ""
    """The topic's id: another topic of its name has none of the events."""

    @property
    def group(self) -> str:
        """The consumer group whose committed offsets are the progress."""
        return f"scopegate-replay-{self.name}"

    @property
    def writers(self) -> int:
        """How many writers there are."""
        return min(self.partitions, WRITERS)

    def partition_of(self, source: int) -> int:
        """The partition that events of this partition of the source go to."""
        return source % self.partitions

    def writer_of(self, source: int) -> int:
        """The number of the writer for a partition of the source."""
        return self.partition_of(source) % self.writers

    def check_identity(self, identity: str) -> None:
        """Raise `AmqpError` if this is the id of another topic; older versions did not note any."""
        if identity and self.identity and identity != self.identity:
            text = f"topic {self.topic} was recreated during the replay {self.name}, so it lacks the events before"
            raise AmqpError(INTERNAL_ERROR, f"{text}: delete it, create it again, and run the same command")


class ReplayProgress(NamedTuple):
    """What a replay has written, as of its last transactions."""

    next_offsets: Mapping[int, int]
    """By partition of the source."""
    written: int
    """Records in all; meaningful as a difference between two times only."""


class _CommittedOffset(NamedTuple):
    next_offsets: dict[int, int]
    written: int
    source: str = ""
    identity: str = ""


class ProgressReader:
    """Reads the progress of a replay. Raises `AmqpError`."""

    def __init__(self, target: ReplayTarget) -> None:
        self._target: Final = target
        own: ClientSettings = {
            "group.id": target.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
            **target.settings,
        }
        try:
            self.consumer: Final = Consumer(dict(own))
        except KafkaException as error:
            raise _write_error(target.topic, errors.cause_of(error)) from None

    def read(self) -> ReplayProgress:
        """The progress of all writers."""
        offsets: dict[int, int] = {}
        written = 0
        for each in self.committed():
            written += each.written
            for partition, offset in each.next_offsets.items():
                offsets[partition] = max(offset, offsets.get(partition, 0))
        return ReplayProgress(offsets, written)

    def committed(self) -> list[_CommittedOffset]:
        """The progress by writer. Raises `AmqpError` if it is that of another log."""
        wanted = [TopicPartition(self._target.topic, number) for number in range(self._target.writers)]
        try:
            found = {each.partition: each for each in _committed(self.consumer, wanted)}
        except KafkaException as error:
            raise _write_error(self._target.topic, errors.cause_of(error)) from None
        return [self._checked(_parsed(found[number])) for number in range(self._target.writers)]

    def _checked(self, found: _CommittedOffset) -> _CommittedOffset:
        name, source = self._target.name, self._target.source
        if found.source not in ("", source):  # older versions did not note it
            text = f"the replay {name} to topic {self._target.topic} is one of {found.source}, not of {source}"
            raise AmqpError(INTERNAL_ERROR, f"{text}: use another --name")
        self._target.check_identity(found.identity)
        return found

    def close(self) -> None:
        """Close the client."""
        self.consumer.close()


def _committed(consumer: Consumer, wanted: list[TopicPartition]) -> list[TopicPartition]:
    """The committed offsets; the coordinator of the group may be on its way to another broker. Raises the client's."""
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            found: list[TopicPartition] = consumer.committed(wanted, timeout=_TIMEOUT)
            return found
        except KafkaException as error:
            if errors.cause_of(error).code() not in _MOVING or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


def _parsed(position: TopicPartition) -> _CommittedOffset:
    if position.offset < 0 or not position.metadata:
        return _CommittedOffset({}, 0)
    found = json.loads(position.metadata)
    source, identity = found.pop(_SOURCE, ""), found.pop(_TOPIC, "")
    offsets = {int(partition): next_ for partition, next_ in found.items()}
    return _CommittedOffset(offsets, position.offset, source, identity)


class StopRequest:
    """Asks the tasks of one run to stop, through a committed offset of a group of its own: they share no folder."""

    def __init__(self, target: ReplayTarget, run: str) -> None:
        """`run` is the identity of the run."""
        self._place: Final = target.topic
        self._run: Final = run
        own = {"group.id": f"{target.group}-stop", "enable.auto.commit": False, "log_level": 0, **target.settings}
        self._consumer: Final = Consumer(own)

    def ask(self) -> None:
        """Ask the tasks of the run to stop. Raises `AmqpError`."""
        try:
            self._consumer.commit(offsets=[TopicPartition(self._place, 0, 0, metadata=self._run)], asynchronous=False)
        except KafkaException as error:
            raise _write_error(self._place, errors.cause_of(error)) from None

    def asked(self) -> bool:
        """Whether the run was asked to stop; false if Kafka does not answer."""
        with contextlib.suppress(KafkaException):
            (found,) = self._consumer.committed([TopicPartition(self._place, 0)], timeout=_TIMEOUT)
            return bool(found.metadata == self._run)
        return False

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def fence(target: ReplayTarget) -> ReplayProgress:
    """Fence the writers of an earlier run, which can then write nothing more; returns the progress. Raises `AmqpError`.

    Includes the writer of versions that had one for all partitions.
    """
    for name in (target.group, *(f"{target.group}-{number}" for number in range(target.writers))):
        try:
            Producer(_producer_settings(target, name)).init_transactions(_TIMEOUT)
        except KafkaException as error:
            raise _write_error(target.topic, errors.cause_of(error)) from None
    reader = ProgressReader(target)
    try:
        return reader.read()
    finally:
        reader.close()


def _producer_settings(target: ReplayTarget, name: str) -> dict[str, object]:
    batch = max(1, min(_BATCH, target.max_bytes - _FRAME))
    return {
        "log_level": 0,
        "linger.ms": 5,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
        "batch.size": batch,
        "message.max.bytes": 1_000_000_000,
        **target.settings,
        "transactional.id": name,
    }


class ReplayWriter:
    """One writer of a replay; fences an earlier one of the same number. Raises `AmqpError`."""

    def __init__(self, target: ReplayTarget, number: int) -> None:
        self._target: Final = target
        self._number: Final = number
        self._reader: Final = ProgressReader(target)
        try:
            native = BOUND and not calls_back(target.settings)
            quiet: ClientSettings = {} if native else {"error_cb": _ignore}  # else fatal errors are raised in callbacks
            self._producer: Final = Producer({**_producer_settings(target, f"{target.group}-{number}"), **quiet})
            self._producer.init_transactions(_TIMEOUT)
        except KafkaException as error:
            raise _write_error(target.topic, errors.cause_of(error)) from None
        self._sender: Final[ColumnSender] = NativeSender(self._producer) if native else FallbackSender(self._producer)
        self._own: _CommittedOffset = self._reader.committed()[number]
        self.progress: Final[dict[int, int]] = dict(self._reader.read().next_offsets)
        """The next offset by partition of the source, as of the last commit."""

    def write(self, records: Sequence[OutgoingColumns], next_offsets: Mapping[int, int]) -> None:
        """Write records and the next offsets of their partitions, all or nothing."""
        count = sum(each.size for each in records)
        offsets = {**self._own.next_offsets, **next_offsets}
        own = _CommittedOffset(offsets, self._own.written + count, self._target.source, self._target.identity)
        position = self._position(own)
        for last in (False,) * (_TRIES - 1) + (True,):
            try:
                self._transaction(records, position)
                break
            except (KafkaException, RecordsFailed) as raised:
                error = self._cause(raised.error if isinstance(raised, RecordsFailed) else errors.cause_of(raised))
                ended = self._abort()
                if ended is not None or last or not _passes(error):
                    raise self._error(ended or error) from None
        self._own = own
        self.progress.update(next_offsets)

    def _transaction(self, records: Sequence[OutgoingColumns], position: TopicPartition) -> None:
        self._producer.begin_transaction()
        for each in records:
            self._sender.send(self._target.topic, each)
        self._sender.settle()
        group = self._reader.consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction([position], group, _TIMEOUT)
        self._producer.commit_transaction(_TIMEOUT)

    def _cause(self, error: KafkaError) -> KafkaError:
        """Why records were purged: because another one failed. librdkafka says which error that was at a commit."""
        if error.code() in _PURGED:
            try:
                self._producer.commit_transaction(_TIMEOUT)
            except KafkaException as raised:
                return errors.cause_of(raised)
        return error

    def _abort(self) -> KafkaError | None:
        """Abort the transaction, so that readers need not wait for its time-out; the error if the writer has ended."""
        try:
            self._producer.abort_transaction(_TIMEOUT)
            self._sender.forget()
        except KafkaException as error:
            return errors.cause_of(error)
        return None

    def _position(self, own: _CommittedOffset) -> TopicPartition:
        about = {_SOURCE: own.source, _TOPIC: own.identity}
        text = json.dumps({**own.next_offsets, **about}, separators=(",", ":"))
        if len(text) > _METADATA:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, "the replay has more partitions than Kafka notes the progress of")
        return TopicPartition(self._target.topic, self._number, own.written, metadata=text)

    def _error(self, error: KafkaError) -> AmqpError:
        if error.code() in _FENCED:
            text = f"another run of the replay {self._target.name} has taken over"
            return AmqpError(INTERNAL_ERROR, text)
        return _write_error(self._target.topic, error)

    def close(self) -> None:
        """Close the client; nothing is in flight between two writes."""
        self._reader.close()


def _ignore(error: KafkaError) -> None:
    """Errors of the client come with the calls that they concern."""


def _passes(error: KafkaError) -> bool:
    """Whether the same transaction may succeed at once."""
    return bool(error.retriable()) or error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT)


def _write_error(topic: str, error: KafkaError) -> AmqpError:
    settings = "message.timestamp.before.max.ms and message.timestamp.after.max.ms"
    if error.code() == KafkaError.INVALID_TIMESTAMP:
        return AmqpError(INTERNAL_ERROR, f"topic {topic} refuses the time of a record: raise its {settings}")
    if error.code() in _OF_SEVERAL:
        text = f"refuses records: their times (raise its {settings}), or that they have no key (if it is compacted)"
        return AmqpError(INTERNAL_ERROR, f"topic {topic} {text}")
    text = f"topic {topic} could not be written"
    if error.code() in _SILENT:
        return AmqpError(
            INTERNAL_ERROR, f"{text}, for Kafka does not answer ({error.str()}): run the same command to continue"
        )
    return AmqpError(INTERNAL_ERROR, f"{text}: {error.str()}")
