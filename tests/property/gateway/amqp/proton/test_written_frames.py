"""Frames that proton has written, in pieces: what is found does not depend on where they are cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.proton import batch
from gateway.amqp.sasl.frames import AMQP_HEADER

SIZES = st.lists(st.integers(8, 40), max_size=6)


def frames(sizes: list[int]) -> bytes:
    return b"".join(size.to_bytes(4, "big") + bytes((2, 0, 0, 0)) + b"A" * (size - 8) for size in sizes)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


@given(st.booleans(), SIZES, st.lists(st.integers(0, 250)), st.integers(0, 40))
def test_the_largest_frame_is_found_in_any_pieces(
    header: bool, sizes: list[int], places: list[int], missing: int
) -> None:
    whole = frames(sizes)
    left = len(whole) - missing
    complete = [size for number, size in enumerate(sizes) if sum(sizes[: number + 1]) <= left]
    data = (AMQP_HEADER if header else b"") + whole[: max(left, 0)]
    assert batch.largest_frame(cut(data, places)) == max(complete, default=0)


@given(SIZES, st.integers(0, 7), SIZES, st.lists(st.integers(0, 250)))
def test_nothing_is_read_behind_what_is_no_frame(
    sizes: list[int], wrong: int, more: list[int], places: list[int]
) -> None:
    data = frames(sizes) + wrong.to_bytes(4, "big") + bytes(4) + frames(more)
    assert batch.largest_frame(cut(data, places)) == max(sizes, default=0)
