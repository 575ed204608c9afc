"""Decides whether an attempt may be made now: the breakers of a sink and of its place, and the sink's rate. Pure.

A failure without an answer counts for the place (scheme, host and port) and all its users. An answer counts only for
the subscriptions of one owner at one sink, so that one user's wrong password does not stop the deliveries of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.breaker import Breaker, RetryPauses
from bridges.cloudevents.delivery.rates import AttemptRate
from bridges.cloudevents.subscription.model import DeliverySettings


class Pass(NamedTuple):
    """The numbers of an attempt in its two breakers."""

    sink: int
    place: int


class SinkGate:
    """The gate between one subscription and its sink; breakers and rate are shared."""

    def __init__(
        self, sink: Breaker, place: Breaker, rate: AttemptRate | None, backoff: RetryPauses, retry_after: float
    ) -> None:
        """`retry_after` is the longest pause that a sink may ask for, in seconds."""
        self._sink: Final = sink
        self._place: Final = place
        self._rate: Final = rate
        self._backoff: Final = backoff
        self._longest: Final = retry_after

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the breakers may allow more attempts."""
        self._sink.listen(changed)
        self._place.listen(changed)

    def forget(self, changed: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._sink.forget(changed)
        self._place.forget(changed)

    @property
    def open(self) -> bool:
        """Whether a breaker is open, so that only single attempts are allowed."""
        return self._sink.open or self._place.open

    @property
    def next_at(self) -> float:
        """When the next attempt of an open breaker is due; otherwise a time in the past."""
        return max(self._sink.next_at, self._place.next_at)

    def closed_for(self, now: float) -> float:
        """How long the open breakers have been open, or how long their pause still is, in seconds; 0 if none is."""
        since = [each.open_since for each in (self._sink, self._place) if each.open_since is not None]
        return max(now - min(since), self.next_at - now) if since else 0.0

    def allows(self, now: float) -> bool:
        """Whether the breakers allow an attempt now."""
        return self._sink.allows(now) and self._place.allows(now)

    def at(self, now: float) -> float:
        """When the rate allows the next attempt: `now`, or later."""
        return now if self._rate is None else self._rate.at(now)

    def sent(self, now: float) -> Pass:
        """Register an attempt."""
        if self._rate is not None:
            self._rate.take(now)
        return Pass(self._sink.sent(), self._place.sent())

    def succeeded(self, passed: Pass) -> None:
        """The sink answered, and did not report a failure of its own."""
        self._place.succeeded(passed.place)
        self._sink.succeeded(passed.sink)

    def failed(self, passed: Pass, answer: Answer, now: float) -> None:
        """An attempt failed, and not necessarily because of the event."""
        if answer.reached:
            self._place.succeeded(passed.place)
            self._sink.failed(passed.sink, now, self._backoff)
        else:
            self._place.failed(passed.place, now, self._backoff)
            self._sink.abandoned(passed.sink)

    def paused(self, passed: Pass, answer: Answer, now: float) -> None:
        """The sink has asked for a pause."""
        self._place.succeeded(passed.place)
        asked = answer.retry_after
        pause = None if asked is None else min(max(asked, 0.0), self._longest)
        self._sink.paused(passed.sink, now, pause, self._backoff)

    def abandoned(self, passed: Pass) -> None:
        """The attempt was cancelled and will get no answer."""
        self._sink.abandoned(passed.sink)
        self._place.abandoned(passed.place)

    def renew(self, now: float) -> None:
        """Allow an attempt now."""
        self._sink.renew(now)
        self._place.renew(now)


class SinkGates:
    """The breakers and rates of a manager's sinks, each kept while it is used."""

    def __init__(self) -> None:
        self._breakers: Final[WeakValueDictionary[tuple[str, str], Breaker]] = WeakValueDictionary()
        self._rates: Final[WeakValueDictionary[tuple[str, str, float], AttemptRate]] = WeakValueDictionary()

    def gate(self, owner: str, place: str, sink: str, delivery: DeliverySettings, retry_after: float) -> SinkGate:
        """The gate for a subscription of `owner`; `place` is part of `sink`."""
        rate = None if delivery.rate is None else self._rate(owner, sink, delivery.rate)
        backoff = RetryPauses(delivery.retry.min, delivery.retry.max)
        return SinkGate(self._breaker(owner, sink), self._breaker("", place), rate, backoff, retry_after)

    def _breaker(self, owner: str, name: str) -> Breaker:
        found = self._breakers.get((owner, name))
        if found is None:
            found = self._breakers[owner, name] = Breaker()
        return found

    def _rate(self, owner: str, sink: str, rate: float) -> AttemptRate:
        found = self._rates.get((owner, sink, rate))
        if found is None:
            found = self._rates[owner, sink, rate] = AttemptRate(rate)
        return found
