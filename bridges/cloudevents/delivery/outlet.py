"""The outlet of one subscription: order, window, retries, and positions (docs/subscriptions.md). Sans-IO.

Events arrive in the order of each partition (`offer`). Events that depend on each other by the subscription's order are
in one line, of which only the first is sent; lines are independent. `window` and `bytes` limit the events in memory.
Behind an event that is sent again, or while the sink is unreachable, only offsets are kept; those events are read again
(`missing`, `found`) when they may be sent. Times are seconds of a monotonic clock.
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
from bridges.cloudevents.sinks.interface import SendAttempt
from bridges.cloudevents.subscription.model import DeliverySettings

OFFSETS: Final = 4096
"""Number of known places at which reading stops."""
_LONG: Final = 1.0
"""Seconds of a pause, or of an outage, during which events are not kept in memory: they are read again."""
_CREDENTIALS: Final = 3
"""Number of refused logins in a row that suspend a subscription."""


class OutletRules(NamedTuple):
    """The delivery settings of a subscription; times in seconds; `limit` is the number of deliveries, or None."""

    delivery: DeliverySettings
    refusals: int
    """Number of refused events in a row that suspend the subscription."""
    suspend_after: float
    """Seconds of failures after which the subscription is suspended."""
    limit: int | None = None


class OutletOwner(Protocol):
    """Carries out the outlet's decisions; called from within its methods."""

    def bury(self, letter: Letter) -> None:
        """Copy an event to the dead-letter topic, if there is one; calls `Outlet.buried` when done."""

    def stopped(self, reason: Reason) -> None:
        """The outlet has stopped sending."""


class Outlet:
    """The events of one subscription between its reader and its sink."""

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
        self._shut = self._away = False
        self.draining = False
        """Send nothing new, and wait for pending answers."""
        self.failing_since: float | None = None
        """The first failure since the sink last accepted an event."""
        self.last_failure: Answer | None = None
        self.reason: Reason | None = None
        """The reason for sending nothing, or None."""
        self.delivered = 0
        """Number of accepted events, which is compared with the limit."""

    # -- from the reading

    @property
    def wants(self) -> bool:
        """Whether more events may be offered."""
        if self.reason is not None or self._backlog.places >= OFFSETS:
            return False
        if self._shut:
            return self._backlog.lines < 2  # a second line shows whether the event or the sink is at fault
        return self._has_room

    @property
    def rests(self) -> bool:
        """Whether nothing is sent for a while, so that no event should be in memory."""
        return self._away or self.reason is not None

    @property
    def _has_room(self) -> bool:
        delivery, backlog = self._rules.delivery, self._backlog
        return backlog.held + len(backlog.asked) < delivery.window and backlog.bytes < self._most

    def allow(self, size: int) -> None:
        """Limit the bytes of events in memory; the subscription's own limit applies, too."""
        self._most = min(size, self._rules.delivery.bytes)
        if self._backlog.bytes > self._most:
            self.forget()

    @property
    def bytes(self) -> int:
        """Approximate size of the events in memory, in bytes."""
        return self._backlog.bytes

    @property
    def oldest(self) -> int | None:
        """The timestamp of the oldest event that was offered and is not done, in milliseconds since 1970."""
        return self._backlog.oldest

    def offer(self, event: CloudEvent, size: int, now: float) -> None:
        """Offer a matching event, in the order of its partition; `size` is its approximate size in bytes."""
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
        """Events that must be read again now; each is returned once and must be answered by `found`."""
        backlog = self._backlog
        if self.reason is not None:
            return []
        backlog.wake(now)
        self._look(now)
        if self._shut:
            return backlog.ask(1) if self._needs_probe(now) else []
        delivery, idle = self._rules.delivery, backlog.held - self._flown - len(self._burying)
        most = delivery.window - backlog.held if backlog.bytes < self._most or not idle else 0
        return backlog.ask(most - len(backlog.asked))

    def _needs_probe(self, now: float) -> bool:
        """Whether a single attempt is due and no event for it is in memory, or being read."""
        if self._backlog.ready or self._backlog.asked or not self._gate.allows(now):
            return False
        if self._away or not self._has_room:
            self.forget()  # those behind a pause or another event make room for the one that is sent
        return True

    def found(self, place: Place, event: CloudEvent | None, size: int) -> None:
        """An event was read again; None if it is no longer in the log, or no longer matches."""
        entry = self._backlog.asked.pop(place, None)
        if entry is None:
            return
        if event is None:
            self._backlog.leave(entry)
            self._backlog.done(entry)
        else:
            if not self.rests or (self.reason is None and not self._backlog.ready):
                self._backlog.keep(entry, event, size)
            self._backlog.turn(entry.line)

    def unread(self) -> None:
        """An event that `missing` returned cannot be read now; `missing` will return it again."""
        self._backlog.unask()

    def undone(self, address: str, partition: int) -> list[int]:
        """The offsets that were offered and are not done, ascending."""
        return self._backlog.undone(address, partition)

    def forget(self) -> None:
        """Discard all events in memory except those with pending answers."""
        self._backlog.forget(entry for entries, _ in self._flying.values() for entry in entries)

    # -- to the sink

    def attempts(self, now: float, limit: int) -> Iterator[SendAttempt]:
        """The attempts to make now, at most `limit`."""
        self._backlog.wake(now)
        while limit > 0 and self._may_send(now) and (entries := self._batch(now)):
            limit -= 1
            yield self._fly(entries, now)

    def _may_send(self, now: float) -> bool:
        limit, since = self._rules.limit, self.failing_since
        if self.reason is None and self._gate.open and since is not None and now - since > self._rules.suspend_after:
            self.stop(Reason.UNREACHABLE)
        if self.reason is not None or self.draining or (limit is not None and self.delivered + self._flown >= limit):
            return False
        return self._gate.allows(now) and self._gate.at(now) <= now

    def _look(self, now: float) -> None:
        """Discard the events in memory while the sink is unreachable; after a short pause they are sent."""
        self._shut = self._gate.open
        self._away = self._gate.closed_for(now) >= _LONG
        if self.rests and self._backlog.held > self._flown + len(self._burying) + 1:
            self.forget()

    def _batch(self, now: float) -> list[EventEntry]:
        """The events of one attempt; empty if there are none, or a batch waits for more."""
        first = next(iter(self._backlog.ready), None)
        batching = self._rules.delivery.batch
        if first is None:
            return []
        if batching is None or first.head.most == 1 or self._shut:
            return [first.head]
        limit = self._rules.limit
        most = batching.events if limit is None else min(batching.events, limit - self.delivered - self._flown)
        entries, full = self._backlog.gather(most, batching.size)
        due = full or not self._has_room or first.head.sent > 0 or first.head.offered + batching.wait <= now
        return entries if due else []

    def _fly(self, entries: list[EventEntry], now: float) -> SendAttempt:
        events = tuple(entry.event for entry in entries if entry.event is not None)
        number, earlier_attempts = next(self._numbers), max(entry.sent for entry in entries)
        for entry in entries:
            self._backlog.ready.pop(entry.line, None)
            if not entry.sent:
                entry.seen = self._taken
            self._counts.repeated += entry.sent > 0
            entry.sent += 1
        self._flown += len(entries)
        self._flying[number] = entries, self._gate.sent(now)
        return SendAttempt(number, events, earlier_attempts, now)

    def next_time(self, now: float, *, attempts: bool = False) -> float | None:
        """When to look again without any other call; None for never. `attempts`: when something may be sent."""
        backlog, batching = self._backlog, self._rules.delivery.batch
        if self.reason is not None:
            return None
        times = [] if backlog.next_time is None else [backlog.next_time]
        if backlog.ready or backlog.hungry:
            times += [self._gate.at(now), self._gate.next_at]
            if self.failing_since is not None and not attempts:
                times.append(self.failing_since + self._rules.suspend_after + 1e-3)
        if backlog.ready and batching is not None:
            times.append(next(iter(backlog.ready)).head.offered + batching.wait)
        return min((time for time in times if time > now), default=None)

    # -- from the sink

    def on_answer(self, attempt: SendAttempt, answer: Answer, now: float) -> None:
        """Handle the answer to an attempt; cancelled attempts are ignored."""
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
        self._look(now)

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
        """The sink refused these; a batch is split and sent again, since the sink may accept a part."""
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
        """A refused event is done: it was copied, or there is no dead-letter topic."""
        entry = self._burying.pop(place, None)
        if entry is not None:
            self._backlog.done(entry)

    def _failed(self, entries: Sequence[EventEntry], passed: Pass, answer: Answer, now: float) -> None:
        """The sink or the event is at fault."""
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
        """Whether the sink has accepted another event since the first attempt, or the last failure, of these."""
        counts = any(entry.seen < self._taken for entry in entries)
        for entry in entries:
            entry.seen = self._taken
        return counts

    def _tried(self, entries: Sequence[EventEntry], answer: Answer, now: float) -> None:
        """The event may be at fault; the events of a batch are sent one by one to find the one that is."""
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
        """Send them again after a pause; the events behind them, and after a long pause their own, leave memory."""
        for line in dict.fromkeys(entry.line for entry in entries):
            pause = self._backoff.after(line.head.failures)
            self._backlog.shrink(line)
            if pause > _LONG:
                self._backlog.drop(line.head)
            self._backlog.pause(line, now + pause)

    def _back(self, entries: Sequence[EventEntry]) -> None:
        """Send them again as soon as sending is possible."""
        for line in dict.fromkeys(entry.line for entry in entries):
            self._backlog.turn(line)

    # -- life

    def stop(self, reason: Reason) -> None:
        """Stop sending; pending answers still count."""
        if self.reason is None:
            self.reason = reason
            self.forget()
            self._owner.stopped(reason)

    def resume(self, now: float) -> None:
        """Continue, with an attempt at once."""
        self.reason = self.failing_since = None
        self._refusals = self._credentials = 0
        self._gate.renew(now)

    @property
    def flying(self) -> int:
        """Number of events with pending answers."""
        return self._flown

    def abandon(self) -> None:
        """Cancel all pending attempts; the outlet must not be used after that."""
        for _, passed in self._flying.values():
            self._gate.abandoned(passed)
        self._flying.clear()
