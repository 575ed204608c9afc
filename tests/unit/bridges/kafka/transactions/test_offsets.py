"""Positions in transactions: where a link resumes after the commit, and the mark of a record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bridges.kafka.common.ahead import StoredPosition
from bridges.kafka.links.progress import Progress
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.transactions.offsets import DoneEarlier, RetiredEvents, mark, new_group, read_mark
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
    after = progress.after(7, retired)
    assert after is not None
    assert after.offset == position
    for offset in retired:
        progress.done(7, offset)
    assert progress.position(7, 6) == position
    assert progress.after(8, retired) is None


@pytest.mark.parametrize(
    ("done", "retired", "position"),
    [
        ([], [1], StoredPosition(0, (range(1, 2),))),
        ([2], [5], StoredPosition(0, (range(2, 6),))),  # 3 and 4 were not selected
        ([9], [0, 2], StoredPosition(1, (range(2, 3), range(9, 10)))),
        ([], [0, 1, 2, 5], StoredPosition(9)),
        ([1], [0, 2, 5, 9], StoredPosition(10)),
        ([5, 9], [], StoredPosition(0, (range(5, 10),))),
    ],
)
def test_later_events_that_are_done_are_stored_with_the_position(
    done: list[int], retired: list[int], position: StoredPosition
) -> None:
    """So do those that an earlier link had done, which this link leaves out."""
    progress = Progress()
    progress.sent(7, [0, 1, 2, 5, 9])
    for offset in done:
        progress.done(7, offset)
    assert progress.after(7, retired) == position
    progress.begin(7, (range(10, 12), range(20, 30)))
    after = progress.after(7, retired)
    assert after is not None
    assert after.offset == position.offset
    if position.ahead and position.ahead[-1].stop == 10:
        assert after.ahead == (*position.ahead[:-1], range(position.ahead[-1].start, 12), range(20, 30))
    else:
        assert after.ahead == (*position.ahead, range(10, 12), range(20, 30))
    left = progress.left(7, [EncodedEvent(b"", 7, offset) for offset in (9, 10, 11, 12, 19, 29, 30)])
    assert [event.offset for event in left] == [9, 12, 19, 30]
    progress.forget(7)
    assert progress.left(7, [EncodedEvent(b"", 7, 10)])


def test_the_record_names_the_group_until_the_link_has_passed_what_is_done() -> None:
    """Only events that are in the log, and after the beginning of the link, are left out."""
    marks, found = mark("group", "orders", "w"), {0: StoredPosition(3, (range(5, 9),)), 1: StoredPosition(4)}
    done = DoneEarlier(marks, found)
    assert done.marked == ("group", "w")
    done.limit({0: 6, 1: 4}, {0: 8, 1: 9})
    assert (done.of(0), done.of(1)) == ((range(6, 8),), ())
    done.limit({0: 8}, {0: 8})
    assert (done.of(0), done.marked) == ((), ("", ""))
    done = DoneEarlier(marks, found)
    done.forget()
    assert (done.of(0), done.marked) == ((), ("", ""))


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
    assert events.positions() == ({0: StoredPosition(5)} if final else {})
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
