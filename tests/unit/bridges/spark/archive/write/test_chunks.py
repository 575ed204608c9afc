"""Tasks get ranges of about the same number of bytes, and together exactly the ranges of the commit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.write.chunks import MIN_OFFSETS, chunks

SIZES = st.lists(st.integers(1, 50_000), min_size=1, max_size=30)


def ranges(sizes: list[int], address: str = "a") -> list[Range]:
    return [Range(address, number, 7, 7 + size) for number, size in enumerate(sizes)]


@given(sizes=SIZES, tasks=st.integers(1, 9), known=st.none() | st.floats(0.5, 1e7))
def test_each_offset_is_in_one_chunk(sizes: list[int], tasks: int, known: float | None) -> None:
    found = chunks(ranges(sizes), tasks, {} if known is None else {"a": known})
    assert 1 <= len(found) <= tasks
    assert all(len({each.partition for each in chunk}) == len(chunk) for chunk in found)
    joined: dict[int, int] = {}
    for each in (each for chunk in found for each in chunk):
        assert each.start == joined.get(each.partition, 7)
        assert each.end > each.start
        joined[each.partition] = each.end
    assert joined == {number: 7 + size for number, size in enumerate(sizes)}


def test_a_task_a_core_not_a_partition() -> None:
    found = chunks(ranges([389] * 100), 2, {})
    assert [sum(each.end - each.start for each in chunk) for chunk in found] == [19_450, 19_450]


def test_one_large_partition_is_shared() -> None:
    found = chunks(ranges([1_000_000]), 4, {})
    assert [(each.start, each.end) for (each,) in found] == [
        (7 + 250_000 * number, 7 + 250_000 * (number + 1)) for number in range(4)
    ]


def test_bytes_count_where_they_are_known() -> None:
    large, small = Range("large", 0, 0, 100), Range("small", 0, 0, 100_000)
    found = chunks([large, small], 2, {"large": 1e6, "small": 1000.0})
    assert found == [(large,), (small,)]


def test_few_small_records_have_one_task() -> None:
    assert len(chunks(ranges([MIN_OFFSETS // 2] * 3), 8, {"a": 100.0})) == 1
    assert len(chunks(ranges([4]), 8, {"a": 10e6})) == 4  # but not few large ones
