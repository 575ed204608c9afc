"""Positions and checkpoints as text: what was written is read, and nothing else is taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.cloudevents.delivery.checkpoint import (
    DeliveryCheckpoint,
    StreamPosition,
    dump_checkpoint,
    load_checkpoint,
    with_progress,
)
from bridges.cloudevents.delivery.positions import Position, dump_positions, load_positions, merged
from bridges.cloudevents.delivery.state import Reason

POSITIONS = {1: Position(988), 0: Position(2000, (5, 17, 18, 19))}


def test_positions_are_short_and_complete() -> None:
    assert dump_positions(POSITIONS) == "0:2000!5,17-19;1:988"
    assert load_positions("0:2000!5,17-19;1:988") == POSITIONS
    assert load_positions("") == {}
    assert (POSITIONS[0].committed, POSITIONS[1].committed) == (5, 988)


def test_a_mark_has_all_that_delivery_goes_on_with() -> None:
    streams = {"events/orders": StreamPosition("topic-id", POSITIONS), "events/none": StreamPosition("None", {})}
    for checkpoint in (
        DeliveryCheckpoint("one", streams),
        DeliveryCheckpoint("two", streams, 17, Reason.GONE, 1_700_000_000_000, 1_600_000_000_000, 5),
    ):
        assert load_checkpoint(dump_checkpoint(checkpoint)) == checkpoint


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"i": "x", "r": 1, "at": {"a": 5}}', '{"i": 1, "at": 3}']
)
def test_what_somebody_else_has_written_is_no_mark(text: str) -> None:
    with pytest.raises(ValueError, match="not the checkpoint of a subscription"):
        load_checkpoint(text)


def done(position: Position) -> set[int]:
    return {*range(position.next)} - {*position.unfinished}


@given(*[st.tuples(st.integers(0, 12), st.sets(st.integers(0, 11)))] * 2)
def test_what_is_done_in_either_of_two_positions_is_done_in_both_together(
    one: tuple[int, set[int]], other: tuple[int, set[int]]
) -> None:
    first, second = (Position(end, tuple(sorted(at for at in open if at < end))) for end, open in (one, other))
    assert done(merged(first, second)) == done(merged(second, first)) == done(first) | done(second)
    assert merged(first, second).unfinished == tuple(sorted(merged(first, second).unfinished))


def test_progress_is_taken_over_for_the_same_log_and_edition_only() -> None:
    def at(identity: str, *positions: Position) -> dict[str, StreamPosition]:
        return {"events/orders": StreamPosition(identity, dict(enumerate(positions)))}

    stored = DeliveryCheckpoint("one", at("log", Position(5, (3,)), Position(9)), 2, delivered=7)
    known = DeliveryCheckpoint("one", at("log", Position(8, (6,)), Position(4), Position(1)), 2, Reason.GONE, 1, 1, 9)
    both = stored._replace(streams=at("log", Position(8, (6,)), Position(9), Position(1)), delivered=9)
    assert with_progress(stored, known) == both
    assert with_progress(stored, None) == stored
    assert with_progress(stored, known._replace(edition=1)) == stored
    assert with_progress(stored, known._replace(incarnation="two")) == stored
    assert with_progress(stored, known._replace(streams=at("another", Position(8)))) == stored._replace(delivered=9)
