"""The pauses between connections to a container."""

from __future__ import annotations

from gateway.connectors.backoff import LASTS, ReconnectPauses


def longest(low: float, high: float) -> float:
    return high


def shortest(low: float, high: float) -> float:
    return low


def test_a_connection_that_is_ended_at_once_is_no_better_than_none() -> None:
    pauses = ReconnectPauses(0.25, 2.0, longest)
    assert [pauses.after(seconds) for seconds in (0.0, 0.1, LASTS - 1, 0.0, 0.0)] == [0.5, 1.0, 2.0, 2.0, 2.0]


def test_after_one_that_lasted_the_pause_is_short_again() -> None:
    pauses = ReconnectPauses(0.25, 2.0, longest)
    assert [pauses.after(seconds) for seconds in (0.0, 0.0, LASTS, 0.0)] == [0.5, 1.0, 0.25, 0.5]


def test_a_pause_is_shortened_by_half_at_most() -> None:
    assert ReconnectPauses(1.0, 8.0, shortest).after(0.0) == 1.0
