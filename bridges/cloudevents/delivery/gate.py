"""Decides whether an attempt may be made now: the breakers of a sink and of its origin, and the sink's rate. Pure.

A failure without an answer counts for the origin (scheme, host and port) and all its users. An answer counts only for
the subscriptions of one owner at one sink, so that one user's wrong password does not stop the deliveries of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.pace.circuit_breaker import CircuitBreaker, RetryBackoff
from bridges.cloudevents.delivery.pace.rate_limiter import AttemptRateLimiter
from bridges.cloudevents.model.values import DeliverySettings


class AttemptTicket(NamedTuple):
    """The numbers of an attempt in its two breakers."""

    sink: int
    origin: int


class SinkGate:
    """The gate between one subscription and its sink; breakers and rate are shared."""

    __slots__ = ("_backoff", "_max_pause", "_origin", "_rate", "_sink")

    def __init__(
        self,
        sink: CircuitBreaker,
        origin: CircuitBreaker,
        rate: AttemptRateLimiter | None,
        backoff: RetryBackoff,
        retry_after: float,
    ) -> None:
        """`retry_after` is the longest pause that a sink may ask for, in seconds."""
        self._sink: Final = sink
        self._origin: Final = origin
        self._rate: Final = rate
        self._backoff: Final = backoff
        self._max_pause: Final = retry_after

    def add_listener(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the breakers may allow more attempts."""
        self._sink.add_listener(callback)
        self._origin.add_listener(callback)

    def remove_listener(self, callback: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._sink.remove_listener(callback)
        self._origin.remove_listener(callback)

    @property
    def open(self) -> bool:
        """Whether a breaker is open, so that only single attempts are allowed."""
        return self._sink.open or self._origin.open

    @property
    def probe_at(self) -> float:
        """When the next attempt of an open breaker is due; otherwise a time in the past."""
        return max(self._sink.probe_at, self._origin.probe_at)

    def blocked_for(self, now: float) -> float:
        """How long the open breakers have been open, or how long their pause still is, in seconds; 0 if none is."""
        since = [each.open_since for each in (self._sink, self._origin) if each.open_since is not None]
        return max(now - min(since), self.probe_at - now) if since else 0.0

    def allows(self, now: float) -> bool:
        """Whether the breakers allow an attempt now."""
        return self._sink.allows(now) and self._origin.allows(now)

    def rate_allows_at(self, now: float) -> float:
        """When the rate allows the next attempt: `now`, or later."""
        return now if self._rate is None else self._rate.next_allowed(now)

    def start_attempt(self, now: float) -> AttemptTicket:
        """Register an attempt."""
        if self._rate is not None:
            self._rate.take(now)
        return AttemptTicket(self._sink.start_attempt(), self._origin.start_attempt())

    def succeeded(self, ticket: AttemptTicket) -> None:
        """The sink answered, and did not report a failure of its own."""
        self._origin.succeeded(ticket.origin)
        self._sink.succeeded(ticket.sink)

    def failed(self, ticket: AttemptTicket, answer: Answer, now: float) -> None:
        """An attempt failed, and not necessarily because of the event."""
        if answer.reached:
            self._origin.succeeded(ticket.origin)
            self._sink.failed(ticket.sink, now, self._backoff)
        else:
            self._origin.failed(ticket.origin, now, self._backoff)
            self._sink.cancelled(ticket.sink)

    def paused(self, ticket: AttemptTicket, answer: Answer, now: float) -> None:
        """The sink has asked for a pause."""
        self._origin.succeeded(ticket.origin)
        requested = answer.retry_after
        pause = None if requested is None else min(max(requested, 0.0), self._max_pause)
        self._sink.paused(ticket.sink, now, pause, self._backoff)

    def cancelled(self, ticket: AttemptTicket) -> None:
        """The attempt was cancelled and will get no answer."""
        self._sink.cancelled(ticket.sink)
        self._origin.cancelled(ticket.origin)

    def allow_probe(self, now: float) -> None:
        """Allow an attempt now."""
        self._sink.allow_probe(now)
        self._origin.allow_probe(now)


class SinkGates:
    """The breakers and rates of a manager's sinks, each kept while it is used."""

    def __init__(self) -> None:
        self._breakers: Final[WeakValueDictionary[tuple[str, str], CircuitBreaker]] = WeakValueDictionary()
        self._rates: Final[WeakValueDictionary[tuple[str, str, float], AttemptRateLimiter]] = WeakValueDictionary()

    def gate(self, owner: str, origin: str, sink: str, delivery: DeliverySettings, retry_after: float) -> SinkGate:
        """The gate for a subscription of `owner`; `origin` is part of `sink`."""
        rate = None if delivery.rate is None else self._rate(owner, sink, delivery.rate)
        backoff = RetryBackoff(delivery.retry.min, delivery.retry.max)
        return SinkGate(self._breaker(owner, sink), self._breaker("", origin), rate, backoff, retry_after)

    def _breaker(self, owner: str, name: str) -> CircuitBreaker:
        found = self._breakers.get((owner, name))
        if found is None:
            found = self._breakers[owner, name] = CircuitBreaker()
        return found

    def _rate(self, owner: str, sink: str, rate: float) -> AttemptRateLimiter:
        found = self._rates.get((owner, sink, rate))
        if found is None:
            found = self._rates[owner, sink, rate] = AttemptRateLimiter(rate)
        return found
