"""How the window of a link is shared among destinations that do not move."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.nodes.fair_share import fair_share


@pytest.mark.parametrize(
    ("sizes", "share"),
    [([], 500), ([500], 500), ([501], 500), ([250] * 4, 125), ([1, 1000], 499), ([1000, 1], 499), ([1] * 1000, 1)],
)
def test_the_largest_give_first(sizes: list[int], share: int) -> None:
    assert fair_share(sizes, 500) == share


@given(st.lists(st.integers(1, 1000), max_size=50))
def test_it_is_the_largest_share_that_fits(sizes: list[int]) -> None:
    share = fair_share(sizes, 500)
    assert sum(min(size, share) for size in sizes) <= 500
    assert share == 500 or sum(min(size, share + 1) for size in sizes) > 500 - len(sizes)
