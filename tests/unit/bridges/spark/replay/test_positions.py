"""Positions of groups in a replayed topic, and what the archive keeps of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bridges.spark.archive.read import ArchiveSelection
from bridges.spark.archive.topic_state import TOPICS, read_state
from bridges.spark.columns.rows import EventRow
from bridges.spark.errors import PipelineError
from bridges.spark.jobs.replay import replay_to_topic
from bridges.spark.replay.positions import OffsetMap, moved_groups
from tests.support.amqp.messages import message
from tests.support.spark import archives

MAP = OffsetMap(np.array([10, 11, 14, 20, 21]), np.array([3, 4, 5, 7, 9]), 3)


@pytest.mark.parametrize(
    ("old", "new"), [(0, 3), (10, 3), (11, 4), (12, 5), (14, 5), (15, 7), (21, 9), (22, 10), (9999, 10)]
)
def test_a_group_continues_at_the_first_event_that_it_had_not_read(old: int, new: int) -> None:
    assert MAP.moved(old) == new


def test_runs_break_where_either_side_has_a_gap() -> None:
    assert list(MAP.runs()) == [(10, 3, 2), (14, 5, 1), (20, 7, 1), (21, 9, 1)]


def test_partitions_without_events_have_no_positions() -> None:
    none = np.empty(0, np.int64)
    assert OffsetMap(none, none, 8).moved(5) == 8
    assert list(OffsetMap(none, none, 8).runs()) == []
    assert moved_groups({0: MAP}, {"g": {0: 11, 1: 4}}) == {"g": {0: 4}}


def test_a_map_that_cannot_be_written_is_reported_before_anything_is_sent(tmp_path: Path) -> None:
    """It was reported when the whole replay was over; here, no Kafka is asked."""
    archive = archives.written(tmp_path / "archive", {"a": [EventRow(0, 0, 0, None, message(b""))]})
    with pytest.raises(PipelineError, match=r"none/map cannot be written: .*none is not a folder"):
        replay_to_topic(archive.path, ArchiveSelection(("a",)), {}, "t", offset_map=tmp_path / "none/map")


def test_an_archive_without_groups_and_a_damaged_file_are_reported(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="archive with --topic-settings or --groups"):
        read_state(tmp_path, "a/b")
    (tmp_path / TOPICS).mkdir()
    (tmp_path / TOPICS / "a%2Fb.json").write_text("[]")
    with pytest.raises(PipelineError, match=r"a%2Fb\.json does not contain the settings and groups of a topic"):
        read_state(tmp_path, "a/b")
