"""When groups began to read: one answer for all processes, whoever asks first and whatever each sees (KM-9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bridges.kafka.links.group_start import GroupStart, GroupStarts
from gateway.filters.position.event_stream import LogPosition, Start
from gateway.state.termini.store import MemoryTermini, Save

SMALL, GROWN = GroupStart(1, {0: 7}), GroupStart(2, {0: 8, 1: 3})


def reader_of(beginning: GroupStart, meanwhile: asyncio.Event | None = None) -> Callable[[], Awaitable[GroupStart]]:
    """What a process sees of the log; it may take a while."""

    async def now() -> GroupStart:
        if meanwhile is not None:
            await meanwhile.wait()
        return beginning

    return now


async def unasked() -> GroupStart:
    raise AssertionError("the group has begun already")


async def test_a_group_begins_once() -> None:
    termini = MemoryTermini()
    assert await GroupStarts(termini).of("g", "main/orders", "id", reader_of(SMALL)) == SMALL
    assert await GroupStarts(termini).of("g", "main/orders", "id", unasked) == SMALL
    assert await GroupStarts(termini).of("other", "main/orders", "id", reader_of(GROWN)) == GROWN
    assert await GroupStarts(termini).of("g", "main/orders", "made anew", reader_of(GROWN)) == GROWN


async def test_two_processes_that_begin_while_the_log_grows_agree() -> None:
    """One saw the log before it grew; the other asks while that answer is on its way, and is the first to write."""
    termini, slow = MemoryTermini(), asyncio.Event()
    before = asyncio.ensure_future(GroupStarts(termini).of("g", "main/orders", "id", reader_of(SMALL, slow)))
    await asyncio.sleep(0)
    assert await GroupStarts(termini).of("g", "main/orders", "id", reader_of(GROWN)) == GROWN
    slow.set()
    assert await before == GROWN


async def test_attaches_of_one_process_ask_once() -> None:
    beginnings, slow = GroupStarts(MemoryTermini()), asyncio.Event()
    first = asyncio.ensure_future(beginnings.of("g", "main/orders", "id", reader_of(SMALL, slow)))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(beginnings.of("g", "main/orders", "id", unasked))
    slow.set()
    assert await asyncio.gather(first, second) == [SMALL, SMALL]


async def test_records_without_ends_are_read() -> None:
    """As they are written where links own their partitions, and were before links could share."""
    termini = MemoryTermini()
    assert await GroupStarts(termini).of("g", "n", "id", reader_of(GroupStart(3, {}))) == GroupStart(3, {})
    assert await GroupStarts(termini).of("g", "n", "id", unasked) == GroupStart(3, {})
    (key,) = termini._records
    kept = await termini.acquire(key, termini._records[key].about, None)
    assert kept.positions == {0: 3}
    await termini.save([Save(key, kept.token, {1: 5}, None)])
    assert await GroupStarts(termini).of("g", "n", "id", unasked) == GroupStart(3, {0: 5})


@pytest.mark.parametrize(("partition", "start", "end"), [(0, 7, 7), (1, 2, 2)])
def test_a_group_begins_where_its_log_ended_then(partition: int, start: int, end: int) -> None:
    """Not where the link does that gets the partition; nor behind a log that has lost its last events."""
    latest = LogPosition(Start.LATEST)
    now = {0: 9, 1: 2}
    starts, ends = GROWN._replace(ends={0: 7, 1: 3}).since(dict(now), dict(now), latest)
    assert (starts[partition], ends[partition]) == (start, end)


def test_a_position_of_its_own_counts_more_than_the_beginning() -> None:
    assert SMALL.since({0: 4}, {0: 9}, LogPosition(Start.EARLIEST, 4)) == ({0: 4}, {0: 7})
    assert SMALL.since({1: 4}, {1: 4}, LogPosition(Start.LATEST)) == ({1: 4}, {1: 4}), "an end that nobody noted"
