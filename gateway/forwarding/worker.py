"""One bridge of a policy: its lease, its links and its checkpoints (KM-24).

One gateway owns a bridge by a lease, like a partition of a consumer group; the others wait for it. A position is
written with the token that its owner got when it began, so that a displaced or suspended owner writes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.amqp.link.outcomes import Outcome, Rejected
from gateway.errors import AmqpError, brief
from gateway.forwarding.checkpoints import Checkpoints
from gateway.forwarding.flow import InFlight, InFlightEvent
from gateway.forwarding.local_source import LocalSource, link_name
from gateway.forwarding.remote_source import RemoteSource
from gateway.forwarding.target import ForwardingTarget
from gateway.state.leases.lease import Lease, LeaseRequest, RevocationReason, unavailable
from gateway.state.termini.store import Fenced, Save, TerminiUnavailable
from gateway.tasks import set_within
from policies.rules import KafkaRoute

if TYPE_CHECKING:
    from gateway.forwarding.shared import Shared
    from gateway.links.link import PolicyVerdict
    from gateway.nodes.base import GatewayContext
    from policies.model.scopes.bridge import BridgeEntry as Model

_PAUSES: Final = (0.1, 5.0)
"""Seconds before an end is attached again, and before events that came back are sent again: first and longest pause,
doubling."""
_EVERY: Final = 0.1
"""Seconds between two writes of checkpoints; a write also shows that no other gateway has taken over."""
_BEAT: Final = 20
_WAITERS: Final = 1000
_PATIENCE_MS: Final = 60_000
_STANDING_BY: Final = "standing by: another gateway forwards the events"


class BridgeCounts:
    """Totals of one bridge since start."""

    __slots__ = ("given_up", "misplaced", "moved", "repeated", "skipped")

    def __init__(self) -> None:
        self.moved = 0
        """Events that the target accepted."""
        self.repeated = 0
        """How often the target released or modified an event."""
        self.given_up = 0
        """Events that the target rejected."""
        self.skipped = 0
        """Events that the filter excludes or that were forwarded before."""
        self.misplaced = 0
        """Events of another partition than their link's (ES-4.4-3)."""

    def by_event(self) -> tuple[tuple[str, int], ...]:
        """The totals by the value of the metric's label `event`."""
        return (
            ("given_up", self.given_up),
            ("misplaced", self.misplaced),
            ("moved", self.moved),
            ("repeated", self.repeated),
            ("skipped", self.skipped),
        )


class BridgeWorker:
    """Runs one entry of `bridge` as a task of the supervisor; `stop` ends it."""

    def __init__(self, key: tuple[str, str], model: Model, context: GatewayContext, shared: Shared) -> None:
        self.model: Final = model
        self.counts: Final = BridgeCounts()
        self.delay = 0.0
        """Seconds from the timestamp of the last event in its log to its acceptance by the target."""
        self.lag: int | None = None
        """Unfinished events of a topic of this gateway; None if unknown."""
        self._scope: Final = key[0]
        self._context: Final = context
        self._shared: Final = shared
        self._loop: Final = asyncio.get_running_loop()
        self._flow = InFlight(self, model.credit, _PAUSES)
        self._checkpoints = Checkpoints({})
        self._lease: Lease | None = None
        self._over = asyncio.Event()
        self._ended = False
        self._target: ForwardingTarget | None = None
        self._source: LocalSource | RemoteSource | None = None
        self._pauses: dict[str, float] = {}
        self._problems: dict[str, str] = {}
        self._state = _STANDING_BY
        self._refusals = 0

    # -- life

    async def run(self) -> None:
        """Claim the lease and forward events while it is valid; repeat until cancelled."""
        try:
            while not self._ended:
                lease = await self._claim()
                if lease is not None:
                    try:
                        await self._own(lease)
                    finally:
                        self._shared.leases.release(lease, orderly=True)
        finally:
            self._end_links()

    async def _claim(self) -> Lease | None:
        request = LeaseRequest(None, None, (0,), _WAITERS, _PATIENCE_MS)
        key = f"bridge//{self._scope}/{self.model.name}"
        try:
            return await self._shared.leases.claim(key, request, gone=lambda: self._ended)
        except AmqpError:
            self._state = _STANDING_BY
            await asyncio.sleep(_PAUSES[0])
            return None

    async def _own(self, lease: Lease) -> None:
        """Forward events while the lease is ours."""
        self._over.clear()
        self._lease = lease
        self._shared.leases.hold(lease, self)
        self._flow = InFlight(self, self.model.credit, _PAUSES)
        self._pauses.clear()
        self._problems = {"to": "not attached yet", "from": "not attached yet"}
        try:
            token = await self._load_checkpoints(lease)
            self._log("bridge begins")
            self._start_target()
            self._start_source()
            await self._keep(token)
        except (TerminiUnavailable, Fenced) as error:
            self._state = f"the position cannot be read from the shared state: {error or 'a later owner has it'}"
            await asyncio.sleep(_PAUSES[0])
        finally:
            self._end_links()
            self._log("bridge ends")
            self._lease = None

    async def _load_checkpoints(self, lease: Lease) -> str | None:
        """Load the checkpoints of a log behind a connector.

        Returns the token for writing, None: none are stored here.
        """
        model = self.model
        self._checkpoints = Checkpoints({})
        if not model.durable or model.source.connector is None:
            return None
        about = f"{model.source} {model.partition} {model.filter}"
        record = await self._shared.termini.acquire(self._key, _digest(about), None, lease.fence)
        self._checkpoints = Checkpoints(record.marks)
        return record.token

    @property
    def _key(self) -> str:
        return _digest(link_name(self._scope, self.model.name))

    async def _keep(self, token: str | None) -> None:
        """Write changed checkpoints until the bridge ends or another gateway owns it."""
        beat = 0
        while not self._over.is_set():
            await set_within(self._over, _EVERY)
            beat = (beat + 1) % _BEAT
            if not beat:
                await self._read_lag()
            if token is not None and not await self._written(token):
                return
        if token is not None:
            await self._written(token)

    async def _written(self, token: str) -> bool:
        changed = self._checkpoints.take_changed()
        if not changed:
            return True
        try:
            (ours,) = await self._shared.termini.save([Save(self._key, token, {}, None, changed)])
        except TerminiUnavailable:
            self._checkpoints.changed = {**changed, **self._checkpoints.changed}
            return True
        return bool(ours)

    async def _read_lag(self) -> None:
        """Update `lag` for a topic of this gateway."""
        source = self._source
        if not isinstance(source, LocalSource) or source.decision is None:
            return
        route, positions = source.decision.routes[-1], source.positions()
        if isinstance(route, KafkaRoute) and positions:
            try:
                self.lag = await self._context.kafka[route.cluster].behind(route.topic, positions)
            except (AmqpError, KeyError):
                self.lag = None

    def stop(self, lease: Lease | None = None, why: RevocationReason | None = None) -> None:
        """Called by the lease when it ends, or by the manager when the bridge is removed."""
        if lease is None:
            self._ended = True
        self._end_links()
        self._over.set()

    def hold(self) -> None:
        """Request no more events (drain)."""
        self._flow.stopping = True
        if isinstance(self._source, LocalSource):
            self._source.window = 0

    # -- the links

    def _start_target(self) -> None:
        if self._may(self._start_target):
            end, source = self.model.to, self.model.source
            self._target = ForwardingTarget(
                self, self._flow, self._context.scopes[self._scope], self._link_name, end, source
            )
            self._target.start()

    def _start_source(self) -> None:
        if self._may(self._start_source):
            scope = self._context.scopes[self._scope]
            if self.model.source.connector is None:
                self._source = LocalSource(self, self._flow, scope, self.model)
            else:
                self._source = RemoteSource(self, self._flow, scope, self.model, self._checkpoints)
            self._source.start()

    def _may(self, start: Callable[[], None]) -> bool:
        """Whether to attach now; if the lease is not certainly valid, try again later."""
        if self._forwarding and not self.valid:
            self.later(_PAUSES[0], self._again(start, self._flow))
            return False
        return self._forwarding

    @property
    def _forwarding(self) -> bool:
        return self._lease is not None and not self._over.is_set() and self._scope in self._context.scopes

    @property
    def _link_name(self) -> str:
        return link_name(self._scope, self.model.name)

    def _end_links(self) -> None:
        self._over.set()
        for end in (self._source, self._target):
            if end is not None:
                end.end(None)
        self._source = self._target = None

    def target_attached(self) -> None:
        """The link to the target is open."""
        self._attached("to")

    def source_attached(self, how: str) -> None:
        """The link from the source is open; `how` says where the position is stored."""
        self._attached("from", position=how)

    def _attached(self, end: str, **more: str) -> None:
        self._problems.pop(end, None)
        self._pauses.pop(end, None)
        self._log("bridge link open", end=end, **more)

    def target_ended(self, error: AmqpError | None) -> None:
        """The link to the target has ended or was refused: try again, with growing pauses."""
        self._missing("to", error, self._start_target)

    def source_ended(self, error: AmqpError | None) -> None:
        """The same for the source; also after `detach-forced` (ES-4-14)."""
        self._missing("from", error, self._start_source)

    def _missing(self, end: str, error: AmqpError | None, start: Callable[[], None]) -> None:
        if not self._forwarding:
            return
        detail = "the link has ended" if error is None else brief(error)
        if detail != self._problems.get(end):
            self._shared.report.log.warning("bridge link down", **self._ids, end=end, detail=detail)
        self._shared.report.increment("bridge_failures", self.model.name)
        self._problems[end] = detail
        pause = self._pauses.get(end, _PAUSES[0])
        self._pauses[end] = min(pause * 2, _PAUSES[1])
        self.later(pause, self._again(start, self._flow))

    def _again(self, start: Callable[[], None], flow: InFlight) -> Callable[[], None]:
        return lambda: start() if flow is self._flow else None

    # -- for the links and `InFlight`

    @property
    def valid(self) -> bool:
        """Whether this gateway certainly owns the bridge."""
        return self._lease is not None and self._lease.valid

    @property
    def fence(self) -> int:
        """Greater than that of every earlier owner."""
        return 0 if self._lease is None else self._lease.fence

    def later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, call)

    def soon(self, call: Callable[[], None]) -> asyncio.Handle:
        return self._loop.call_soon(call)

    def moved(self, item: InFlightEvent) -> None:
        self.counts.moved += 1
        if item.event.timestamp is not None:
            self.delay = max(0.0, time.time() - item.event.timestamp / 1000)

    def repeats(self, item: InFlightEvent, outcome: Outcome) -> None:
        self.counts.repeated += 1

    def given_up(self, item: InFlightEvent, outcome: Outcome) -> None:
        """The target will never accept this event: it counts as finished."""
        self.counts.given_up += 1
        if self.counts.given_up & (self.counts.given_up - 1) == 0:  # log the 1st, 2nd, 4th…
            error = outcome.error if isinstance(outcome, Rejected) else None
            event = {"offset": item.event.offset, "partition": item.event.partition}
            detail = outcome.name if error is None else str(error)
            log = self._shared.report.log
            log.warning("bridge dropped an event", **self._ids, **event, detail=detail, given_up=self.counts.given_up)

    def skipped(self) -> None:
        """The source has sent an event that is not forwarded."""
        self.counts.skipped += 1

    def misplaced(self) -> None:
        """The source has sent an event of another partition than that of its link."""
        self.counts.misplaced += 1

    def message_refused(self, error: AmqpError) -> None:
        """Nothing: the event's outcome follows and is logged."""

    # -- what operators see

    @property
    def held(self) -> int:
        """Unfinished events."""
        return self._flow.held

    @property
    def up(self) -> bool:
        """Whether this gateway forwards events and both links are open."""
        return self.valid and not self._missing_ends

    @property
    def _missing_ends(self) -> dict[str, str]:
        """Why an end takes or gives nothing, by end."""
        if self._target is not None and self._target.away:
            return {**self._problems, "to": "the container is not connected"}
        return self._problems

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`: a missing end is in the detail, but the gateway is ready for its clients."""
        if not self.valid:
            return True, self._state if self._shared.leases.in_time else str(unavailable())
        if missing := self._missing_ends:
            return True, "; ".join(f"not forwarding, {end}: {text}" for end, text in sorted(missing.items()))
        return True, f"forwarding from {self.model.source} to {self.model.to}, {self.counts.moved} forwarded"

    def policy_changed(self, verdict: PolicyVerdict) -> None:
        """After a reload: end links whose addresses may not be used any more."""
        for end in (self._source, self._target):
            if end is not None:
                end.policy_changed(verdict)

    @property
    def _ids(self) -> dict[str, str]:
        model = self.model
        return {"bridge": model.name, "scope": self._scope, "source": str(model.source), "to": str(model.to)}

    def _log(self, what: str, **more: str) -> None:
        self._shared.report.log.info(what, **self._ids, **more)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
