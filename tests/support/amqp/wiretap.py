"""A forwarder that records its traffic and reads it as AMQP: the frames that each side of a connection saw."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple

from tests.support.amqp.frames import Frame, parse
from tests.support.gateway.forwarder import Forwarder


class CapturedMessage(NamedTuple):
    """One message on the wire: `sent` by the side that connected, to or from the node at `address`."""

    sent: bool
    address: str | None
    data: bytes


class Wiretap(Forwarder):
    """Every connection through it, in both directions."""

    def __init__(self, target: int) -> None:
        self._lock = threading.Lock()
        self._streams: dict[tuple[socket.socket, bool], bytearray] = {}
        super().__init__(target)

    def passed(self, source: socket.socket, data: bytes) -> None:
        """Keep it."""
        key = source, source.getsockname()[1] == self.port
        with self._lock:
            self._streams.setdefault(key, bytearray()).extend(data)

    def seen(self) -> list[CapturedMessage]:
        """Return every message that is complete by now: connection by connection, direction by direction."""
        with self._lock:
            streams = [(sent, bytes(data)) for (_, sent), data in self._streams.items()]
        addresses = dict[tuple[bool, str], str | None]()
        for sent, data in streams:
            addresses |= _addresses(frames_of(data)) if sent else {}
        return [
            CapturedMessage(sent, addresses.get((sent, name)), message)
            for sent, data in streams
            for name, message in _messages(frames_of(data))
        ]


def frames_of(data: bytes) -> Iterator[Frame]:
    """Yield the complete frames of one direction, without headers and heartbeats."""
    at = 0
    while len(data) - at >= 8:
        if data[at : at + 4] == b"AMQP":
            at += 8
            continue
        (size,) = struct.unpack_from(">I", data, at)
        if len(data) - at < size:
            return
        if (frame := parse(data[at : at + size])) is not None:
            yield frame
        at += size


def _addresses(stream: Iterator[Frame]) -> dict[tuple[bool, str], str | None]:
    """Return the nodes of the links that the connecting side attached, by whether it sends and the link's name."""
    found = dict[tuple[bool, str], str | None]()
    for frame in stream:
        if frame.kind == "attach":
            terminus = frame.source if frame.role else frame.target
            found[not frame.role, frame.name] = terminus["address"] if terminus is not None else None
    return found


def _messages(stream: Iterator[Frame]) -> Iterator[tuple[str, bytes]]:
    names, parts = dict[int, str](), dict[int, bytes]()
    for frame in stream:
        if frame.kind == "attach":
            names[frame.handle] = frame.name
        elif frame.kind == "transfer":
            whole = parts.pop(frame.handle, b"") + frame.payload
            if frame.more:
                parts[frame.handle] = whole
            else:
                yield names[frame.handle], whole
