"""A client's WebSocket frames are cut where their bytes end for now: a parser has nothing to hold but headers."""

from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from gateway.amqp.transport.fragments import Fragments

LARGEST = 100_000
HEADER = 14
UPGRADE = (
    b"GET /amqp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: " + base64.b64encode(b"k" * 16) + b"\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
EXTENSIONS = ClientProtocol(parse_uri("ws://localhost/amqp")).extensions


def frame(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    """What a client sends."""
    return Frame(opcode, data, fin).serialize(mask=True, extensions=EXTENSIONS)


class Parsed:
    """A server behind `Fragments`."""

    def __init__(self) -> None:
        self.fragments, self.server = Fragments(LARGEST), ServerProtocol(max_size=LARGEST)
        self.messages, self.data, self.most = list[bytes](), b"", 0
        self.others = list[tuple[Opcode, bytes]]()

    def add(self, data: bytes) -> None:
        self.server.receive_data(self.fragments.cut(data))
        for event in self.server.events_received():
            if not isinstance(event, Frame):
                self.server.send_response(self.server.accept(event))  # type: ignore[arg-type]  # a request
            elif event.opcode in (Opcode.BINARY, Opcode.CONT):
                self.data += event.data
                if event.fin:
                    self.messages.append(self.data)
                    self.data = b""
            else:
                self.others.append((event.opcode, bytes(event.data)))
        self.most = max(self.most, len(self.server.reader.buffer))


LENGTHS = st.sampled_from([0, 1, 3, 4, 5, 124, 125, 126, 127, 400, 65_535, 65_536, 70_000])


@given(st.lists(st.tuples(LENGTHS, st.integers(1, 3)), max_size=6), st.lists(st.integers(1, 3000), max_size=40))
def test_any_split_of_any_messages_is_the_same_messages(frames: list[tuple[int, int]], cuts: list[int]) -> None:
    sent, wire = [], UPGRADE
    for number, (length, parts) in enumerate(frames):
        message = random.Random(number).randbytes(length)
        sent.append(message)
        size = length // parts + 1
        pieces = [message[at * size : (at + 1) * size] for at in range(parts)]
        for part, piece in enumerate(pieces):
            wire += frame(Opcode.CONT if part else Opcode.BINARY, piece, part == parts - 1)
            wire += frame(Opcode.PING, b"p" * number)
    parsed = Parsed()
    for cut in cuts:
        parsed.add(wire[:cut])
        wire = wire[cut:]
    parsed.add(wire)
    assert parsed.messages == sent
    assert [data for _, data in parsed.others] == [
        b"p" * number for number, (_, parts) in enumerate(frames) for _ in range(parts)
    ]
    assert parsed.server.parser_exc is None


def test_no_part_of_a_message_waits_for_the_rest() -> None:
    """A connection could hold a MiB that nobody counted, and heartbeats in it."""
    parsed, message = Parsed(), random.Random(1).randbytes(70_000)
    wire = frame(Opcode.BINARY, message)
    parsed.add(UPGRADE)
    for at in range(0, len(wire), 7):
        parsed.add(wire[at : at + 7])
        if at >= 2 * HEADER:
            assert len(parsed.data) + len(b"".join(parsed.messages)) >= at + 7 - HEADER - 7
    assert parsed.messages == [message]
    assert parsed.most < HEADER


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (frame(Opcode.BINARY, bytes(LARGEST + 1))[:20], CloseCode.MESSAGE_TOO_BIG),
        (frame(Opcode.BINARY, bytes(LARGEST), fin=False) + frame(Opcode.CONT, bytes(9)), CloseCode.MESSAGE_TOO_BIG),
        (Frame(Opcode.BINARY, b"x").serialize(mask=False, extensions=EXTENSIONS), CloseCode.PROTOCOL_ERROR),
        (b"\x89\xfe\x10\x00" + bytes(HEADER + 9), CloseCode.PROTOCOL_ERROR),
        (b"\xc2\x81" + bytes(5), CloseCode.PROTOCOL_ERROR),
    ],
    ids=["too large", "too large in parts", "no mask", "large ping", "reserved bit"],
)
def test_what_is_wrong_is_refused_as_before(wire: bytes, code: CloseCode) -> None:
    parsed = Parsed()
    parsed.add(UPGRADE)
    for at in range(len(wire)):
        if parsed.server.state is State.OPEN:
            parsed.add(wire[at : at + 1])
    sent = parsed.server.close_sent
    assert isinstance(sent, Close)
    assert sent.code == code


def test_frames_behind_the_request_are_cut_too() -> None:
    parsed = Parsed()
    parsed.add(UPGRADE[:-2])
    parsed.add(UPGRADE[-2:] + frame(Opcode.BINARY, b"abcdef")[:9])
    assert parsed.data == b"abc"
