"""Positions and checkpoints as text: what was written is read, and nothing else is taken for it."""

from __future__ import annotations

import pytest

from bridges.cloudevents.delivery.checkpoint import DeliveryCheckpoint, StreamPosition, dump_checkpoint, load_checkpoint
from bridges.cloudevents.delivery.positions import Position, dump_positions, load_positions
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
