"""What a replay to an AMQP address notes of each event, and who may note it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from bridges.spark.errors import PipelineError
from bridges.spark.replay.accepted import AcceptedEvents
from gateway.amqp.link.outcomes import ACCEPTED, RELEASED

WHAT = "orders to q"


def rows(*places: tuple[int, int]) -> pa.RecordBatch:
    partitions, offsets = zip(*places, strict=True)
    return pa.RecordBatch.from_pydict({"partition": list(partitions), "offset": list(offsets)})


def test_what_is_accepted_out_of_turn_is_left_out_until_the_rest_is_there(tmp_path: Path) -> None:
    path = tmp_path / "_replays" / "n.json"
    events = AcceptedEvents(path, WHAT)
    sent = rows((0, 1), (1, 7), (0, 2), (1, 8), (0, 5), (1, 9))
    events.count(sent, [ACCEPTED, RELEASED, None, ACCEPTED, ACCEPTED, None])
    for found in (events, AcceptedEvents(path, WHAT)):
        assert found.next_offsets == {0: 2}
        assert found.left(sent) == rows((0, 1), (1, 7), (0, 2), (1, 9))
    later = AcceptedEvents(path, WHAT)
    later.count(rows((1, 7), (0, 2), (1, 9)), [ACCEPTED] * 3)
    assert later.next_offsets == {0: 3, 1: 10}
    assert json.loads(path.read_text())["later"] == {"0": [5]}
    later.count(rows((0, 6)), [ACCEPTED])
    assert json.loads(path.read_text())["later"] == {}


def test_a_later_run_takes_over(tmp_path: Path) -> None:
    """A job of every hour that takes longer than an hour sends no more than the chunk under way twice."""
    first = AcceptedEvents(tmp_path / "n.json", WHAT)
    first.count(rows((0, 1)), [ACCEPTED])
    second = AcceptedEvents(tmp_path / "n.json", WHAT)
    with pytest.raises(PipelineError, match=r"^another run of the replay n has taken over$"):
        first.count(rows((0, 2)), [ACCEPTED])
    second.count(rows((0, 2)), [ACCEPTED])
    assert AcceptedEvents(tmp_path / "n.json", WHAT).next_offsets == {0: 3}


def test_the_progress_of_older_versions_goes_on_and_that_of_another_replay_does_not(tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    path.write_text('{"0": 12}')
    assert AcceptedEvents(path, WHAT).next_offsets == {0: 12}
    with pytest.raises(PipelineError, match=r"n.json is of another replay \(orders to q\), not of payments to q: "):
        AcceptedEvents(path, "payments to q")


@pytest.mark.parametrize("text", ["[", "[]", '{"a": 1}', '{"next": {}}', '{"next": [], "later": {}}'])
def test_what_is_no_progress_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / "n.json").write_text(text)
    with pytest.raises(PipelineError, match=r"does not contain the progress of a replay: remove it to start again$"):
        AcceptedEvents(tmp_path / "n.json", WHAT)
