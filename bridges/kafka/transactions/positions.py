"""The positions that one transaction commits, as long as its links have them (KM-14; decisions 49 and 105)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from bridges.kafka.common import ahead
from bridges.kafka.common.ahead import StoredPosition
from bridges.kafka.transactions.client import TransactionalClient
from bridges.kafka.transactions.offsets import EventProgress, RetiredEvents, new_group
from gateway.errors import DETACH_FORCED, RESOURCE_LIMIT_EXCEEDED, TRANSACTION_ROLLBACK, AmqpError, Fault

if TYPE_CHECKING:
    from gateway.amqp.link.transactions import Retirement

_GONE: Final = "a link of the transaction has ended, or another one has taken over its position"
_UNKNOWN: Final = (
    "the shared state is unavailable, so nobody knows whether another link has taken over a position of the transaction"
)
_SETTLED: Final = "a message of the transaction has its outcome already"
_GAPS: Final = (
    "too many events of a link are settled between others that are not (partition {0}): settle them in their order"
)
_IN_DOUBT: Final = (
    "Kafka did not say whether a transaction with events of this link is committed: attach again, and the link resumes "
    "after what is"
)


class TerminusPart(Protocol):
    """What a transaction uses of a record of positions (`bridges.kafka.links.checkpointer.TerminusLease`)."""

    transaction_group: str
    transaction_writer: str
    positions: Callable[[], Mapping[int, int]]

    @property
    def request(self) -> PositionRequest: ...
    async def holds(self) -> bool | None: ...
    async def taken(self) -> bool: ...


class PositionRequest(Protocol):
    """What it uses of `TerminusRequest`."""

    @property
    def group(self) -> str: ...


class StoredPositions(Hashable, Protocol):
    """What it uses of a terminus (`bridges.kafka.links.checkpointer.DurableTerminus`)."""

    displaced: Callable[[AmqpError], None]

    @property
    def parts(self) -> Iterable[TerminusPart]: ...
    @property
    def progress(self) -> EventProgress: ...
    def part_of(self, partition: int) -> TerminusPart | None:
        """The record of a partition; None: the link has the partition no more."""


class TransactionPositions:
    """The events of all termini that get an outcome in one transaction."""

    def __init__(self, client: TransactionalClient) -> None:
        self._client: Final = client
        self._retired: Final[dict[StoredPositions, tuple[str, RetiredEvents]]] = {}
        self._sent: Final[list[TerminusPart]] = []

    def add(self, terminus: StoredPositions, topic: str, retirement: Retirement) -> None:
        """An event of a terminus gets an outcome: its position is committed with the transaction."""
        if terminus not in self._retired:
            self._retired[terminus] = topic, RetiredEvents(terminus)
        self._retired[terminus][1].add(retirement)

    @property
    def links(self) -> tuple[StoredPositions, ...]:
        """The termini of these events."""
        return tuple(self._retired)

    async def send(self) -> AmqpError | None:
        """Make them a part of the Kafka transaction; returns why that cannot be. Raises KafkaException."""
        for terminus, (topic, retired) in self._retired.items():
            if not retired.open:
                return AmqpError(TRANSACTION_ROLLBACK, _SETTLED if retired.settled else _GONE)
            if (error := await self._send(terminus, topic, retired.positions())) is not None:
                return error
        return _refusal([await each.holds() for each in self._sent])

    async def _send(
        self, terminus: StoredPositions, topic: str, positions: Mapping[int, StoredPosition]
    ) -> AmqpError | None:
        for part in terminus.parts:
            if at := {each: positions[each] for each in part.positions() if each in positions}:
                for partition, position in at.items():
                    if ahead.written(position) is None:
                        text = f"{RESOURCE_LIMIT_EXCEEDED}: {_GAPS.format(partition)}"
                        return AmqpError(TRANSACTION_ROLLBACK, text)
                if (error := _refusal([await self._named(part)])) is not None:
                    return error
                await self._client.send_offsets(part.transaction_group, topic, at)
                self._sent.append(part)
        return None

    async def _named(self, part: TerminusPart) -> bool | None:
        """Let the record name the client, so that others can abort its transaction; as `TerminusPart.holds`."""
        if (before := part.transaction_writer) == self._client.identifier:
            return True
        part.transaction_group = part.transaction_group or new_group(part.request.group)
        part.transaction_writer = self._client.identifier
        if not (held := await part.holds()):
            part.transaction_writer = before  # the next transaction tries again
        return held

    async def taken(self) -> bool:
        """Whether another link has certainly acquired one of the records whose positions were sent."""
        return any([await each.taken() for each in self._sent])

    def in_doubt(self) -> None:
        """Nobody knows whether the positions are committed: end their links, which then resume where Kafka says."""
        for terminus in self._retired:
            terminus.displaced(AmqpError(DETACH_FORCED, _IN_DOUBT, fault=Fault.BACKEND))


def _refusal(held: Collection[bool | None]) -> AmqpError | None:
    """Why a transaction is not committed whose link holds these records; None: it does, as far as they say."""
    if all(held):
        return None
    if False in held:
        return AmqpError(TRANSACTION_ROLLBACK, _GONE)
    return AmqpError(TRANSACTION_ROLLBACK, _UNKNOWN, fault=Fault.BACKEND)
