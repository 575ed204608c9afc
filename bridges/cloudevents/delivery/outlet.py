"""What one subscription has under way: order, window, retries, and what is done with (docs/subscriptions.md). Sans-IO.

Events come in the order of each partition (`offer`). Those that follow each other by the subscription's order are in
one line, of which only the first is sent; lines are independent. `window` events and `bytes` are in memory; what stands
behind an event that is repeated, or waits for a sink that is away, is an offset alone and is read again (`missing`,
`found`) when its turn comes. Times are seconds of a clock that never goes back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from bridges.cloudevents.delivery.answers import Answer, Verdict
from bridges.cloudevents.delivery.backlog import EventBacklog
from bridges.cloudevents.delivery.breaker import RetryPauses
from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.entry import EventEntry, Letter, Place
from bridges.cloudevents.delivery.gate import Pass, SinkGate
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.sinks.port import SendAttempt
from bridges.cloudevents.subscription.model import DeliverySettings

OFFSETS: Final = 4096
"""Events of which only the place is kept, from which on nothing more is read."""
_LONG: Final = 1.0
"""Seconds of a pause after which an event is read again instead of being kept."""
_CREDENTIALS: Final = 3
"""Refused logins in a row that suspend a subscription."""


class OutletRules(NamedTuple):
    """How a subscription delivers; times in seconds, `limit` of deliveries: None for no limit."""

    delivery: DeliverySettings
    refusals: int
    """Refused events in a row that suspend the subscription."""
    suspend_after: float
    """How long its sink may fail."""
    limit: int | None = None


class OutletOwner(Protocol):
    """Who carries out what the outlet decides; called from within its methods."""

    def bury(self, letter: Letter) -> None:
        """Copy an event to the dead-letter topic, if there is one; `Outlet.buried` when that is done."""

    def stopped(self, reason: Reason) -> None:
        """Nothing is sent any more."""


class Outlet:
    """The events of one subscription between its reading and its sink."""

    def __init__(
        self, rules: OutletRules, owner: OutletOwner, gate: SinkGate, backoff: RetryPauses, counts: DeliveryCounts
    ) -> None:
        self._rules: Final = rules
        self._owner: Final = owner
        self._gate: Final = gate
        self._backoff: Final = backoff
        self._counts: Final = counts
        self._backlog: Final = EventBacklog()
        self._flying: Final[dict[int, tuple[list[EventEntry], Pass]]] = {}
        self._burying: Final[dict[Place, EventEntry]] = {}
        self._numbers: Final = itertools.count(1)
        self._flown = 0
        self._most = rules.delivery.bytes
        self._taken = self._refusals = self._credentials = 0
        self._shut = False
        self.draining = False
        """Send nothing new: the answers to what is under way are awaited."""
        self.failing_since: float | None = None
        """The first failure since the sink has taken an event."""
        self.last_failure: Answer | None = None
        self.reason: Reason | None = None
        """Why nothing is sent; None: something may be."""
        self.delivered = 0
        """Events that the sink has taken: what the limit is compared with."""

    # -- from the reading

    @property
    def wants(self) -> bool:
        """Whether more events may be offered."""
        if self.reason is not None or self._backlog.places >= OFFSETS:
            return False
        if self._shut:
            return self._backlog.lines < 2  # one may be what the sink fails at: another one shows whether it is
        return self._has_room

    @property
    def rests(self) -> bool:
        """Whether nothing is sent for a while, so that nothing shall be in memory."""
        return self._shut or self.reason is not None

    @property
    def _has_room(self) -> bool:
        delivery, backlog = self._rules.delivery, self._backlog
        return backlog.held + len(backlog.asked) < delivery.window and backlog.bytes < self._most

    def allow(self, size: int) -> None:
        """Have no more bytes of events in memory than this, nor than the subscription may have."""
        self._most = min(size, self._rules.delivery.bytes)
        if self._backlog.bytes > self._most:
            self.forget()

    @property
    def bytes(self) -> int:
        """Of the events in memory, about."""
        return self._backlog.bytes

    @property
    def oldest(self) -> int | None:
        """The time of the oldest event that was offered and is not done with, in milliseconds since 1970."""
        return self._backlog.oldest

    def offer(self, event: CloudEvent, size: int, now: float) -> None:
        """An event that the subscription wants, in the order of its partition; `size` in bytes, about."""
        place = Place(event.address, event.partition, event.offset)
        line = self._backlog.line(self._name(event, place))
        entry = EventEntry(place, line, now, event.timestamp)
        if not self.rests and self._has_room and not line.repeats:
            self._backlog.keep(entry, event, size)
        self._counts.matched += 1
        self._backlog.add(entry)

    def _name(self, event: CloudEvent, place: Place) -> object:
        order = self._rules.delivery.order
        if order == "partition":
            return place[:2]
        return place if order == "none" or event.key is None else (*place[:2], event.key)

    def missing(self, now: float) -> list[Place]:
        """Events that have to be read again now; each is told once, and answered by `found`."""
        backlog = self._backlog
        if self.reason is not None:
            return []
        backlog.wake(now)
        delivery, idle = self._rules.delivery, backlog.held - self._flown - len(self._burying)
        most = delivery.window - backlog.held if backlog.bytes < self._most or not idle else 0
        if self._shut:
            most = 1 - idle if self._gate.allows(now) else 0
        return backlog.ask(most - len(backlog.asked))

    def found(self, place: Place, event: CloudEvent | None, size: int) -> None:
        """An event was read again; None: it is not in the log any more, or not wanted."""
        entry = self._backlog.asked.pop(place, None)
        if entry is None:
            return
        if event is None:
            self._backlog.leave(entry)
            self._backlog.done(entry)
        else:
            self._backlog.keep(entry, event, size)
            self._backlog.turn(entry.line)

    def unread(self) -> None:
        """What `missing` has told is not read now: it will be told again."""
        self._backlog.unask()

    def undone(self, address: str, partition: int) -> list[int]:
        """The offsets that were offered and are not done with, ascending."""
        return self._backlog.undone(address, partition)

    def forget(self) -> None:
        """Have nothing in memory but what is under way."""
        self._backlog.forget(entry for entries, _ in self._flying.values() for entry in entries)

    # -- to the sink

    def attempts(self, now: float, room: int) -> Iterator[SendAttempt]:
        """What to send now, up to `room` attempts."""
        self._backlog.wake(now)
        self._look()
        while room > 0 and self._may_send(now) and (entries := self._batch(now)):
            room -= 1
            yield self._fly(entries, now)

    def _may_send(self, now: float) -> bool:
        limit, since = self._rules.limit, self.failing_since
        if self.reason is None and self._gate.open and since is not None and now - since > self._rules.suspend_after:
            self.stop(Reason.UNREACHABLE)
        if self.reason is not None or self.draining or (limit is not None and self.delivered + self._flown >= limit):
            return False
        return self._gate.allows(now) and self._gate.at(now) <= now

    def _look(self) -> None:
        """Have nothing in memory while the sink is away."""
        self._shut = self._gate.open
        if self.rests and self._backlog.held > self._flown + len(self._burying) + 1:
            self.forget()

    def _batch(self, now: float) -> list[EventEntry]:
        """The events of one attempt; none: there are none, or a batch waits for more."""
        first = next(iter(self._backlog.ready), None)
        batching = self._rules.delivery.batch
        if first is None:
            return []
        if batching is None or first.head.most == 1 or self._shut:
            return [first.head]
        entries, full = self._gathered(batching.events, batching.size)
        due = full or not self._has_room or first.head.sent > 0 or first.head.offered + batching.wait <= now
        return entries if due else []

    def _gathered(self, events: int, size: int) -> tuple[list[EventEntry], bool]:
        """Ready events, within the limits of a batch, and whether it has reached them."""
        entries: list[EventEntry] = []
        limit, left = self._rules.limit, size
        most = events if limit is None else min(events, limit - self.delivered - self._flown)
        for line in self._backlog.ready:
            for entry in line.entries:
                if entry.event is None or entry.most == 1:
                    break
                most, left = min(most, entry.most), left - entry.size
                if len(entries) >= most or (entries and left < 0):
                    return entries, True
                entries.append(entry)
        return entries, len(entries) >= most or left <= 0

    def _fly(self, entries: list[EventEntry], now: float) -> SendAttempt:
        events = tuple(entry.event for entry in entries if entry.event is not None)
        number, repetition = next(self._numbers), max(entry.sent for entry in entries)
        for entry in entries:
            self._backlog.ready.pop(entry.line, None)
            if not entry.sent:
                entry.seen = self._taken
            self._counts.repeated += entry.sent > 0
            entry.sent += 1
        self._flown += len(entries)
        self._flying[number] = entries, self._gate.sent(now)
        return SendAttempt(number, events, repetition)

    def next_time(self, now: float) -> float | None:
        """When there may be something to do that nothing else tells; None: nothing."""
        backlog, batching = self._backlog, self._rules.delivery.batch
        if self.reason is not None:
            return None
        times = [] if backlog.next_time is None else [backlog.next_time]
        if backlog.ready or backlog.hungry:
            times += [self._gate.at(now), self._gate.next_at]
            if self.failing_since is not None:
                times.append(self.failing_since + self._rules.suspend_after + 1e-3)
        if backlog.ready and batching is not None:
            times.append(next(iter(backlog.ready)).head.offered + batching.wait)
        return min((time for time in times if time > now), default=None)

    # -- from the sink

    def answered(self, attempt: SendAttempt, answer: Answer, now: float) -> None:
        """The answer to an attempt; one that was abandoned has none any more."""
        found = self._flying.pop(attempt.number, None)
        if found is None:
            return
        entries, passed = found
        self._flown -= len(entries)
        if answer.verdict is not Verdict.DONE:
            self.last_failure = answer
        match answer.verdict:
            case Verdict.DONE:
                self._accepted(entries, passed)
            case Verdict.REFUSED | Verdict.TOO_LARGE:
                self._gate.succeeded(passed)
                self._refused(entries, answer)
            case Verdict.GONE:
                self._gate.succeeded(passed)
                self._back(entries)
                self.stop(Reason.GONE)
            case _:
                self._failed(entries, passed, answer, now)
        self._look()

    def _accepted(self, entries: Sequence[EventEntry], passed: Pass) -> None:
        self._gate.succeeded(passed)
        self._refusals = self._credentials = 0
        self.failing_since = None
        self._taken += len(entries)
        self.delivered += len(entries)
        self._counts.delivered += len(entries)
        for entry in entries:
            self._backlog.leave(entry)
            self._backlog.done(entry)
        if self._rules.limit is not None and self.delivered >= self._rules.limit:
            self.stop(Reason.MAX_EVENTS)

    def _refused(self, entries: Sequence[EventEntry], answer: Answer) -> None:
        """The sink does not want these; a batch is sent again in smaller ones, for it may want a part."""
        if len(entries) > 1:
            most = len(entries) // 2 if answer.verdict is Verdict.TOO_LARGE else 1
            for entry in entries:
                entry.most = most
            self._back(entries)
            return
        self._refusals += 1
        if self._refusals >= self._rules.refusals:
            self._back(entries)
            self.stop(Reason.REFUSALS)
        else:
            self._give_up(entries[0], answer)

    def _give_up(self, entry: EventEntry, answer: Answer) -> None:
        assert entry.event is not None
        self._counts.refused += 1
        self._backlog.leave(entry)
        self._burying[entry.place] = entry
        self._owner.bury(Letter(entry.place, entry.event, answer, entry.sent))

    def buried(self, place: Place) -> None:
        """A refused event has its copy, or there is nowhere to have one: it is done with."""
        entry = self._burying.pop(place, None)
        if entry is not None:
            self._backlog.done(entry)

    def _failed(self, entries: Sequence[EventEntry], passed: Pass, answer: Answer, now: float) -> None:
        """The sink's fault, or the event's."""
        if self.failing_since is None:
            self.failing_since = now
        if answer.verdict is Verdict.WAIT:
            self._gate.paused(passed, answer, now)
            self._back(entries)
            return
        self._gate.failed(passed, answer, now)
        for entry in entries:
            entry.failures += 1
            if entry.first_failed is None:
                entry.first_failed = now
        if answer.verdict is Verdict.CREDENTIAL:
            self._credentials += 1
        if answer.verdict is Verdict.FAILED and self._counts_against(entries):
            self._tried(entries, answer, now)
        else:
            self._repeat(entries, now)
        if self._credentials >= _CREDENTIALS:
            self.stop(Reason.CREDENTIAL)

    def _counts_against(self, entries: Sequence[EventEntry]) -> bool:
        """Whether the sink has taken another event since these were sent first, or have failed last."""
        counts = any(entry.seen < self._taken for entry in entries)
        for entry in entries:
            entry.seen = self._taken
        return counts

    def _tried(self, entries: Sequence[EventEntry], answer: Answer, now: float) -> None:
        """It may be the event's fault: one of a batch is found by sending them one by one."""
        retry = self._rules.delivery.retry
        if len(entries) > 1:
            for entry in entries:
                entry.most = 1
            self._repeat(entries, now)
            return
        (entry,) = entries
        entry.tries += 1
        since = now if entry.first_failed is None else entry.first_failed
        if entry.tries >= retry.attempts or now - since >= retry.within:
            self._give_up(entry, answer)
        else:
            self._repeat(entries, now)

    def _repeat(self, entries: Sequence[EventEntry], now: float) -> None:
        """Send them again after a pause; what stands behind them is read again then, as they are after a long one."""
        for line in dict.fromkeys(entry.line for entry in entries):
            pause = self._backoff.after(line.head.failures)
            self._backlog.shrink(line)
            if pause > _LONG:
                self._backlog.drop(line.head)
            self._backlog.pause(line, now + pause)

    def _back(self, entries: Sequence[EventEntry]) -> None:
        """Send them again as soon as something may be sent."""
        for line in dict.fromkeys(entry.line for entry in entries):
            self._backlog.turn(line)

    # -- life

    def stop(self, reason: Reason) -> None:
        """Send nothing more; answers to what is under way still count."""
        if self.reason is None:
            self.reason = reason
            self.forget()
            self._owner.stopped(reason)

    def resume(self, now: float) -> None:
        """Go on, with an attempt at once."""
        self.reason = self.failing_since = None
        self._refusals = self._credentials = 0
        self._gate.renew(now)

    @property
    def flying(self) -> int:
        """Events under way."""
        return self._flown

    def abandon(self) -> None:
        """What is under way will have no answer: the outlet is not used any more."""
        for _, passed in self._flying.values():
            self._gate.abandoned(passed)
        self._flying.clear()
