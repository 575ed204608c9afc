"""Spans of messages in transactions: each ends once, with the outcome of the message or of its transaction."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.errors import INTERNAL_ERROR, AmqpError
from gateway.tracing.links import LinkSpans
from gateway.tracing.spans import Place, Tracer
from tests.support.amqp.messages import message

TRACED = message(b"m", app={"traceparent": f"00-{7:032x}-b7ad6b7169203331-01"})


class _Post:
    """A posted message that notes what it is told."""

    tag = b"tag"

    def __init__(self, *, settled: bool = False) -> None:
        self.settled = settled
        self.told: list[str] = []
        self.watchers: list[Callable[[bool], None]] = []
        self.transaction = SimpleNamespace(at_end=self.watchers.append)

    def hold(self, size: int) -> None:
        self.told.append(f"hold {size}")

    def accept(self) -> None:
        self.told.append("accept")

    def release(self) -> None:
        self.told.append("release")

    def refuse(self, error: AmqpError) -> None:
        self.told.append(error.condition)


def raises(post: Any) -> None:
    raise AmqpError(INTERNAL_ERROR, "no")


CASES: list[tuple[Callable[[Any], None], bool, str, str | None]] = [
    (lambda post: post.accept(), True, "accepted", None),
    (lambda post: post.accept(), False, "rolled-back", None),
    (lambda post: post.release(), False, "released", None),
    (lambda post: post.refuse(AmqpError(INTERNAL_ERROR, "no")), False, "rejected", INTERNAL_ERROR),
    (raises, False, "rejected", INTERNAL_ERROR),
]


@pytest.mark.parametrize(("step", "committed", "outcome", "condition"), CASES)
def test_a_span_ends_once(
    step: Callable[[Any], None], committed: bool, outcome: str, condition: str | None
) -> None:
    tracer, post = Tracer(1, 10, lambda: 5), _Post()
    spans = LinkSpans(tracer, Place("produce", "edge", "events/orders", None))
    try:
        spans.post(post, TRACED, lambda given, _: step(given))  # type: ignore[arg-type]
    except AmqpError:
        assert (step, post.told) == (raises, [])
    for watcher in post.watchers:
        watcher(committed)
    (span,) = tracer.take(10)
    assert (span.outcome, span.condition, tracer.open) == (outcome, condition, 0)


def test_a_settled_message_has_no_outcome_but_may_be_rolled_back() -> None:
    tracer = Tracer(1, 10, lambda: 5)
    spans = LinkSpans(tracer, Place("produce", "edge", "events/orders", None))
    for committed in (True, False):
        post = _Post(settled=True)
        spans.post(post, TRACED, lambda given, _: given.hold(3))
        assert (post.told, tracer.open) == (["hold 3"], 1)
        post.watchers[0](committed)
    assert [span.outcome for span in tracer.take(10)] == ["settled", "rolled-back"]


def test_what_has_no_context_is_passed_on_as_it_is() -> None:
    tracer, post, given = Tracer(1, 10, lambda: 5), _Post(), list[object]()
    spans = LinkSpans(tracer, Place("produce", "edge", "events/orders", None))
    spans.post(post, message(b"m"), lambda own, _: given.append(own))  # type: ignore[arg-type]
    assert (given, post.watchers, tracer.open) == ([post], [], 0)
