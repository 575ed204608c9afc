"""Properties of what limits responses: never one use too many, never faster than the rate, whatever the order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.response.rate_limit import MOST, Bucket, Buckets
from gateway.state.counters.memory_store import MemoryCounterStore

CLAIMS = [f"c{number}" for number in range(6)]


class Slow:
    """A store whose answers come later, in the order in which they were asked for, and may be lost on the way.

    What was done is done, whether or not it is heard of: who hears nothing gives back, as the gateway does.
    """

    def __init__(self) -> None:
        self.store = MemoryCounterStore(lambda: 0.0)
        self.waiting: list[Callable[[bool], None]] = []

    def acquire(self, claim: str, limit: int, then: Callable[[bool | None], None]) -> None:
        def arrive(lost: bool) -> None:
            answers: list[bool | None] = []
            self.store.acquire("k", claim, limit, 1000, answers.append)
            if lost:
                self.store.release("k", claim)
                then(None)
            else:
                then(answers[0])

        self.waiting.append(arrive)


steps = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "answer", "answer", "lose", "deliver", "return"]), st.sampled_from(CLAIMS)
    ),
    min_size=20,
    max_size=60,
)


@given(st.integers(1, 4), steps)
def test_never_more_responses_than_uses_under_any_interleaving(limit: int, steps: list[Any]) -> None:
    """Several responders at once; a response is out from the verdict on, until it is delivered or returned."""
    slow, out, delivered, asked = Slow(), set[str](), set[str](), set[str]()
    for step, claim in steps:
        if step == "ask" and claim not in asked | out | delivered:
            asked.add(claim)

            def then(taken: bool | None, claim: str = claim) -> None:
                asked.discard(claim)
                if taken:
                    out.add(claim)

            slow.acquire(claim, limit, then)
        elif step in ("answer", "lose") and slow.waiting:
            slow.waiting.pop(0)(step == "lose")
        elif step == "deliver" and claim in out:
            out.discard(claim)
            delivered.add(claim)
        elif step == "return" and claim in out:
            out.discard(claim)
            slow.store.release("k", claim)
        assert len(out) + len(delivered) <= limit
    while slow.waiting:
        slow.waiting.pop(0)(False)
    assert len(out) + len(delivered) <= limit


@given(
    st.floats(0.001, 10), st.integers(1, 50), st.lists(st.floats(0, 5), min_size=1, max_size=100), st.floats(0, 20)
)
def test_no_window_of_time_sees_more_than_the_rate(
    interval: float, burst: int, gaps: list[float], patience: float
) -> None:
    bucket, now, due = Bucket(interval, burst), 0.0, list[float]()
    for gap in gaps:
        now += gap
        wait = bucket.reserve(now, patience)
        if wait is not None:
            assert 0 <= wait <= patience
            due.append(now + wait)
    assert due == sorted(due)
    for at, first in enumerate(due):
        for last in range(at, len(due)):
            assert last - at + 1 <= burst + (due[last] - first) / interval + 1e-6


@given(st.integers(1, 1000), st.sampled_from([1000, 60_000]))
def test_whoever_is_slower_than_the_rate_never_waits(count: int, per_ms: int) -> None:
    bucket = Buckets(count, per_ms).of("user")
    interval = per_ms / count / 1000
    assert [bucket.reserve(number * interval * 1.0001, 0) for number in range(50)] == [0.0] * 50


def test_each_responder_has_a_bucket_and_the_number_of_them_is_bounded() -> None:
    buckets = Buckets(2, 1000)
    assert buckets.burst == 2
    assert Buckets(5, 60_000).burst == 1
    for user in ("ann", "eve"):
        assert [buckets.of(user).reserve(0.0, 0) for _ in range(3)] == [0, 0, None]
    for number in range(MOST):
        buckets.of(f"user {number}")
    assert buckets.of("eve").reserve(0.0, 0) == 0
