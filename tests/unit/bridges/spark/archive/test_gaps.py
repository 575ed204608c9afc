"""The offsets that no file has, and a sample of the rows, however rows are spread over files."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bridges.spark.archive.row_samples import file_spans
from bridges.spark.archive.topic_audit import gaps

OFFSETS = st.sets(st.integers(0, 60))


@given(st.lists(OFFSETS, max_size=4), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4))
def test_gaps_are_what_no_run_has(files: list[set[int]], widths: list[tuple[int, int]]) -> None:
    spans, at = [], 0
    for before, width in widths:
        spans.append((at + before, at + before + width))
        at += before + width
    runs = [np.array([sorted(each), [offset + 1 for offset in sorted(each)]]) for each in files if each]
    held = {offset for each in files for offset in each}
    found = gaps(spans, runs)
    missing = [offset for start, end in found for offset in range(start, end)]
    assert missing == [offset for start, end in spans for offset in range(start, end) if offset not in held]
    assert all(start < end for start, end in found)


@given(
    st.dictionaries(st.integers(0, 400), st.integers(0, 4), max_size=120), st.integers(0, 99), st.integers(0, 70)
)  # fmt: skip
def test_a_sample_has_as_many_rows_as_it_should_and_both_ends(
    rows: dict[int, int], low: int, sample: int
) -> None:
    """Offsets without a row, and short files, counted as if they had been compared."""
    files = [sorted(offset for offset, file in rows.items() if file == number) for number in range(5)]
    files = [each for each in files if each]
    runs = [np.array([each, [offset + 1 for offset in each]]) for each in files]
    spans = file_spans(runs, low, sample)
    chosen = [offset for number, start, end in spans for offset in files[number] if start <= offset < end]
    left = [offset for each in sorted(files, key=lambda own: max(own[0], low)) for offset in each if offset >= low]
    assert len(set(chosen)) == len(chosen) == min(sample, len(left))
    assert set(chosen) <= set(left)
    if len(chosen) > 1:
        assert {left[0], left[-1]} <= set(chosen)
