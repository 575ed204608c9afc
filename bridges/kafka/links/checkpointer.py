"""Termini that outlive their links: a position for each partition, stored in shared state (ES-3.2-7 to -9, KM-11).

The positions of a link are written several times a second, and when it ends; a link with the same container-id, name
and node, at this process or another one, resumes there. If the last writes are lost, events are repeated and none is
lost. A link whose record another link has acquired learns that from its next write, and ends. The positions are
mirrored as committed offsets of a Kafka group, so that ordinary tools show the lag.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import structlog

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.common.ahead import NO_POSITION, StoredPosition
from bridges.kafka.links.group_start import GroupStart, GroupStarts
from bridges.kafka.links.log_link import LogLink
from bridges.kafka.links.progress import Progress
from bridges.kafka.links.terminus_request import NEVER, TerminusRequest
from bridges.kafka.transactions import offsets
from bridges.kafka.transactions.branch import KafkaBranch
from bridges.kafka.transactions.offsets import DoneEarlier
from bridges.kafka.transactions.pool import TransactionalClients
from gateway.amqp.link.state import DetachKind
from gateway.amqp.link.transactions import Enlisting, Retirement
from gateway.errors import (
    DETACH_FORCED,
    INTERNAL_ERROR,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    STOLEN,
    AmqpError,
    Fault,
)
from gateway.links.link import LinkEngine
from gateway.state.termini.store import Fenced, Full, Save, Saved, Termini, TerminiUnavailable, TerminusRecord

_INTERVAL: Final = 0.1
"""Seconds between two writes of positions that have changed."""
_HEARTBEAT: Final = 2.0
"""Seconds between two writes of all positions: records are renewed, and a link learns that it was displaced."""
_GRACE_MS: Final = 60_000
"""How much longer than its timeout an attached record lives: a gateway may be killed before its last write."""
_MIRROR_INTERVAL: Final = 1.0
_COMMIT_PATIENCE: Final = 2.0
"""Seconds that a transaction is open at most after its positions were sent, unless its process is gone."""
MAX_TERMINI: Final = 100_000
"""Records of one process, for links and for termini that are retained until the end of their connection."""
_MIRRORED_AT_ONCE: Final = 100
_SURVIVES: Final[dict[DetachKind | None, int]] = {DetachKind.DETACHED: 1, DetachKind.OURS: 1, DetachKind.SESSION: 2}
"""The least expiry policy (link 0, session 1, connection 2, never 3) with which a terminus outlives its link."""
log = structlog.get_logger(logger_name="kafka")


class DurableTerminus(Hashable, Protocol):
    """The stored positions of a link: one record, or one for each of its partitions."""

    displaced: Callable[[AmqpError], None]

    @property
    def parts(self) -> Iterable[TerminusLease]: ...
    @property
    def progress(self) -> Progress: ...
    @property
    def checkpointer(self) -> TerminusCheckpointer: ...
    def part_of(self, partition: int) -> TerminusLease | None: ...


class TerminusCheckpointer:
    """Writes the records of all links of one cluster."""

    def __init__(self, cluster: Cluster, termini: Termini) -> None:
        self._cluster: Final = cluster
        self._termini: Final = termini
        self.transactions: TransactionalClients | None = None
        """The clients for transactions of the cluster."""
        self._group_starts: Final = GroupStarts(termini)
        self._attached: Final[set[TerminusLease]] = set()
        self._retained: Final[set[TerminusLease]] = set()
        self._changed: dict[DurableTerminus, None] = {}
        self._closed: list[TerminusLease] = []
        self._writing: Final = asyncio.Lock()
        self._mirror: dict[tuple[str, str], dict[int, int]] = {}
        self._task: asyncio.Task[None] | None = None
        self._mirror_task: asyncio.Task[None] | None = None

    @property
    def lasting(self) -> bool:
        """Whether positions outlive this process."""
        return self._termini.lasting

    async def acquire(self, request: TerminusRequest, fence: int = 0) -> TerminusLease:
        """Acquire the record for a link; INTERNAL_ERROR if the state is unavailable, STOLEN if a later owner has it."""
        if len(self._attached) + len(self._retained) >= MAX_TERMINI:
            text = f"this process already stores {MAX_TERMINI} durable termini, its limit"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        await self.flush()  # an earlier link of this process may have unwritten positions
        ttl = request.ttl_ms if request.ttl_ms is None else request.ttl_ms + _GRACE_MS
        try:
            record = await self._termini.acquire(request.key, request.about, ttl, fence, request.owner)
        except Full as error:
            text = f"the limit of {error.most} stored positions for one user (gateway.user_termini) is reached"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text) from error
        except Fenced as error:
            raise _loss_error(Saved.TAKEN) from error
        except TerminiUnavailable as error:
            raise _unavailable_error(error) from error
        return TerminusLease(self, request, *await self._with_transactions(record))

    async def _with_transactions(self, record: TerminusRecord) -> tuple[TerminusRecord, DoneEarlier]:
        """The record with the positions of transactions, which Kafka may have while the record does not yet."""
        if (marked := offsets.read_mark(record.marks)) is None or record.positions is None:
            return record, DoneEarlier({}, {})
        found = await self._committed(*marked, tuple(record.positions), record.marks.get(offsets.WRITER, ""))
        at = {each: max(offset, found.get(each, NO_POSITION).offset) for each, offset in record.positions.items()}
        return record._replace(positions=at), DoneEarlier(record.marks, found)

    async def _committed(
        self, group: str, topic: str, partitions: Iterable[int], writer: str
    ) -> dict[int, StoredPosition]:
        """The positions of transactions; if one is open, and its process is gone, it is aborted."""
        if writer and self.transactions is not None:
            with suppress(AmqpError):
                return await self._cluster.committed(group, topic, partitions, _COMMIT_PATIENCE)
            await self.transactions.abort(writer)
        return await self._cluster.committed(group, topic, partitions)

    def retire(self, transaction: Enlisting, terminus: DurableTerminus, topic: str, retirement: Retirement) -> None:
        """An event of the terminus gets an outcome in a transaction; raises AmqpError if that cannot be."""
        self.enlist(transaction).retire(terminus, topic, retirement)

    def enlist(self, transaction: Enlisting) -> KafkaBranch:
        """The part of the cluster in a transaction; raises AmqpError if that cannot be."""
        if self.transactions is None:
            raise AmqpError(NOT_IMPLEMENTED, "the gateway's own links have no transactions")
        return transaction.enlist(self.transactions)

    async def holds(self, terminus: TerminusLease) -> bool | None:
        """Whether no other link has acquired the record, which now names the Kafka group of its transactions.

        None: the state is unavailable.
        """
        saved = await self._holder(terminus)
        return None if saved is None else saved is Saved.DONE

    async def taken(self, terminus: TerminusLease) -> bool:
        """Whether another link has acquired the record."""
        return await self._holder(terminus) is Saved.TAKEN

    async def _holder(self, terminus: TerminusLease) -> Saved | None:
        try:
            (saved,) = await self._termini.save([terminus.save(terminus.saved)])
        except TerminiUnavailable:
            return None
        return saved

    async def group_start(
        self, group: str, node: str, topic: Topic, ends: Callable[[], Awaitable[Mapping[int, int]]] | None = None
    ) -> GroupStart:
        """When the group began to read the log; if it has not yet, it begins now (KM-9).

        `ends` returns where the partitions end, for a group whose links share. INTERNAL_ERROR without the state.
        """

        async def now() -> GroupStart:
            return GroupStart(topic.partitions, {} if ends is None else await ends())

        try:
            return await self._group_starts.of(group, node, topic.identity, now)
        except TerminiUnavailable as error:
            raise _unavailable_error(error) from error

    async def begin(self, terminus: TerminusLease, topic: str, positions: Callable[[], Mapping[int, int]]) -> None:
        """The link begins at `positions`: written before its attach is answered."""
        terminus.topic, terminus.positions = topic, positions
        terminus.done.pass_to(terminus.progress)
        terminus.transaction_group, terminus.transaction_writer = terminus.done.marked
        now = dict(positions())
        try:
            (saved,) = await self._termini.save([terminus.save(now)])
        except TerminiUnavailable as error:
            raise _unavailable_error(error) from error
        if not saved:
            raise _loss_error(saved)
        terminus.saved = now
        self._attached.add(terminus)
        if self._task is None:
            self._task = self._cluster.supervisor.keep(self._run, f"termini:{self._cluster.name}")
            self._mirror_task = self._cluster.supervisor.keep(self._run_mirror, f"mirror:{self._cluster.name}")

    def changed(self, terminus: DurableTerminus) -> None:
        """Write the positions of a link with the next write."""
        self._changed[terminus] = None

    def end(self, ended: DurableTerminus, link: LogLink) -> None:
        """The link is over: its records are dropped, or expire as the link requested."""
        for terminus in ended.parts:
            self._end(terminus, link)
        self._cluster.supervisor.start(self.flush(), "terminus-end")

    async def hand_over(self, terminus: TerminusLease) -> None:
        """Write the last positions of a record that the link gives up, for the link that acquires it next."""
        self._attached.discard(terminus)
        terminus.last = dict(terminus.positions())
        self._changed[terminus] = None
        await self.flush()

    def _end(self, terminus: TerminusLease, link: LogLink) -> None:
        self._attached.discard(terminus)
        terminus.last = dict(terminus.positions())
        if link.left is DetachKind.CLOSED:
            self._changed.pop(terminus, None)
            self._closed.append(terminus)
        elif terminus.request.ttl_ms is not None and terminus.request.expiry >= _SURVIVES.get(link.left, NEVER):
            terminus.engine = link.engine
            self._retained.add(terminus)
        if link.left is not DetachKind.CLOSED or not terminus.request.wins:
            self._changed[terminus] = None

    async def _drop_closed(self) -> None:
        """Closing a link deletes its terminus, but not the position of a group."""
        closed, self._closed = self._closed, []
        for terminus in closed:
            try:
                if terminus.request.wins:
                    await self._termini.drop(terminus.request.key, terminus.token)
            except TerminiUnavailable as error:
                log.warning("durable terminus left to expire", reason=str(error))

    # -- writing

    async def _run(self) -> None:
        loop = self._cluster.loop
        heartbeat = loop.time() + _HEARTBEAT
        while True:
            await asyncio.sleep(_INTERVAL)
            if loop.time() >= heartbeat:
                heartbeat = loop.time() + _HEARTBEAT
                self._changed.update(dict.fromkeys(self._attached))
                self._release_retained()
                self._changed.update(dict.fromkeys(self._retained))
            await self.flush()

    def _release_retained(self) -> None:
        for terminus in [each for each in self._retained if each.engine is None or each.engine.closed]:
            self._retained.discard(terminus)
            terminus.engine = None
            self._changed[terminus] = None

    async def flush(self) -> None:
        """Write what has changed; if the state is unavailable, the next write includes it."""
        async with self._writing:
            await self._drop_closed()
            await self._write()

    async def _write(self) -> None:
        changed = list(dict.fromkeys(part for terminus in self._changed for part in terminus.parts))
        self._changed = {}
        if not changed:
            return
        now = {each: dict(each.positions() if each.last is None else each.last) for each in changed}
        saves = [each.save(positions) for each, positions in now.items()]
        try:
            results = await self._termini.save(saves)
        except TerminiUnavailable:
            self._changed = {**dict.fromkeys(changed), **self._changed}
            return
        for (terminus, positions), saved in zip(now.items(), results, strict=True):
            if not saved:
                self._displaced(terminus, saved)
            elif positions != terminus.saved:
                terminus.saved = positions
                mirrored = terminus.topic, terminus.request.group
                self._mirror[mirrored] = {**self._mirror.get(mirrored, {}), **positions}

    def _displaced(self, terminus: TerminusLease, saved: Saved) -> None:
        self._retained.discard(terminus)
        if terminus in self._attached:
            self._attached.discard(terminus)
            self._cluster.supervisor.attempt(partial(terminus.displaced, _loss_error(saved)), "terminus-displaced")

    async def _run_mirror(self) -> None:
        while True:
            await asyncio.sleep(_MIRROR_INTERVAL)
            for topic, group in list(self._mirror)[:_MIRRORED_AT_ONCE]:
                positions = self._mirror.pop((topic, group))
                await self._cluster.commit(group, topic, positions)

    async def close(self) -> None:
        """Make the last writes; all links have ended."""
        for task in (self._task, self._mirror_task):
            if task is not None:
                task.cancel()
        await self.flush()
        for (topic, group), positions in self._mirror.items():
            await self._cluster.commit(group, topic, positions)


class TerminusLease:
    """The record of a link, for as long as no other link has acquired it."""

    __slots__ = (
        "_marked", "checkpointer", "displaced", "done", "engine", "last", "positions", "progress", "request", "saved",
        "start", "token", "topic", "transaction_group", "transaction_writer",
    )  # fmt: skip

    def __init__(
        self, checkpointer: TerminusCheckpointer, request: TerminusRequest, record: TerminusRecord, done: DoneEarlier
    ) -> None:
        self.checkpointer: Final = checkpointer
        self.request: Final = request
        self.token: Final = record.token
        self.start: Final = record.positions
        """The positions of an earlier link; None: there was none."""
        self.done: Final = done
        self.progress: Final = Progress()
        self.positions: Callable[[], Mapping[int, int]] = dict
        self.displaced: Callable[[AmqpError], None] = lambda error: None
        self.saved: dict[int, int] = {}
        self.last: dict[int, int] | None = None
        """The positions at the end of the link; None: it has not ended."""
        self.transaction_group = ""
        """The Kafka group of its positions in transactions; empty: no transaction has any."""
        self.transaction_writer = ""
        """The transactional.id of the last one."""
        self._marked: Final = bool(record.marks)
        self.engine: LinkEngine | None = None
        """The connection whose end starts the expiry of the terminus."""
        self.topic = ""

    @property
    def parts(self) -> tuple[TerminusLease]:
        """This record alone."""
        return (self,)

    def part_of(self, partition: int) -> TerminusLease:
        """See `StoredPositions`."""
        return self

    def resume(self, starts: dict[int, int], *, named: bool) -> dict[int, int]:
        """The offsets to begin at; `starts`: those of the filter; `named`: it names a position itself.

        A partition that was added later is read from its beginning (KM-9).
        """
        if self.start is None or (named and not self.request.wins):
            self.done.forget()
            return starts
        return {partition: self.start.get(partition, 0) for partition in starts}

    async def holds(self) -> bool | None:
        """See `TerminusCheckpointer.holds`."""
        return await self.checkpointer.holds(self)

    async def taken(self) -> bool:
        """See `TerminusCheckpointer.taken`."""
        return await self.checkpointer.taken(self)

    def save(self, positions: Mapping[int, int]) -> Save:
        """The request to write these positions."""
        ttl = self.request.ttl_ms
        if ttl is not None and (self.last is None or self.engine is not None):  # attached: the timeout has not begun
            ttl = ttl + _GRACE_MS if self.checkpointer.lasting else None
        if self.transaction_group:
            marks = offsets.mark(self.transaction_group, self.topic, self.transaction_writer)
            return Save(self.request.key, self.token, positions, ttl, marks)
        # The positions of earlier transactions are in those of this link, or it was told to begin somewhere else.
        return Save(self.request.key, self.token, positions, ttl, removed=offsets.MARKS if self._marked else ())


def _unavailable_error(error: TerminiUnavailable) -> AmqpError:
    text = "the shared state that stores durable termini is unavailable; attach again later"
    log.warning("durable terminus refused", reason=str(error))
    return AmqpError(INTERNAL_ERROR, text, fault=Fault.BACKEND)


def _loss_error(saved: Saved) -> AmqpError:
    """Why a link has lost its record."""
    if saved is Saved.TAKEN:
        return AmqpError(STOLEN, "another link has taken over this durable terminus")
    text = "this durable terminus is no longer in the shared state (expired, deleted or emptied); attach again"
    log.warning("durable terminus missing from shared state")
    return AmqpError(DETACH_FORCED, text, fault=Fault.BACKEND)
