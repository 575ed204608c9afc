"""Termini that outlive their links: a position for each partition, kept in shared state (ES-3.2-7 to -9, KM-11).

What a link has got done is written a few times a second, and when it ends; whoever attaches with the same container,
link name and node, at this process or another one, goes on there. Losing the last writes repeats events and loses none.
A link whose record was taken by another one learns it with its next write, and ends. The positions are mirrored as
committed offsets of a Kafka group, so that ordinary tools show the lag.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

import structlog

from bridges.kafka.admin.client import Topic
from bridges.kafka.cluster import Cluster
from bridges.kafka.consume.log_link import LogLink
from bridges.kafka.consume.progress import Progress
from bridges.kafka.groups.beginnings import Beginning, Beginnings, digest
from gateway.amqp.link.state import DetachKind
from gateway.errors import DETACH_FORCED, INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, STOLEN, AmqpError, Fault
from gateway.nodes.link import LinkEngine, OutgoingLink
from gateway.state.termini.store import Fenced, Full, Save, Saved, Termini, TerminiUnavailable, TerminusRecord

_EVERY: Final = 0.1
"""Seconds between two writes of what changed."""
_BEAT: Final = 2.0
"""Seconds between two writes of what did not: a record lives on, and a link learns that it was displaced."""
_GRACE_MS: Final = 60_000
"""How much longer than its timeout a record lives while it is attached: a gateway that is killed cannot say when."""
_MIRROR: Final = 1.0
MOST: Final = 100_000
"""Records that one process has for links, and for termini that wait for the end of their connection."""
_MIRRORED_AT_ONCE: Final = 100
_NEVER: Final = 3
_STAYS: Final[dict[DetachKind | None, int]] = {DetachKind.DETACHED: 1, DetachKind.OURS: 1, DetachKind.SESSION: 2}
"""Expiry policies (link 0, session 1, connection 2, never 3) from which on a terminus outlasts this end of its link."""
log = structlog.get_logger(logger_name="kafka")


class TerminusRequest(NamedTuple):
    """What is to be kept and for how long; `group` is the Kafka group that shows it.

    `expiry` and `timeout` (seconds) are the source's (AMQP 3.5.3). `wins`: the record, not the filter, says where to
    begin, even if the filter names a position. `owner`: whose record it is, if it is counted.
    """

    key: str
    about: str
    group: str
    expiry: int
    timeout: int
    wins: bool
    owner: str

    @property
    def ttl_ms(self) -> int | None:
        """How long the record lives after the end of what it depends on; None: for ever."""
        return None if self.expiry == _NEVER else self.timeout * 1000


def durable_terminus(link: OutgoingLink, node: str, about: object) -> TerminusRequest | None:
    """What a durable source asks for; None: nothing that outlives its link, or no container-id to know it by."""
    container = link.engine.remote_container
    if not link.source.durable or not container:
        return None
    if link.source.expiry != _NEVER and not link.source.timeout:
        return None  # it would end with its link, at the latest with its connection
    key = digest([link.scope, link.user, container, link.name, node])
    group = link.offset_group or f"amqp.{key}"
    return TerminusRequest(key, digest(about), group, link.source.expiry, link.source.timeout, True, _owner(link))


def group_terminus(link: OutgoingLink, group: str, node: str, partition: int, identity: object) -> TerminusRequest:
    """How far a consumer group has read a partition; it lasts, and a position in a filter counts more.

    It is counted as the record of whose link was the first.
    """
    key = digest(["group", node, group, partition])
    return TerminusRequest(key, digest(identity), f"amqp.{group}", _NEVER, 0, False, _owner(link))


def _owner(link: OutgoingLink) -> str:
    """The user of the link; links of the gateway's own have none."""
    return digest([link.scope, link.user]) if link.user else ""


class DurableTerminus(Hashable, Protocol):
    """What a link keeps: one record, or one for each of its partitions."""

    displaced: Callable[[AmqpError], None]

    @property
    def parts(self) -> Iterable[TerminusLease]: ...
    @property
    def progress(self) -> Progress: ...
    @property
    def keeper(self) -> TerminusCheckpointer: ...


class TerminusCheckpointer:
    """All records that links of one cluster have now."""

    def __init__(self, cluster: Cluster, termini: Termini) -> None:
        self._cluster: Final = cluster
        self._termini: Final = termini
        self._beginnings: Final = Beginnings(termini)
        self._held: Final[set[TerminusLease]] = set()
        self._parked: Final[set[TerminusLease]] = set()
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

    async def take(self, wish: TerminusRequest, fence: int = 0) -> TerminusLease:
        """Have the record for a link; INTERNAL_ERROR while the state is away, STOLEN when a later owner has it."""
        if len(self._held) + len(self._parked) >= MOST:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"this process already stores {MOST} durable termini, its limit")
        await self.flush()  # what an earlier link of this process got done counts
        ttl = wish.ttl_ms if wish.ttl_ms is None else wish.ttl_ms + _GRACE_MS
        try:
            kept = await self._termini.acquire(wish.key, wish.about, ttl, fence, wish.owner)
        except Full as error:
            text = f"the limit of {error.most} stored positions for one user (gateway.user_termini) is reached"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text) from error
        except Fenced as error:
            raise _lost(Saved.TAKEN) from error
        except TerminiUnavailable as error:
            raise _unavailable(error) from error
        return TerminusLease(self, wish, kept)

    async def began(
        self, group: str, node: str, topic: Topic, ends: Callable[[], Awaitable[Mapping[int, int]]] | None = None
    ) -> Beginning:
        """When the group began to read the log; where it has not yet, it begins now (KM-9).

        `ends` asks where the partitions end, for a group whose links share. INTERNAL_ERROR without the state.
        """

        async def now() -> Beginning:
            return Beginning(topic.partitions, {} if ends is None else await ends())

        try:
            return await self._beginnings.of(group, node, topic.identity, now)
        except TerminiUnavailable as error:
            raise _unavailable(error) from error

    async def begin(self, held: TerminusLease, topic: str, positions: Callable[[], Mapping[int, int]]) -> None:
        """The link begins at `positions`: written before its attach is answered."""
        held.topic, held.positions = topic, positions
        now = dict(positions())
        try:
            (saved,) = await self._termini.save([held.save(now)])
        except TerminiUnavailable as error:
            raise _unavailable(error) from error
        if not saved:
            raise _lost(saved)
        held.saved = now
        self._held.add(held)
        if self._task is None:
            self._task = self._cluster.supervisor.keep(self._run, f"termini:{self._cluster.name}")
            self._mirror_task = self._cluster.supervisor.keep(self._run_mirror, f"mirror:{self._cluster.name}")

    def changed(self, kept: DurableTerminus) -> None:
        """Its position may have moved."""
        self._changed[kept] = None

    def end(self, kept: DurableTerminus, link: LogLink) -> None:
        """The link is over: its records end with it, or stay as long as was asked."""
        for held in kept.parts:
            self._end(held, link)
        self._cluster.supervisor.start(self.flush(), "terminus-end")

    async def hand_over(self, held: TerminusLease) -> None:
        """The link goes on without this one; whoever takes it next finds how far it got."""
        self._held.discard(held)
        held.last = dict(held.positions())
        self._changed[held] = None
        await self.flush()

    def _end(self, held: TerminusLease, link: LogLink) -> None:
        self._held.discard(held)
        held.last = dict(held.positions())
        if link.left is DetachKind.CLOSED:
            self._changed.pop(held, None)
            self._closed.append(held)
        elif held.wish.ttl_ms is not None and held.wish.expiry >= _STAYS.get(link.left, _NEVER):
            held.engine = link.engine
            self._parked.add(held)
        if link.left is not DetachKind.CLOSED or not held.wish.wins:
            self._changed[held] = None

    async def _drop_closed(self) -> None:
        """A closed link ends its terminus; the position of a group stays."""
        closed, self._closed = self._closed, []
        for held in closed:
            try:
                if held.wish.wins:
                    await self._termini.drop(held.wish.key, held.token)
            except TerminiUnavailable as error:
                log.warning("a durable terminus is left to expire", reason=str(error))

    # -- writing

    async def _run(self) -> None:
        loop = self._cluster.loop
        beat = loop.time() + _BEAT
        while True:
            await asyncio.sleep(_EVERY)
            if loop.time() >= beat:
                beat = loop.time() + _BEAT
                self._changed.update(dict.fromkeys(self._held))
                self._unpark()
                self._changed.update(dict.fromkeys(self._parked))
            await self.flush()

    def _unpark(self) -> None:
        for held in [held for held in self._parked if held.engine is None or held.engine.closed]:
            self._parked.discard(held)
            held.engine = None
            self._changed[held] = None

    async def flush(self) -> None:
        """Write what changed; what cannot be written now is written later."""
        async with self._writing:
            await self._drop_closed()
            await self._write()

    async def _write(self) -> None:
        changed = list(dict.fromkeys(held for kept in self._changed for held in kept.parts))
        self._changed = {}
        if not changed:
            return
        now = {held: dict(held.positions() if held.last is None else held.last) for held in changed}
        saves = [held.save(positions) for held, positions in now.items()]
        try:
            done = await self._termini.save(saves)
        except TerminiUnavailable:
            self._changed = {**dict.fromkeys(changed), **self._changed}
            return
        for (held, positions), saved in zip(now.items(), done, strict=True):
            if not saved:
                self._displaced(held, saved)
            elif positions != held.saved:
                held.saved = positions
                self._mirror[held.topic, held.wish.group] = {
                    **self._mirror.get((held.topic, held.wish.group), {}),
                    **positions,
                }

    def _displaced(self, held: TerminusLease, saved: Saved) -> None:
        self._parked.discard(held)
        if held in self._held:
            self._held.discard(held)
            self._cluster.supervisor.attempt(partial(held.displaced, _lost(saved)), "terminus-displaced")

    async def _run_mirror(self) -> None:
        while True:
            await asyncio.sleep(_MIRROR)
            for topic, group in list(self._mirror)[:_MIRRORED_AT_ONCE]:
                positions = self._mirror.pop((topic, group))
                await self._cluster.commit(group, topic, positions)

    async def close(self) -> None:
        """The last writes; links have ended by now."""
        for task in (self._task, self._mirror_task):
            if task is not None:
                task.cancel()
        await self.flush()
        for (topic, group), positions in self._mirror.items():
            await self._cluster.commit(group, topic, positions)


class TerminusLease:
    """A record that a link has."""

    __slots__ = (
        "displaced", "engine", "keeper", "last", "positions", "progress", "saved", "start", "token", "topic", "wish",
    )  # fmt: skip

    def __init__(self, keeper: TerminusCheckpointer, wish: TerminusRequest, kept: TerminusRecord) -> None:
        self.keeper: Final = keeper
        self.wish: Final = wish
        self.token: Final = kept.token
        self.start: Final = kept.positions
        """Where an earlier link got to; None: there was none."""
        self.progress: Final = Progress()
        self.positions: Callable[[], Mapping[int, int]] = dict
        self.displaced: Callable[[AmqpError], None] = lambda error: None
        self.saved: dict[int, int] = {}
        self.last: dict[int, int] | None = None
        """Where the link ended."""
        self.engine: LinkEngine | None = None
        """The connection whose end is waited for before the terminus begins to expire."""
        self.topic = ""

    @property
    def parts(self) -> tuple[TerminusLease]:
        """This one."""
        return (self,)

    def resume(self, starts: dict[int, int], *, named: bool) -> dict[int, int]:
        """Where to begin, given where the filter would; `named`: it names a position itself.

        A partition that came later is read from its beginning, since all of it was added since (KM-9).
        """
        if self.start is None or (named and not self.wish.wins):
            return starts
        return {partition: self.start.get(partition, 0) for partition in starts}

    def save(self, positions: Mapping[int, int]) -> Save:
        """The write of these positions."""
        ttl = self.wish.ttl_ms
        if ttl is not None and (self.last is None or self.engine is not None):  # attached: its time has not begun
            ttl = ttl + _GRACE_MS if self.keeper.lasting else None
        return Save(self.wish.key, self.token, positions, ttl)


def _unavailable(error: TerminiUnavailable) -> AmqpError:
    text = "the shared state that stores durable termini is unavailable; attach again later"
    log.warning("durable terminus refused", reason=str(error))
    return AmqpError(INTERNAL_ERROR, text, fault=Fault.BACKEND)


def _lost(saved: Saved) -> AmqpError:
    """Why a link has no record any more."""
    if saved is Saved.TAKEN:
        return AmqpError(STOLEN, "another link has taken over this durable terminus")
    text = "this durable terminus is no longer in the shared state (expired, deleted or emptied); attach to begin anew"
    log.warning("durable terminus gone from the state")
    return AmqpError(DETACH_FORCED, text, fault=Fault.BACKEND)
