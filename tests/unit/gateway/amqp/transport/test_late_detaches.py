"""Detaches of sessions that the peer has ended are dropped, and nothing else."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.transport.late_detaches import LateDetaches
from tests.support.amqp.frames import AMQP_HEADER, framed, performative

BEGIN = performative("begin", next_outgoing_id=0, incoming_window=1, outgoing_window=1)
DETACH = performative("detach", handle=0)
END = performative("end")
EMPTY = b"\x00\x00\x00\x08\x02\x00\x00\x00"


def passed(frames: bytes, cuts: list[int]) -> bytes:
    """What is passed on of frames that come in pieces."""
    data, late = AMQP_HEADER + frames, LateDetaches()
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    pieces = [data[start:end] for start, end in pairwise(places)]
    whole = b"".join(late.pass_on(piece) for piece in pieces)
    assert whole.startswith(AMQP_HEADER)
    return whole[len(AMQP_HEADER) :]


@given(st.lists(st.integers(0, 1000), max_size=12))
def test_only_detaches_behind_an_end_are_dropped(cuts: list[int]) -> None:
    transfer = framed(performative("transfer", handle=0) + DETACH + END, 1)
    before = [framed(BEGIN, 1), framed(BEGIN, 2), framed(DETACH, 1), transfer, framed(END, 1)]
    behind = [EMPTY, framed(DETACH, 2), framed(BEGIN, 1), framed(DETACH, 1), framed(END, 1), framed(END, 1)]
    late = framed(DETACH, 1)
    frames = b"".join((*before, late, late, *behind, late))
    assert passed(frames, cuts) == b"".join((*before, *behind))


@given(st.binary(max_size=60), st.lists(st.integers(0, 1000), max_size=8))
def test_what_is_no_frame_is_passed_on(data: bytes, cuts: list[int]) -> None:
    """The engine reports it; only the beginning of a frame may still be waiting."""
    got = passed(data, cuts)
    assert data.startswith(got)
    assert got == passed(data, [])


def test_a_frame_without_a_size_does_not_stop_anything() -> None:
    assert passed(bytes(24) + framed(BEGIN, 1), [3, 9]) == bytes(24) + framed(BEGIN, 1)
