"""The positions of groups and durable termini in transactions: Kafka commits them together with the records (KM-14).

They are offsets of a Kafka group that only transactions use, so that a position that is stored in any other way cannot
take their place. The record of the terminus names that group. A link that acquires the record continues at the later of
both positions. The record is checked after the offsets were sent and before the commit: whoever acquires it later waits
for the transaction, because Kafka does not tell an offset while its transaction is open. The record also names the
transactional.id, so that whoever has waited in vain aborts the transaction of a process that is gone.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from bridges.kafka.common import ahead
from bridges.kafka.common.ahead import Ranges, StoredPosition
from bridges.kafka.records.event import EncodedEvent
from gateway.amqp.link.outcomes import ACCEPTED, Modified, Rejected
from gateway.amqp.link.transactions import Retirement

MARK: Final = "transactions"
"""The name of a record's mark: the Kafka group of its transactions, and the topic."""
WRITER: Final = "transactional.id"
"""The name of a record's other mark: the client of its last transaction."""
MARKS: Final = (MARK, WRITER)


def new_group(group: str) -> str:
    """A Kafka group for the transactions of a terminus that is not in any of them yet."""
    return f"{group}.{secrets.token_hex(8)}"


def mark(group: str, topic: str, writer: str) -> dict[str, str]:
    """The marks of a record."""
    return {MARK: f"{group} {topic}", WRITER: writer}


def read_mark(marks: Mapping[str, str]) -> tuple[str, str] | None:
    """Group and topic; None: no transaction has positions of this record."""
    group, found, topic = marks.get(MARK, "").rpartition(" ")
    return (group, topic) if found else None


class BeginningProgress(Protocol):
    """What `DoneEarlier` uses of the progress of a link (`bridges.kafka.links.progress.Progress`)."""

    def begin(self, partition: int, done: Ranges) -> None: ...


class DoneEarlier:
    """What transactions of earlier links have done after the positions of a record (decision 105)."""

    def __init__(self, marks: Mapping[str, str], found: Mapping[int, StoredPosition]) -> None:
        """`marks`: those of the record; `found`: what Kafka has for them."""
        self._marks: Final = marks
        self._done = {partition: position.ahead for partition, position in found.items() if position.ahead}

    def of(self, partition: int) -> Ranges:
        """The offsets in a partition."""
        return self._done.get(partition, ())

    def pass_to(self, progress: BeginningProgress) -> None:
        """Let a link leave them out."""
        for partition, done in self._done.items():
            progress.begin(partition, done)

    def limit(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Keep what is in the log after the first event of a link: it may have lost its last events since."""
        cut = {each: ahead.between(self._done[each], starts[each], ends[each]) for each in ends if each in self._done}
        self._done = {partition: done for partition, done in cut.items() if done}

    def forget(self) -> None:
        """The link begins somewhere else."""
        self._done = {}

    @property
    def marked(self) -> tuple[str, str]:
        """The Kafka group and the client that the record goes on to name, so that the next link finds them, too."""
        named = read_mark(self._marks) if self._done else None
        return ("", "") if named is None else (named[0], self._marks.get(WRITER, ""))


class PartitionRecord(Protocol):
    """The stored position of a partition, compared by identity: who gains the partition again has another one."""


class RetiringTerminus(Protocol):
    """What retired events use of their terminus (`bridges.kafka.links.checkpointer.DurableTerminus`)."""

    @property
    def progress(self) -> EventProgress: ...
    def part_of(self, partition: int) -> PartitionRecord | None:
        """The record of a partition; None: the link has the partition no more."""


class EventProgress(Protocol):
    """What retired events use of the progress of their link (`bridges.kafka.links.progress.Progress`)."""

    def after(self, partition: int, offsets: Collection[int]) -> StoredPosition | None: ...


class RetiredEvents:
    """The events of one terminus that get an outcome in one transaction."""

    def __init__(self, terminus: RetiringTerminus) -> None:
        self._terminus: Final = terminus
        self._retired: Final[list[Retirement]] = []
        self._records: Final[dict[int, PartitionRecord | None]] = {}
        """The records of their partitions when the first of each was retired."""

    def add(self, retirement: Retirement) -> None:
        """An event gets an outcome."""
        self._retired.append(retirement)
        if (event := done_by(retirement)) is not None and event.partition not in self._records:
            self._records[event.partition] = self._terminus.part_of(event.partition)

    @property
    def settled(self) -> bool:
        """Whether one of them, of a link that is still there, has got its outcome in another way."""
        return any(each.attached and not each.open for each in self._retired)

    @property
    def open(self) -> bool:
        """Whether all can still get their outcomes, and no other link has got one of them meanwhile."""
        return all(each.open for each in self._retired) and all(
            record is not None and self._terminus.part_of(partition) is record
            for partition, record in self._records.items()
        )

    def positions(self) -> dict[int, StoredPosition]:
        """Where another link resumes after the commit, in the partitions of these events."""
        done: dict[int, set[int]] = {}
        for each in self._retired:
            if (event := done_by(each)) is not None:
                done.setdefault(event.partition, set()).add(event.offset)
        found = {partition: self._terminus.progress.after(partition, offsets) for partition, offsets in done.items()}
        return {partition: position for partition, position in found.items() if position is not None}


def done_by(retirement: Retirement) -> EncodedEvent | None:
    """The event that is not sent again if the transaction is committed; None: it is."""
    event, outcome = retirement.context, retirement.outcome
    if not isinstance(event, EncodedEvent):
        return None
    final = outcome.undeliverable if isinstance(outcome, Modified) else outcome is ACCEPTED
    return event if final or isinstance(outcome, Rejected) else None
