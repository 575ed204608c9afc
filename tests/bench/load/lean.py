"""Consumers that cost next to nothing: they count transfers, accept in ranges and grant credit (2.6.7, 2.6.12).

Their peer, bare `consume(500)`, does no more. With proton on this side, too, the two of them shared a
machine of two cores with the broker, and the gateway had less than one. The handshake is the scripted peer's; then
frames are counted and the delivery ids checked, so that nothing may be lost or come twice. One consumer and many are
read by the same loop, so that what differs between them is the gateway's.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import struct
from collections.abc import Sequence
from typing import Any, Final

from gateway.amqp.codec.types import Described, Symbol, Uint
from tests.support.amqp import frames
from tests.support.amqp.peer import Peer

_SIZE: Final = struct.Struct(">I")
_TRANSFER: Final = b"\x00\x53\x14"
_PIECE: Final = 1 << 18
_WINDOW: Final = 2**31 - 1
_PATIENCE: Final = 20.0


class Lean:
    """A link that reads an event log from its beginning, once it is let `go`."""

    def __init__(
        self,
        where: tuple[str, int],
        address: str,
        credit: int,
        *,
        sql: str = "",
        settled: bool = False,
        group: str = "",
        durable: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`durable`: the name of a link whose source outlives it."""
        self._peer: Final = Peer(connection=socket.create_connection(tuple(where)), seconds=_PATIENCE, tls=tls)
        self._socket: Final = self._peer._socket
        self._credit: Final = credit
        self._settled: Final = settled
        self.received = 0
        self._told = 0
        """Up to where deliveries have been accepted."""
        self._granted = 0
        self._rest = b""
        self._peer.sasl_anonymous().send_raw(b"AMQP\x00\x01\x00\x00").expect_header()
        self._peer.open(max_frame_size=65536).expect("open")
        self._peer.begin(incoming_window=_WINDOW).expect("begin")
        more: dict[str, Any] = {"snd_settle_mode": 1} if settled else {}
        lasting = {"durable": Uint(2), "expiry_policy": Symbol("never")} if durable else {}
        more |= {"name": durable} if durable else {}
        more |= {"properties": {Symbol("event-streams-consumer-group"): group}} if group else {}
        self._peer.attach_receiver(None, source=frames.source(address, filter=_filter(sql), **lasting), **more)

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    def go(self) -> None:
        """Grant as much credit as the link may have from now on."""
        self._grant()

    def _grant(self) -> None:
        self._granted = self.received
        session = {"next_incoming_id": self.received, "incoming_window": _WINDOW, "next_outgoing_id": 0}
        link = {"handle": 0, "delivery_count": self.received, "link_credit": self._credit}
        self._peer.send("flow", **session, outgoing_window=_WINDOW, **link)
        self._peer.transcript.clear()

    def read(self) -> int:
        """Take what has come, accept it and grant as much again; how many events that were."""
        before = self.received
        piece = self._piece()
        if not piece:
            raise ConnectionError("the gateway closed the connection")
        self._count(self._rest + piece if self._rest else piece)
        if not self._settled and self.received > self._told:
            self._peer.disposition(self._told, "accepted", last=self.received - 1)
            self._told = self.received
        if (self.received - self._granted) * 2 >= self._credit:
            self._grant()
        return self.received - before

    def _piece(self) -> bytes:
        """What is there; with TLS as many records as are decrypted, because no selector sees them."""
        piece = self._socket.recv(_PIECE)
        if isinstance(self._socket, ssl.SSLSocket):
            pieces = [piece]
            while self._socket.pending():
                pieces.append(self._socket.recv(_PIECE))
            return b"".join(pieces)
        return piece

    def _count(self, data: bytes) -> None:
        at, end, size_at, count, last = 0, len(data), _SIZE.unpack_from, 0, 0
        while at + 4 <= end:
            (size,) = size_at(data, at)
            if at + size > end:
                break
            if data.startswith(_TRANSFER, at + 8):
                more = _alike(data, at, size) if data[at + size : at + size + 4] == data[at : at + 4] else 1
                at += more * size
                count, last = count + more, at - size
                continue
            if size > 8:
                self._other(data[at : at + size])
            at += size
        if count:
            self.received += count
            self._check(data[last:at])
        self._rest = data[at:]

    def _check(self, data: bytes) -> None:
        """The last transfer's delivery id tells how many there were."""
        (size,) = _SIZE.unpack_from(data)
        frame = frames.parse(data[:size])
        assert frame is not None
        if frame.delivery_id != self.received - 1 or frame.more:
            raise AssertionError(f"{self.received} transfers have come, and the last is {frame!r}")

    @staticmethod
    def _other(data: bytes) -> None:
        frame = frames.parse(data)
        if frame is not None and frame.kind != "flow":
            raise ConnectionError(f"the gateway said {frame!r}")

    def close(self) -> None:
        """Go away without a word."""
        self._peer.disconnect()


def _alike(data: bytes, at: int, size: int) -> int:
    """How many transfers of this size follow each other; looked at one by one they cost a third of a core."""
    count = (len(data) - at) // size
    for place in (0, 1, 2, 3, 8, 9, 10):  # the size, and what it is
        column = data[at + place : at + count * size : size]
        count = len(column) - len(column.lstrip(column[:1]))
    return count


def until(links: Sequence[Lean], count: int) -> int:
    """Read on whichever link something has come, until so many events have come on all together; how many."""
    received = sum([each.received for each in links])
    with selectors.DefaultSelector() as selector:
        for each in links:
            selector.register(each, selectors.EVENT_READ, each)
        while received < count:
            ready = selector.select(_PATIENCE)
            if not ready:
                raise TimeoutError(f"{received} of {count} events, and no more for {_PATIENCE:g} s")
            received += sum([key.data.read() for key, _ in ready])
    return received


def _filter(sql: str) -> dict[Any, Any]:
    start = Described(
        Symbol("amqp:event-streams-delivery-annotations-filter"), {Symbol("event-streams-offset"): Symbol("@earliest")}
    )
    chosen: dict[Any, Any] = {Symbol("start"): start}
    if sql:
        chosen[Symbol("sql")] = Described(Symbol("amqp:sql-filter"), sql)
    return chosen
