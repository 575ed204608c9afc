"""Results of the naive evaluator for messages that are rows of a batch, and the rows that columns can evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridges.spark.columns.filters import check
from bridges.spark.columns.rows import EventRow, record_batch
from gateway.errors import AmqpError
from gateway.filters.predicate import Predicate
from tests.support.filters import naive_filter as naive

UNANSWERABLE = "not shown"


def batch_of(messages: Sequence[bytes]) -> Any:
    """A record batch of these messages, one a row."""
    return record_batch(EventRow(0, offset, offset, None, message) for offset, message in enumerate(messages))


def answerable(predicate: Predicate) -> bool:
    """Whether columns take this predicate at all."""
    try:
        check.check(predicate)
    except AmqpError:
        return False
    return True


def expected(predicate: Predicate, messages: Sequence[bytes], batch: Any) -> list[Any]:
    """The naive evaluator's three values, `UNANSWERABLE` for rows that do not show what the predicate asks for."""
    needed = set(check.check(predicate).entries)
    marks = batch.column("not_shown").to_pylist()
    return [
        UNANSWERABLE if needed & set(mark or ()) else naive.evaluate(predicate, naive.message_fields(message))
        for message, mark in zip(messages, marks, strict=True)
    ]
