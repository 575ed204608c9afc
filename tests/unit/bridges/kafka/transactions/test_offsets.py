"""Positions in transactions: where a link resumes after the commit, and the mark of a record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bridges.kafka.links.progress import Progress
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.transactions.offsets import RetiredEvents, mark, new_group, read_mark
from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, Modified, Outcome, Rejected


@pytest.mark.parametrize(
    ("done", "retired", "position"),
    [([], [0], 1), ([], [1], 0), ([0], [1, 2], 5), ([2], [0, 1], 5), ([], [0, 1, 2, 5], 6), ([], [], 0)],
)
def test_the_position_is_that_of_the_first_event_that_is_not_done(
    done: list[int], retired: list[int], position: int
) -> None:
    progress = Progress()
    progress.sent(7, [0, 1, 2, 5])
    for offset in done:
        progress.done(7, offset)
    assert progress.after(7, retired) == position
    for offset in retired:
        progress.done(7, offset)
    assert progress.position(7, 6) == position
    assert progress.after(8, retired) is None


@pytest.mark.parametrize(
    ("outcome", "final"),
    [
        (ACCEPTED, True),
        (Rejected(None), True),
        (Modified(undeliverable=True), True),
        (RELEASED, False),
        (FAILED, False),
    ],
)
def test_an_event_that_is_sent_again_is_not_done(outcome: Outcome, final: bool) -> None:
    progress = Progress()
    progress.sent(0, [4, 5])
    events = RetiredEvents(progress)
    retirement: Any = SimpleNamespace(context=EncodedEvent(b"", 0, 4), outcome=outcome, open=True)
    events.add(retirement)
    assert events.positions() == ({0: 5} if final else {})
    assert events.open
    retirement.open = False
    assert not events.open


def test_a_record_names_the_group_of_its_transactions() -> None:
    group = new_group("amqp.a group")
    assert group != new_group("amqp.a group")
    assert read_mark({**mark(group, "orders", "w"), "other": "x"}) == (group, "orders")
    assert read_mark({"other": "x"}) is None
