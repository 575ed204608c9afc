"""One request at a time is timed, found again by the id that its response has, and given up after a while."""

from __future__ import annotations

from collections.abc import Callable

from gateway.response.restore import Restored
from gateway.routing.response_times import ResponseTimes
from tests.support.amqp.messages import message


class Clock:
    """Time and timers that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, Timer]] = []

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        self._timers.append((self.now + seconds, timer))
        return timer

    def go(self, seconds: float) -> None:
        """Let time pass; call what is due."""
        self.now += seconds
        due = [timer for at, timer in self._timers if at <= self.now]
        self._timers = [(at, timer) for at, timer in self._timers if at > self.now]
        for timer in due:
            timer.run()


class Timer:
    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self._call = None

    def run(self) -> None:
        if self._call is not None:
            self._call()


def timed(clock: Clock) -> tuple[ResponseTimes, Callable[[bytes], bytes]]:
    times = ResponseTimes(clock.later, lambda: clock.now)
    return times, times.timed("edge", "core", lambda data: data + b"")


def count(times: ResponseTimes) -> list[int]:
    """The observations so far, by bucket."""
    counts = [number for _, number in times.histogram("edge", "core").buckets()]
    return [after - before for before, after in zip([0, *counts], counts, strict=False)]


def answered(times: ResponseTimes, scope: str, data: bytes) -> None:
    response = Restored("edge", "replies", data)
    assert times.answered(scope, response) is response


def test_a_request_is_found_by_its_message_id_or_its_correlation_id() -> None:
    clock = Clock()
    times, crossing = timed(clock)
    crossing(message(b"?", message_id="request-1"))
    clock.go(0.02)
    answered(times, "core", message(b"request-1 in a body only", correlation_id="request-0"))
    answered(times, "other", message(b"!", correlation_id="request-1"))
    assert sum(count(times)) == 0
    answered(times, "core", message(b"!", correlation_id="request-1"))
    answered(times, "core", message(b"!", correlation_id="request-1"))
    assert sum(count(times)) == 1
    assert abs(times.histogram("edge", "core").total - 0.02) < 1e-9
    clock.go(0.06)
    crossing(message(b"?", message_id="request-2", correlation_id="conversation"))
    clock.go(0.3)
    answered(times, "core", message(b"!", correlation_id="conversation"))
    assert sum(count(times)) == 2


def test_one_at_a_time_is_timed_and_given_up_after_a_minute() -> None:
    clock = Clock()
    times, crossing = timed(clock)
    crossing(message(b"?", message_id="request-1"))
    crossing(message(b"?", message_id="request-2"))
    answered(times, "core", message(b"!", correlation_id="request-2"))
    assert sum(count(times)) == 0
    clock.go(61)
    crossing(message(b"?", message_id="request-3"))
    answered(times, "core", message(b"!", correlation_id="request-1"))
    answered(times, "core", message(b"!", correlation_id="request-3"))
    assert sum(count(times)) == 1


def test_a_request_without_an_id_or_with_nonsense_is_not_timed() -> None:
    clock = Clock()
    times, crossing = timed(clock)
    for data in (message(b"?"), b"\x00\x53", message(b"?", message_id=7)):
        crossing(data)
        answered(times, "core", data)
        clock.go(0.06)
    assert sum(count(times)) == 0
