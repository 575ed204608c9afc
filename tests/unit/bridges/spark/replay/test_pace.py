"""The rate of a replay holds on average, and a replay that waits can be stopped."""

from __future__ import annotations

from bridges.spark.replay.pace import Pace, SpacedReports


class Clock:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_no_more_is_sent_than_the_rate_permits() -> None:
    clock = Clock()
    pace = Pace(100.0, lambda: clock.now, clock.sleep, lambda: False)
    assert pace.batch == 100
    for sent in (0, 100, 150, 400):
        assert pace.wait(sent)
        assert clock.now == 100.0 + sent / 100


def test_a_replay_without_a_rate_does_not_wait() -> None:
    clock = Clock()
    pace = Pace(None, lambda: clock.now, clock.sleep, lambda: False)
    assert pace.wait(10**9)
    assert clock.now == 100.0


def test_a_rate_below_one_sends_single_events() -> None:
    assert Pace(0.1, lambda: 0.0, lambda _: None, lambda: False).batch == 1


def test_who_waits_long_is_still_stopped() -> None:
    clock = Clock()
    pace = Pace(0.001, lambda: clock.now, clock.sleep, lambda: clock.now > 102)
    assert not pace.wait(1)
    assert clock.now < 103


def test_progress_is_told_once_a_second() -> None:
    clock, told = Clock(), list[int]()
    report = SpacedReports(told.append, lambda: clock.now)
    for sent in range(15):
        report(sent)
        clock.sleep(0.25)
    assert told == [4, 8, 12]
