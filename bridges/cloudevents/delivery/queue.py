"""The delivery queue of one subscription: order, window, retries, and positions (docs/subscriptions.md). Sans-IO.

Events arrive in the order of each partition (`offer`). Events that depend on each other by the subscription's order are
in one group, of which only the first is sent; groups are independent. `window` and `bytes` limit the events in memory.
Behind an event that is sent again, or while the sink is unreachable, only offsets are kept; those events are read again
(`take_refetches`, `refetched`) when they may be sent. Times are seconds of a monotonic clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.backlog import EventBacklog
from bridges.cloudevents.delivery.batching import collect_batch
from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.entry import DeadLetter, EventEntry, EventLocation, ordering_key
from bridges.cloudevents.delivery.gate import AttemptTicket, SinkGate
from bridges.cloudevents.delivery.pace.circuit_breaker import RetryBackoff
from bridges.cloudevents.delivery.queue_settings import REFETCHES_WHILE_FAILING, QueueListener, QueueSettings
from bridges.cloudevents.delivery.sink import SendAttempt
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.events.event import CloudEvent

MAX_OFFSETS: Final = 4096
"""Number of evicted events, of which only the offset is known, at which reading stops."""
_EVICT_AFTER: Final = 1.0
"""Seconds of a pause, or of an outage, during which events are not kept in memory: they are read again."""
_LOW: Final = 0.75
"""The part of its window or bytes above which a queue with ready events asks for no more."""
_MAX_LOGIN_FAILURES: Final = 3
"""Number of refused logins in a row that suspend a subscription."""


class DeliveryQueue:
    """The events of one subscription between its reader and its sink."""

    def __init__(
        self,
        settings: QueueSettings,
        listener: QueueListener,
        gate: SinkGate,
        backoff: RetryBackoff,
        counts: DeliveryCounts,
    ) -> None:
        self._settings: Final = settings
        self._listener: Final = listener
        self._gate: Final = gate
        self._backoff: Final = backoff
        self._counts: Final = counts
        self._backlog: Final = EventBacklog()
        self._attempts: Final[dict[int, tuple[list[EventEntry], AttemptTicket]]] = {}
        self._dead_lettering: Final[dict[EventLocation, EventEntry]] = {}
        self._numbers: Final = itertools.count(1)
        self._in_flight = 0
        self._max_bytes = settings.delivery.bytes
        self._accepted_count = self._refusals = self._login_failures = 0
        self._breaker_open = self._sink_is_down = False
        self.unreadable: frozenset[str] = frozenset()
        """Streams whose events cannot be read again now."""
        self.draining = False
        """Send nothing new, and wait for pending answers."""
        self.failing_since: float | None = None
        """The first failure since the sink last accepted an event."""
        self.last_failure: Answer | None = None
        self.reason: Reason | None = None
        """The reason for sending nothing, or None."""
        self.delivered = 0
        """Number of accepted events, which is compared with the limit."""

    # -- from the reader

    @property
    def accepts_more(self) -> bool:
        """Whether more events may be offered."""
        if self.reason is not None or self._backlog.evicted >= MAX_OFFSETS:
            return False
        if self._breaker_open:
            return self._backlog.groups < 2  # a second group shows whether the event or the sink is at fault
        return self._has_capacity

    @property
    def is_low(self) -> bool:
        """Whether to read more now: many events at a time; otherwise, something is ready to be sent first."""
        if not self.accepts_more or self._breaker_open or not self._backlog.ready:
            return self.accepts_more
        backlog, window = self._backlog, self._settings.delivery.window
        count = backlog.buffered + len(backlog.refetching)
        return count <= _LOW * window and backlog.buffered_bytes <= _LOW * self._max_bytes

    @property
    def is_blocked(self) -> bool:
        """Whether nothing is sent for a while, so that no event should be in memory."""
        return self._sink_is_down or self.reason is not None

    @property
    def _has_capacity(self) -> bool:
        delivery, backlog = self._settings.delivery, self._backlog
        return backlog.buffered + len(backlog.refetching) < delivery.window and backlog.buffered_bytes < self._max_bytes

    def limit_bytes(self, size: int) -> None:
        """Limit the bytes of events in memory; the subscription's own limit applies, too."""
        self._max_bytes = min(size, self._settings.delivery.bytes)
        if self._backlog.buffered_bytes > self._max_bytes:
            self.evict()

    @property
    def buffered_bytes(self) -> int:
        """Approximate size of the events in memory, in bytes."""
        return self._backlog.buffered_bytes

    @property
    def oldest_timestamp(self) -> int | None:
        """The timestamp of the oldest event that was offered and is not finished, in milliseconds since 1970."""
        return self._backlog.oldest_timestamp

    def offer(self, event: CloudEvent, size: int, now: float, *, again: bool = False) -> None:
        """Offer an event of about `size` bytes, in the order of its partition; `again`: it was counted before."""
        location = EventLocation(event.address, event.partition, event.offset)
        group = self._backlog.group(ordering_key(self._settings.delivery.order, event, location))
        entry = EventEntry(location, group, now, event.timestamp)
        if not self.is_blocked and self._has_capacity and not group.is_retrying:
            self._backlog.buffer(entry, event, size)
        self._counts.matched += not again
        self._backlog.add(entry)

    def take_refetches(self, now: float) -> list[EventLocation]:
        """Events that must be read again now; each is returned once and must be answered by `refetched`."""
        backlog = self._backlog
        if self.reason is not None:
            return []
        backlog.end_pauses(now)
        self._evict_if_blocked(now)
        limit = self._refetch_limit(now)
        if limit > 0 and backlog.to_refetch and self._breaker_open and (self._sink_is_down or not self._has_capacity):
            self.evict()  # events behind a pause or another event make room for the one that is sent
        return backlog.take_refetches(limit, self.unreadable)

    def _refetch_limit(self, now: float) -> int:
        """How many events may be read again now; while a breaker is open, one for a single attempt that is due."""
        backlog = self._backlog
        if self._breaker_open:
            return 0 if backlog.ready or backlog.refetching or not self._gate.allows(now) else 1
        delivery, idle = self._settings.delivery, backlog.buffered - self._in_flight - len(self._dead_lettering)
        most = delivery.window - backlog.buffered if backlog.buffered_bytes < self._max_bytes or not idle else 0
        limit = most if self.failing_since is None else min(most, REFETCHES_WHILE_FAILING)
        return limit - len(backlog.refetching)

    def discard_before(self, address: str, partition: int, low: int) -> int:
        """Give up the events before offset `low` that would have to be read again; returns how many there were."""
        return self._backlog.discard_before(address, partition, low)

    def refetched(self, location: EventLocation, event: CloudEvent | None, size: int) -> bool:
        """Take an event that was read again, or None if it is gone or matches no more; returns if it was wanted."""
        entry = self._backlog.refetching.pop(location, None)
        if entry is None:
            return False
        if event is None:
            self._backlog.pop(entry)
            self._backlog.finish(entry)
        else:
            if not self.is_blocked or (self.reason is None and not self._backlog.ready):
                self._backlog.buffer(entry, event, size)
            self._backlog.make_ready(entry.group)
        return True

    def refetch_failed(self, address: str) -> None:
        """The events of a stream that `take_refetches` returned cannot be read now; it will return them again."""
        self._backlog.cancel_refetches(address)

    def unfinished(self, address: str, partition: int) -> list[int]:
        """The offsets that were offered and are not finished, ascending."""
        return self._backlog.unfinished(address, partition)

    def evict(self) -> None:
        """Discard all events in memory except those with pending answers."""
        self._backlog.evict_all(entry for entries, _ in self._attempts.values() for entry in entries)

    # -- to the sink

    def next_attempts(self, now: float, limit: int) -> Iterator[SendAttempt]:
        """The attempts to make now, at most `limit`."""
        self._backlog.end_pauses(now)
        while limit > 0 and self._may_send(now) and (entries := self._next_batch(now)):
            limit -= 1
            yield self._start_attempt(entries, now)

    def _may_send(self, now: float) -> bool:
        limit, since = self._settings.limit, self.failing_since
        if self.reason is None and self._gate.open and since is not None and now - since > self._settings.suspend_after:
            self.stop(Reason.UNREACHABLE)
        at_limit = limit is not None and self.delivered + self._in_flight >= limit
        if self.reason is not None or self.draining or at_limit:
            return False
        return self._gate.allows(now) and self._gate.rate_allows_at(now) <= now

    def _evict_if_blocked(self, now: float) -> None:
        """Discard the events in memory while the sink is unreachable; after a short pause they are sent."""
        self._breaker_open = self._gate.open
        self._sink_is_down = self._breaker_open and self._gate.blocked_for(now) >= _EVICT_AFTER
        if self.is_blocked and self._backlog.buffered > self._in_flight + len(self._dead_lettering) + 1:
            self.evict()

    def _next_batch(self, now: float) -> list[EventEntry]:
        """The events of one attempt; empty if there are none, or a batch waits for more."""
        group = next(iter(self._backlog.ready), None)
        batching = self._settings.delivery.batch
        if group is None:
            return []
        first = group.first
        if batching is None or first.max_batch == 1 or self._breaker_open:
            return [first]
        limit = self._settings.limit
        most = batching.events if limit is None else min(batching.events, limit - self.delivered - self._in_flight)
        entries, full = collect_batch(self._backlog.ready, most, batching.size)
        due = full or not self._has_capacity or first.attempts > 0 or first.offered_at + batching.wait <= now
        return entries if due else []

    def _start_attempt(self, entries: list[EventEntry], now: float) -> SendAttempt:
        events = tuple(entry.event for entry in entries if entry.event is not None)
        number, earlier_attempts = next(self._numbers), max(entry.attempts for entry in entries)
        for entry in entries:
            self._backlog.ready.pop(entry.group, None)
            if not entry.attempts:
                entry.accepted_before = self._accepted_count
            self._counts.repeated += entry.attempts > 0
            entry.attempts += 1
        self._in_flight += len(entries)
        self._attempts[number] = entries, self._gate.start_attempt(now)
        return SendAttempt(number, events, earlier_attempts, now)

    def next_wakeup(self, now: float, *, attempts: bool = False) -> float | None:
        """When to call `next_attempts` again; None for never. `attempts`: consider only attempts, not suspension."""
        backlog, batching = self._backlog, self._settings.delivery.batch
        if self.reason is not None:
            return None
        readable = any(group.first.location.address not in self.unreadable for group in backlog.to_refetch)
        if readable and not attempts and self._refetch_limit(now) > 0:
            return now  # what was offered or evicted since `take_refetches`
        times = [] if backlog.next_pause_end is None else [backlog.next_pause_end]
        if backlog.ready or backlog.to_refetch:
            times += [self._gate.rate_allows_at(now), self._gate.probe_at]
            if self.failing_since is not None and not attempts:
                times.append(self.failing_since + self._settings.suspend_after + 1e-3)
        if backlog.ready and batching is not None:
            times.append(next(iter(backlog.ready)).first.offered_at + batching.wait)
        return min((time for time in times if time > now), default=None)

    # -- from the sink

    def on_answer(self, attempt: SendAttempt, answer: Answer, now: float) -> None:
        """Handle the answer to an attempt; cancelled attempts are ignored."""
        found = self._attempts.pop(attempt.number, None)
        if found is None:
            return
        entries, ticket = found
        self._in_flight -= len(entries)
        if answer.outcome is not DeliveryOutcome.DONE:
            self.last_failure = answer
        match answer.outcome:
            case DeliveryOutcome.DONE:
                self._on_accepted(entries, ticket)
            case DeliveryOutcome.REFUSED | DeliveryOutcome.TOO_LARGE:
                self._gate.succeeded(ticket)
                self._on_refused(entries, answer)
            case DeliveryOutcome.GONE:
                self._gate.succeeded(ticket)
                self._retry_now(entries)
                self.stop(Reason.GONE)
            case _:
                self._on_failed(entries, ticket, answer, now)
        self._evict_if_blocked(now)

    def _on_accepted(self, entries: Sequence[EventEntry], ticket: AttemptTicket) -> None:
        self._gate.succeeded(ticket)
        self._refusals = self._login_failures = 0
        self.failing_since = None
        self._accepted_count += len(entries)
        self.delivered += len(entries)
        self._counts.delivered += len(entries)
        for entry in entries:
            self._backlog.pop(entry)
            self._backlog.finish(entry)
        if self._settings.limit is not None and self.delivered >= self._settings.limit:
            self.stop(Reason.MAX_EVENTS)

    def _on_refused(self, entries: Sequence[EventEntry], answer: Answer) -> None:
        """The sink refused these; a batch is split and sent again, since the sink may accept a part."""
        if len(entries) > 1:
            most = len(entries) // 2 if answer.outcome is DeliveryOutcome.TOO_LARGE else 1
            for entry in entries:
                entry.max_batch = most
            self._retry_now(entries)
            return
        self._refusals += 1
        if self._refusals >= self._settings.refusals:
            self._retry_now(entries)
            self.stop(Reason.REFUSALS)
        else:
            self._dead_letter(entries[0], answer)

    def _dead_letter(self, entry: EventEntry, answer: Answer) -> None:
        assert entry.event is not None
        self._counts.refused += 1
        self._backlog.pop(entry)
        self._dead_lettering[entry.location] = entry
        self._listener.dead_letter(DeadLetter(entry.location, entry.event, answer, entry.attempts))

    def dead_lettered(self, location: EventLocation) -> None:
        """A refused event is finished: it was copied, or there is no dead-letter topic."""
        entry = self._dead_lettering.pop(location, None)
        if entry is not None:
            self._backlog.finish(entry)

    def _on_failed(self, entries: Sequence[EventEntry], ticket: AttemptTicket, answer: Answer, now: float) -> None:
        """The sink or the event is at fault."""
        if self.failing_since is None:
            self.failing_since = now
        if answer.outcome is DeliveryOutcome.WAIT:
            self._gate.paused(ticket, answer, now)
            self._retry_now(entries)
            return
        self._gate.failed(ticket, answer, now)
        for entry in entries:
            entry.failures += 1
            if entry.first_failed is None:
                entry.first_failed = now
        if answer.outcome is DeliveryOutcome.CREDENTIAL:
            self._login_failures += 1
        if answer.outcome is DeliveryOutcome.FAILED and self._sink_accepted_others(entries):
            self._count_failure(entries, answer, now)
        else:
            self._retry_later(entries, now)
        if self._login_failures >= _MAX_LOGIN_FAILURES:
            self.stop(Reason.CREDENTIAL)

    def _sink_accepted_others(self, entries: Sequence[EventEntry]) -> bool:
        """Whether the sink has accepted another event since the first attempt, or the last failure, of these."""
        counts = any(entry.accepted_before < self._accepted_count for entry in entries)
        for entry in entries:
            entry.accepted_before = self._accepted_count
        return counts

    def _count_failure(self, entries: Sequence[EventEntry], answer: Answer, now: float) -> None:
        """The event may be at fault; the events of a batch are sent one by one to find the one that is."""
        retry = self._settings.delivery.retry
        if len(entries) > 1:
            for entry in entries:
                entry.max_batch = 1
            self._retry_later(entries, now)
            return
        (entry,) = entries
        entry.event_failures += 1
        since = now if entry.first_failed is None else entry.first_failed
        if entry.event_failures >= retry.attempts or now - since >= retry.within:
            self._dead_letter(entry, answer)
        else:
            self._retry_later(entries, now)

    def _retry_later(self, entries: Sequence[EventEntry], now: float) -> None:
        """Send them again after a pause; the events behind them, and after a long pause their own, leave memory."""
        for group in dict.fromkeys(entry.group for entry in entries):
            pause = self._backoff.delay(group.first.failures)
            self._backlog.evict_followers(group)
            if pause > _EVICT_AFTER:
                self._backlog.evict(group.first)
            self._backlog.pause(group, now + pause)

    def _retry_now(self, entries: Sequence[EventEntry]) -> None:
        """Send them again as soon as sending is possible."""
        for group in dict.fromkeys(entry.group for entry in entries):
            self._backlog.make_ready(group)

    # -- life

    def stop(self, reason: Reason) -> None:
        """Stop sending; pending answers still count."""
        if self.reason is None:
            self.reason = reason
            self.evict()
            self._listener.on_stopped(reason)

    def resume(self, now: float) -> None:
        """Continue, with an attempt at once."""
        self.reason = self.failing_since = None
        self._refusals = self._login_failures = 0
        self._gate.allow_probe(now)

    @property
    def dead_lettering(self) -> int:
        """Number of events that are being copied as dead letters."""
        return len(self._dead_lettering)

    def cancel_attempts(self) -> None:
        """Cancel all pending attempts; the queue must not be used after that."""
        for _, ticket in self._attempts.values():
            self._gate.cancelled(ticket)
        self._attempts.clear()
