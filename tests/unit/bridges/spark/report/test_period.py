"""The period of a report, and the one that it is compared with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bridges.spark.report.period import period

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_the_period_before_is_as_long() -> None:
    found = period(NOON, NOON + HOUR, NOON + 9 * HOUR)
    assert (found.before, found.first, found.compared_since) == (NOON - HOUR, NOON - HOUR, NOON)


def test_a_period_without_an_end_lasts_until_now() -> None:
    found = period(NOON, None, NOON + 2 * HOUR)
    assert (found.before, found.until) == (NOON - 2 * HOUR, None)


@pytest.mark.parametrize(
    ("since", "until"),
    [(None, NOON), (None, None), (NOON, NOON), (NOON, NOON - HOUR), (datetime(1900, 1, 1, tzinfo=UTC), datetime.max)],
)
def test_without_a_period_nothing_is_compared(since: datetime | None, until: datetime | None) -> None:
    found = period(since, until and until.replace(tzinfo=UTC), NOON)
    assert not found.compared
    assert (found.first, found.compared_since) == (since, None)
