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
    terminus: Any = SimpleNamespace(progress=progress, part_of=lambda partition: progress)
    events = RetiredEvents(terminus)
    retirement: Any = SimpleNamespace(context=EncodedEvent(b"", 0, 4), outcome=outcome, open=True)
    events.add(retirement)
    assert events.positions() == ({0: 5} if final else {})
    assert events.open
    retirement.open = False
    assert not events.open


@pytest.mark.parametrize("now", [None, "another"])
@pytest.mark.parametrize("outcome", [ACCEPTED, RELEASED])
def test_an_event_of_a_partition_that_was_lost_is_not_done(outcome: Outcome, now: str | None) -> None:
    """Whoever has the partition now gets the event, also if that is the same link again; a released one in any case."""
    records: dict[int, str | None] = {0: "first", 1: "first"}
    terminus: Any = SimpleNamespace(progress=Progress(), part_of=records.get)
    events = RetiredEvents(terminus)
    retirement: Any = SimpleNamespace(context=EncodedEvent(b"", 0, 4), outcome=outcome, open=True)
    events.add(retirement)
    records[1] = now
    assert events.open
    records[0] = now
    assert events.open is (outcome is RELEASED)
    events = RetiredEvents(terminus)
    events.add(retirement)
    assert events.open is (outcome is RELEASED or now is not None)


def test_a_record_names_the_group_of_its_transactions() -> None:
    group = new_group("amqp.a group")
    assert group != new_group("amqp.a group")
    assert read_mark({**mark(group, "orders", "w"), "other": "x"}) == (group, "orders")
    assert read_mark({"other": "x"}) is None
