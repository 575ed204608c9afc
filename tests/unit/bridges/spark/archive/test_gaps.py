"""The offsets that no file has, however rows are spread over files."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
