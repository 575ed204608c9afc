"""Events that are done after a position, as the metadata of the offset that Kafka commits (decision 105)."""

from __future__ import annotations

import base64
import random
import zlib

import pytest

from bridges.kafka.common import ahead
from bridges.kafka.common.ahead import Ranges, StoredPosition
from tests.support.plugins.seed import SEED


def drawn(numbers: random.Random, start: int, count: int) -> Ranges:
    """That many ranges after `start` that do not touch each other."""
    found, at = [], start
    for _ in range(count):
        first = at + numbers.choice((1, 2, 100, 1_000_000))
        at = first + numbers.choice((1, 3, 200))
        found.append(range(first, at))
    return tuple(found)


@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_what_is_written_is_read(count: int) -> None:
    numbers = random.Random(SEED)
    for start in (0, 7, 1 << 40):
        position = StoredPosition(start, drawn(numbers, start, count))
        metadata = ahead.written(position)
        assert metadata is not None
        assert len(metadata) <= 4096, "as many characters as a broker takes"
        assert ahead.read(start, metadata) == position


def test_the_window_of_a_link_fits_whatever_is_done_in_it() -> None:
    """Half of 10,000 events, in no order; far more are refused, and not cut."""
    numbers = random.Random(SEED)
    for most, fits in ((10_000, True), (1_000_000, False)):
        done = ahead.ranges(range(each, each + 1) for each in range(1, most) if numbers.random() < 0.5)
        assert (ahead.written(StoredPosition(0, done)) is not None) is fits


@pytest.mark.parametrize("metadata", [None, "", "another tool's", "scopegate-done:?", "scopegate-done:AAAA"])
def test_other_metadata_say_nothing(metadata: str | None) -> None:
    assert ahead.read(5, metadata) == StoredPosition(5)


def test_ranges_are_joined_and_cut() -> None:
    found = ahead.ranges([range(8, 9), range(1, 3), range(3, 5), range(2, 4), range(6, 6)])
    assert found == (range(1, 5), range(8, 9))
    assert ahead.between(found, 2, 8) == (range(2, 5),)
    assert [offset for offset in range(10) if ahead.has(found, offset)] == [1, 2, 3, 4, 8]


def test_numbers_without_an_end_say_nothing() -> None:
    """Others with rights on the group may write them; a number of a megabyte would take minutes to read."""
    endless = b"\x01\x02" + b"\xff" * 1_000_000
    metadata = "scopegate-done:" + base64.b64encode(zlib.compress(endless)).decode()
    assert ahead.read(10, metadata) == StoredPosition(10, (range(11, 13),))
