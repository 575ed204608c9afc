"""When nothing is sent to a sink: after failures in a row, and when it asks for a pause."""

from __future__ import annotations

import pytest

from bridges.cloudevents.delivery.pace.circuit_breaker import CircuitBreaker, RetryBackoff

PAUSES = RetryBackoff(1.0, 60.0, lambda: 1.0)


def test_five_failures_in_a_row_open_it_and_one_success_closes_it() -> None:
    breaker = CircuitBreaker()
    for number in range(5):
        assert not breaker.open, number
        breaker.failed(breaker.start_attempt(), 0.0, PAUSES)
    assert breaker.open
    assert not breaker.allows(0.9)
    assert breaker.allows(1.0)
    probe = breaker.start_attempt()
    assert not breaker.allows(5.0), "one attempt at a time"
    breaker.failed(probe, 5.0, PAUSES)
    assert breaker.probe_at == 7.0
    breaker.succeeded(breaker.start_attempt())
    assert not breaker.open


@pytest.mark.row("CE-W-3", part="what was under way")
def test_what_was_under_way_does_not_end_the_pause_that_the_sink_asked_for() -> None:
    breaker = CircuitBreaker()
    first, second, third = (breaker.start_attempt() for _ in range(3))
    breaker.paused(first, 0.0, 30.0, PAUSES)
    breaker.succeeded(second)
    assert not breaker.allows(29.9)
    breaker.failed(third, 1.0, PAUSES)
    assert breaker.probe_at == 30.0
    assert breaker.allows(30.0)
    breaker.succeeded(breaker.start_attempt())
    assert not breaker.open


def test_a_success_that_is_later_than_failures_closes_it_whoever_began_first() -> None:
    breaker = CircuitBreaker()
    slow = breaker.start_attempt()
    for _ in range(5):
        breaker.failed(breaker.start_attempt(), 0.0, PAUSES)
    breaker.succeeded(slow)
    assert not breaker.open
