"""Input of any size: what the engine handles together is what it would handle frame by frame."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.link import Link
from gateway.amqp.proton.batch import CONTROL, SCAN_STATE, scan
from gateway.errors import AmqpError
from tests.support.amqp.frames import AMQP_HEADER, framed, performative, receive_all, target
from tests.support.amqp.messages import message
from tests.unit.gateway.amqp.engine.test_engine import Owner

Event = tuple[Any, ...]
HEARTBEAT = b"\x00\x00\x00\x08\x02\x00\x00\x00"
SIZES = 0, 1, 100, 1000, 9000, 20_000


class Node(Incoming):
    """Notes what comes on its link."""

    def __init__(self, name: str, found: list[Event]) -> None:
        self._name, self._found = name, found

    def on_transfer(self, delivery: int, data: bytes, settled: bool) -> None:
        self._found.append((self._name, data, settled))

    def on_detach(self, error: AmqpError | None) -> None:
        self._found.append((self._name, "detached"))


class Takes(Owner):
    """Accepts every link, and notes what happens."""

    def __init__(self) -> None:
        self.found: list[Event] = []
        super().__init__()

    def link_requested(self, link: Link) -> None:
        self.found.append((link.name, "attached"))
        link.accept(Node(link.name, self.found))
        link.grant(200)


def _attach(handle: int) -> bytes:
    fields = {"name": f"link {handle}", "handle": handle, "role": False, "target": target("q")}
    return framed(performative("attach", **fields, initial_delivery_count=0))


def _transfer(number: int, handle: int, size: int, settled: bool, cut: str) -> list[bytes]:
    fields = {"handle": handle, "delivery_id": number, "delivery_tag": b"%d" % number, "settled": settled}
    data = message(b"%d" % number + bytes(size))
    if cut == "whole":
        return [framed(performative("transfer", **fields) + data)]
    first = framed(performative("transfer", **fields, more=True) + data[:size])
    rest = {"handle": handle, "aborted": True} if cut == "aborted" else {"handle": handle}
    return [first, framed(performative("transfer", **rest) + data[size:])]


said = st.one_of(
    st.tuples(
        st.just("transfer"), st.sampled_from([0, 0, 1]), st.sampled_from(SIZES), st.booleans(),
        st.sampled_from(["whole", "whole", "parts", "aborted"]),
    ),
    st.tuples(st.sampled_from(["heartbeat", "flow", "disposition", "attach", "detach", "unknown handle"])),
)  # fmt: skip


def _frames(peer: list[Event]) -> list[bytes]:
    """What the peer says: link 0 is always there, link 1 comes and goes, and nothing is sent on it when it is not."""
    found, number, there = [_attach(0)], 0, False
    for what, *more in peer:
        if what == "transfer" and (there or more[0] == 0):
            found += _transfer(number, *more)
            number += 1
        elif what == "heartbeat":
            found.append(HEARTBEAT)
        elif what == "flow":
            found.append(framed(performative("flow", incoming_window=9, next_outgoing_id=number, outgoing_window=9)))
        elif what == "disposition":
            found.append(framed(performative("disposition", role=False, first=0, settled=True)))
        elif what == "attach" and not there:
            there = True
            found.append(_attach(1))
        elif what == "detach" and there:
            there = False
            found.append(framed(performative("detach", handle=1, closed=True)))
        elif what == "unknown handle" and number > 20:
            found += _transfer(number, 7, 1, False, "whole")
    return found


def _results(pieces: list[bytes]) -> tuple[list[Event], str | None, list[str]]:
    """What happened, how the connection ended, and the frames of the gateway that are not about single messages."""
    owner, frames = Takes(), []
    begin = performative("begin", next_outgoing_id=0, incoming_window=1000, outgoing_window=1000)
    owner.say(AMQP_HEADER + framed(performative("open", container_id="p")) + framed(begin))
    for piece in pieces:
        receive_all(owner.engine, piece)
        frames += [each.kind for each in owner.frames() if each.kind not in ("flow", "disposition")]
    error = owner.error
    owner.engine.lost(None)
    owner.engine.free()
    return owner.found, error and error.condition, frames


@given(peer=st.lists(said, max_size=60), cuts=st.lists(st.integers(0, 200_000), max_size=6))
def test_input_of_any_size_is_handled_as_frame_by_frame(peer: list[Event], cuts: list[int]) -> None:
    frames = _frames(peer)
    wanted = _results(frames)
    assert _results([b"".join(frames)]) == wanted
    assert _results(_cut(b"".join(frames), cuts)) == wanted


def _cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places) if end > start]


@given(peer=st.lists(said, max_size=20), cuts=st.lists(st.integers(0, 200_000), max_size=12))
def test_input_that_ends_a_control_frame_is_known(peer: list[Event], cuts: list[int]) -> None:
    frames = [AMQP_HEADER, *_frames(peer)]
    controls, at = list[tuple[int, int]](), 0
    for frame in frames:
        usual = frame == HEARTBEAT or frame[10] in (0x13, 0x14, 0x15) if frame != AMQP_HEADER else False
        controls += [] if usual else [(at, at + len(frame))]
        at += len(frame)
    state, at = bytearray(SCAN_STATE), 0
    for piece in _cut(b"".join(frames), cuts):
        scan(state, piece, 0, len(piece))
        end = at + len(piece)
        if any(at < last <= end for _, last in controls):
            assert state[CONTROL] == 1
        if not any(first < end and at < last for first, last in controls):
            assert state[CONTROL] == 0
        at = end
