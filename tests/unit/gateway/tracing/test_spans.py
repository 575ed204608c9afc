"""Spans are bounded, chosen by their trace, and none is lost without being counted."""

from __future__ import annotations

import pytest

from gateway.amqp.link.outcomes import ACCEPTED, Rejected
from gateway.errors import AmqpError
from gateway.tracing import library
from gateway.tracing.links import LinkSpans
from gateway.tracing.spans import Place, Tracer
from tests.support.amqp.messages import message

PLACE = Place("request", "edge", "svc/a", "svc/*")


def data(trace: int) -> bytes:
    """A message with a context."""
    return message(app={"traceparent": f"00-{trace:032x}-b7ad6b7169203331-01"})


def spans(sample: float = 1.0, buffer: int = 10) -> tuple[Tracer, LinkSpans]:
    """The spans of a link, by a clock that stands still."""
    tracer = Tracer(sample, buffer, lambda: 5)
    return tracer, LinkSpans(tracer, PLACE)


def test_every_gateway_chooses_the_same_part_of_the_traces() -> None:
    low, high = 1, (1 << 64) - 1
    for sample, chosen in ((0.0, []), (0.5, [low]), (1.0, [low, high])):
        tracer, _ = spans(sample)
        assert [trace for trace in (low, high) if tracer.begin(data(trace), 0)] == chosen


def test_open_and_ended_spans_are_bounded_and_the_rest_is_counted() -> None:
    tracer, link = spans(buffer=2)
    link.transfers([(number, data(number + 1), False) for number in range(3)])
    assert (tracer.open, tracer.overflowed) == (2, 1)
    link.accepted([0, 1, 2])
    assert (tracer.open, len(tracer.ended)) == (0, 2)
    link.transfers([(7, data(7), False), (8, data(8), True)])
    link.close(AmqpError("amqp:link:detach-forced", ""))
    assert (tracer.open, len(tracer.ended), tracer.overflowed) == (0, 2, 3)
    assert [span.outcome for span in tracer.take(9)] == ["accepted", "accepted"]


def test_a_span_ends_once_with_the_outcome_of_its_message() -> None:
    tracer, link = spans()
    link.transfers([("a", data(1), False), ("b", message(), False), ("c", data(3), False)])
    link.outcome("a", Rejected(AmqpError("shop:sold-out", "")))
    link.transfers([("d", data(4), False)])
    link.outcome("d", Rejected(AmqpError("$temp/secret" + 2000 * "x", "")))
    assert tracer.ended.pop().condition == "$temp/…"
    for key in ("a", "b", "x"):
        link.outcome(key, ACCEPTED)
    link.close(None)
    link.close(None)
    assert [(span.open.context.trace, span.outcome, span.condition) for span in tracer.ended] == [
        (1, "rejected", "shop:sold-out"), (3, "none", None),
    ]  # fmt: skip


def test_a_missing_library_is_a_mistake_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library.missing() is None

    def nothing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(library, "find_spec", nothing)
    assert "pip install 'scopegate[otel]'" in str(library.missing())
