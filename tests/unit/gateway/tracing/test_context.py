"""Which messages carry a sampled W3C trace context, and where."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Symbol
from gateway.tracing.context import SEARCHED, TraceContext, left_out, parse, read
from tests.support.amqp.messages import message

TEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONTEXT = TraceContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)


@pytest.mark.parametrize(
    "fields",
    [
        {"app": {"traceparent": TEXT}},
        {"ma": {"traceparent": TEXT}},
        {"ma": {"traceparent": Symbol(TEXT)}},
        {"app": {"cloudEvents:traceparent": TEXT}},
        {"app": {"cloudEvents_traceparent": TEXT}},
        {"app": {"other": 1, "traceparent": TEXT}, "ma": {"traceparent": TEXT.replace("33", "44")}},
    ],
)
def test_where_a_context_is(fields: dict[str, Any]) -> None:
    assert read(message(**fields)) == CONTEXT


@pytest.mark.parametrize(
    "data",
    [
        message(),
        message(TEXT.encode()),
        message(b"traceparent", app={"x": TEXT}),
        message(app={"traceparent": TEXT.encode()}),
        message(app={"traceparent": 7}),
        message(app={"traceparent": TEXT})[:60],
        b"traceparent",
        message(b"x" * SEARCHED)[:-1] + b"traceparent",
    ],
)
def test_messages_without_one(data: bytes) -> None:
    assert read(data) is None


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (TEXT, True),
        (TEXT[:-2] + "03", True),
        (TEXT[:-2] + "00", False),
        (TEXT.upper(), False),
        (TEXT + "-more", False),
        ("01" + TEXT[2:] + "-more", True),
        ("ff" + TEXT[2:], False),
        (TEXT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32), False),
        (TEXT.replace("b7ad6b7169203331", "0" * 16), False),
        (TEXT[:-1], False),
        (TEXT + "\n", False),
        (None, False),
    ],
)
def test_forms_of_a_traceparent(text: object, sampled: bool) -> None:
    assert parse(text) == (CONTEXT if sampled else None)


@pytest.mark.parametrize("fields", [{"app": {"traceparent": TEXT}}, {"ma": {"traceparent": Symbol(TEXT)}}])
def test_a_quick_look_leaves_out_what_is_not_chosen_and_nothing_else(fields: dict[str, Any]) -> None:
    low = CONTEXT.trace % 2**64
    assert not left_out(message(**fields), low + 1)
    assert left_out(message(**fields), low)
    where = next(iter(fields))
    assert left_out(message(**{where: {"traceparent": TEXT[:-2] + "00"}}), 2**64)


def test_a_quick_look_does_not_judge_what_it_does_not_know() -> None:
    for data in (message(), message(TEXT.encode()), message(b"traceparent", app={"traceparent": TEXT})):
        assert not left_out(data, 0)
    both = message(ma={"traceparent": TEXT[:-2] + "00"}, app={"traceparent": TEXT})
    assert not left_out(both, 2**64)
    assert read(both) == CONTEXT
