"""Performatives with all of their fields."""

from __future__ import annotations

import pytest

from gateway.amqp.codec.codec import Described, Symbol, Ulong, decode, encode
from gateway.amqp.transport.full_arity import RESERVE, FrameReserve, complete
from tests.support.amqp import frames
from tests.support.amqp.frames import AMQP_HEADER, PERFORMATIVES, framed, performative

NEEDED = {
    "open": {"container_id": "c" * 240},
    "begin": {"next_outgoing_id": 0, "incoming_window": 1, "outgoing_window": 1},
    "attach": {"name": "l", "handle": 0, "role": True, "source": frames.source("a"), "target": frames.target()},
    "flow": {"incoming_window": 1, "next_outgoing_id": 0, "outgoing_window": 1},
    "transfer": {"handle": 0, "delivery_id": 7},
    "disposition": {"role": True, "first": 1},
    "detach": {"handle": 0},
    "end": {},
    "close": {},
}


def completed(raw: bytes) -> frames.Frame:
    frame = frames.parse(complete(raw))
    assert frame is not None
    return frame


@pytest.mark.row("EH-1")
@pytest.mark.parametrize("kind", NEEDED)
def test_every_field_is_there(kind: str) -> None:
    raw = framed(performative(kind, **NEEDED[kind]) + b"payload" * (kind == "transfer"), 3)
    before, after = frames.parse(raw), completed(raw)
    assert before is not None
    assert len(after.values) == len(PERFORMATIVES[kind][1].split())
    assert (after.fields, after.payload, after.channel) == (before.fields, before.payload, 3)
    assert len(complete(raw)) <= len(raw) + RESERVE


@pytest.mark.row("EH-1")
def test_errors_have_all_fields() -> None:
    error = frames.error("amqp:not-found")
    for frame in (
        framed(performative("detach", handle=0, closed=True, error=error)),
        framed(performative("close", error=error)),
        framed(performative("disposition", role=True, first=0, state=frames.composite("rejected", error=error))),
    ):
        (value, _) = decode(complete(frame), 8)
        (inner,) = [each for each in flattened(value) if each.descriptor == 0x1D]
        assert inner.value == [Symbol("amqp:not-found"), None, None]


def flattened(value: object) -> list[Described]:
    if isinstance(value, Described):
        return [value, *flattened(value.value)]
    return [each for item in value for each in flattened(item)] if isinstance(value, list) else []


def test_a_header_and_several_frames() -> None:
    whole = AMQP_HEADER + framed(performative("open", container_id="c")) + framed(b"") + framed(performative("end"))
    done = complete(whole)
    assert done.startswith(AMQP_HEADER)
    size = int.from_bytes(done[8:12], "big")
    assert done[8 + size : 16 + size] == framed(b"")
    assert len(frames.parse(done[16 + size :]).values) == 1  # type: ignore[union-attr]
    assert complete(b"") == b""


def opened(size: int | None) -> bytes:
    return AMQP_HEADER + framed(performative("open", container_id="c", max_frame_size=size))


@pytest.mark.row("EH-1")
@pytest.mark.parametrize(("size", "shown"), [(65536, 65536 - RESERVE), (512, 512), (540, 512), (None, None)])
def test_the_engine_keeps_room_for_the_fields(size: int | None, shown: int | None) -> None:
    reserve = FrameReserve()
    rest = framed(performative("end"))
    for at in range(1, len(opened(size))):  # wherever the input is cut
        reserve = FrameReserve()
        data = opened(size) + rest
        passed = reserve.pass_on(data[:at]) + reserve.pass_on(data[at:])
        frame = frames.parse(passed[8 : -len(rest)])
        assert frame is not None
        assert frame.max_frame_size == shown
        assert passed.endswith(rest)
    assert reserve.pass_on(b"later") == b"later"


@pytest.mark.parametrize("data", [b"AMQP\0\1\0\0\0\0\0\4", AMQP_HEADER + framed(encode(Described(Ulong(0x10), [])))])
def test_a_broken_open_is_left_to_the_engine(data: bytes) -> None:
    assert FrameReserve().pass_on(data) == data
