"""How often sinks are asked for their consent: 50 times a minute for a user, 10 times at one host."""

from __future__ import annotations

import pytest

from bridges.cloudevents.sinks.consent_rate_limiter import MINUTE, PER_HOST, PER_USER, ConsentRateLimiter


@pytest.mark.row("CE-W-1", part="no flood")
def test_a_host_is_asked_ten_times_a_minute_whoever_wants_it() -> None:
    limits = ConsentRateLimiter()
    assert [limits.take(f"user-{each}", "host", 100.0 + each) for each in range(PER_HOST)] == [None] * PER_HOST
    assert limits.take("another", "host", 111.0) == pytest.approx(49.0)
    assert limits.take("another", "elsewhere", 111.0) is None
    assert limits.take("another", "host", 160.0) is None


def test_a_user_asks_fifty_hosts_a_minute() -> None:
    limits = ConsentRateLimiter()
    assert all(limits.take("user", f"host-{each}", 0.0) is None for each in range(PER_USER))
    assert limits.take("user", "one-more", 1.0) == pytest.approx(MINUTE - 1)
    assert limits.take("other", "one-more", 1.0) is None
    assert limits.take("user", "one-more", MINUTE) is None


def test_what_is_remembered_is_bounded() -> None:
    limits = ConsentRateLimiter()
    for number in range(30_000):
        limits.take(f"user-{number}", f"host-{number}", number * 1.0)
    assert len(limits._requests) <= 10_002
