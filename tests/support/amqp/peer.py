"""A scripted AMQP peer over a blocking socket: a test with it reads like a transcript of frames.

    peer = Peer(port)
    peer.start()                                              # SASL ANONYMOUS, header, open, begin
    peer.attach(name="s", role=SENDER, target=target("no/such"))
    peer.expect("attach", target=None)
    peer.expect("detach", closed=True, error="amqp:not-found")

Every step sends exactly one frame and waits for nothing; `expect` takes the next frame. A failure shows
all that went over the wire. As a server (`Listener`) it plays the remote container of a connector.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import struct
import time
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from tests.support.amqp import frames
from tests.support.amqp.frames import AMQP_HEADER, MAX_FRAME, SASL_HEADER, Frame, matches
from tests.support.amqp.wire_types import wrong_fields
from tests.support.gateway.process import PATIENCE, free_port

SENDER = False
RECEIVER = True
_containers = itertools.count(1)


class Peer:
    """One connection. The counters a session needs are kept here; any field can be given to override."""

    made: ClassVar[weakref.WeakSet[Peer]] = weakref.WeakSet()
    """Peers that somebody holds."""

    def __init__(
        self,
        port: int | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        seconds: float = PATIENCE,
        connection: socket.socket | None = None,
        strict: bool = True,
    ) -> None:
        """`strict`: a frame with a wrong wire type is a failure."""
        self.strict = strict
        self._socket = connection or socket.create_connection(("127.0.0.1", port or 0), timeout=seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a script waits for each answer
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
        self.seconds = seconds
        self.transcript: list[str] = []
        self._next_delivery = 0
        self._received_transfers = 0
        self._unread: deque[Frame] = deque()
        Peer.made.add(self)

    @classmethod
    def disconnect_from(cls, ports: Sequence[int]) -> None:
        """Close the sockets of all peers that are connected to one of these ports here."""
        for peer in list(cls.made):
            with contextlib.suppress(OSError):  # closed already
                if peer._socket.getpeername()[1] in ports:
                    peer.disconnect()

    @property
    def certificate(self) -> dict[str, Any]:
        """What the other side showed in the TLS handshake."""
        assert isinstance(self._socket, ssl.SSLSocket)
        return dict(self._socket.getpeercert() or {})

    # bytes

    def send_raw(self, data: bytes) -> Self:
        """Send bytes as they are."""
        shown = data[:16].hex(" ") + (" …" if len(data) > 16 else "")
        self.transcript.append(f"-> {len(data)} raw bytes: {shown}")
        self.write(data)
        return self

    def write(self, data: bytes) -> None:
        """Write what is sent; `together` collects it instead."""
        self._socket.sendall(data)

    def read(self, size: int, seconds: float | None = None) -> bytes:
        """Return exactly this many bytes, or fewer when the other side closed before."""
        deadline = time.monotonic() + (self.seconds if seconds is None else seconds)
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                piece = self._socket.recv(size - len(data))
            except TimeoutError:
                raise self.unexpected(f"nothing within {seconds or self.seconds} s") from None
            except ConnectionError:
                piece = b""
            if not piece:
                break
            data += piece
        return bytes(data)

    def expect_header(self, header: bytes = AMQP_HEADER) -> Self:
        """Read a protocol header and check it."""
        got = self.read(8)
        self.transcript.append(f"<- header {got!r}")
        if got != header:
            raise self.unexpected(f"header {got!r} instead of {header!r}")
        return self

    def expect_eof(self, seconds: float | None = None) -> None:
        """Check that the other side closes the socket, with no frame before that."""
        if data := self.read(1, seconds):
            raise self.unexpected(f"bytes instead of the end: {(data + self._rest())[:64]!r}")

    def _rest(self) -> bytes:
        self._socket.settimeout(0.1)
        with contextlib.suppress(OSError):
            return self._socket.recv(4096)
        return b""

    def shutdown(self) -> None:
        """End our half of the connection without an AMQP close."""
        self._socket.shutdown(socket.SHUT_WR)

    def disconnect(self) -> None:
        """Close the socket at once, without an AMQP close."""
        self._socket.close()

    def detached(self) -> socket.socket:
        """The socket, for whoever goes on with it."""
        return self._socket

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    # frames

    def send(self, kind: str, /, *, channel: int = 0, payload: bytes = b"", **fields: Any) -> Self:
        """Send one frame of any kind."""
        body = frames.performative(kind, **fields) + payload
        raw = frames.framed(body, channel, kind=int(kind.startswith("sasl_")))
        self.transcript.append(f"-> {frames.parse(raw)!r}")
        self.write(raw)
        return self

    def receive(self, seconds: float | None = None) -> Frame | None:
        """Return the next frame that is not empty, None at the end of the stream."""
        if self._unread:
            return self._unread.popleft()
        while True:
            head = self.read(4, seconds)
            if len(head) < 4:
                self.transcript.append("<- end of stream")
                return None
            (size,) = struct.unpack(">I", head)
            assert 8 <= size <= MAX_FRAME, f"frame of {size} bytes: {head!r}"
            frame = frames.parse(head + self.read(size - 4, seconds))
            if frame is not None:
                self.transcript.append(f"<- {frame!r}")
                if self.strict and (wrong := wrong_fields(frame.fields)):
                    raise self.unexpected(f"wrong wire types in {frame.kind}: {'; '.join(wrong)}")
                self._received_transfers += frame.kind == "transfer"
                return frame

    def pick(self, kind: str, /, **fields: Any) -> Frame:
        """`until`, but what came before that frame is returned later."""
        skipped: list[Frame] = []
        while (frame := self.receive()) is not None and not self._is(frame, kind, fields):
            skipped.append(frame)
        if frame is None:
            raise self.unexpected(f"never came: {kind} {fields or ''}")
        self._unread.extendleft(reversed(skipped))
        return frame

    def expect(self, kind: str, /, *, seconds: float | None = None, **fields: Any) -> Frame:
        """Take the next frame and check its kind and these fields."""
        frame = self.receive(seconds)
        if frame is None or not self._is(frame, kind, fields):
            raise self.unexpected(f"expected {kind} {fields or ''}")
        return frame

    def until(self, kind: str, /, *, seconds: float | None = None, keep: str = "", **fields: Any) -> Frame:
        """Take frames until one is of this kind and has these fields; those of the kind `keep` are returned later."""
        kept: list[Frame] = []
        while (frame := self.receive(seconds)) is not None:
            if self._is(frame, kind, fields):
                self._unread.extendleft(reversed(kept))
                return frame
            if frame.kind == keep:
                kept.append(frame)
        raise self.unexpected(f"never came: {kind} {fields or ''}")

    @staticmethod
    def _is(frame: Frame, kind: str, fields: dict[str, Any]) -> bool:
        channel = fields.get("channel", frame.channel)
        rest = {key: value for key, value in fields.items() if key != "channel"}
        return (
            frame.kind == kind
            and frame.channel == channel
            and all(matches(frame.fields[key], value) for key, value in rest.items())
        )

    def unexpected(self, what: str) -> AssertionError:
        """Return the error of a script that went another way, with what went over the wire."""
        return AssertionError("\n  ".join([what, *self.transcript[-30:]]))

    # SASL and connection

    def start(self, **fields: Any) -> Frame:
        """SASL ANONYMOUS, header, open and begin; return the other side's open."""
        return self.sasl_anonymous().negotiate(**fields)

    def negotiate(self, **fields: Any) -> Frame:
        """After SASL: header, open and begin; return the other side's open."""
        self.send_raw(AMQP_HEADER).expect_header()
        self.open(**fields)
        opened = self.expect("open")
        self.begin().expect("begin", remote_channel=0)
        return opened

    def sasl_anonymous(self) -> Self:
        """Authenticate as nobody."""
        return self.sasl("ANONYMOUS", b"guest")

    def sasl_plain(self, user: str, password: str) -> Self:
        """Authenticate with a password in the clear."""
        return self.sasl("PLAIN", f"\0{user}\0{password}".encode())

    def sasl(self, mechanism: str, response: bytes | None, code: int = 0) -> Self:
        """Do a SASL exchange of one message and check its outcome (1: refused)."""
        self.send_raw(SASL_HEADER).expect_header(SASL_HEADER)
        self.expect("sasl_mechanisms")
        self.send("sasl_init", mechanism=mechanism, initial_response=response)
        self.expect("sasl_outcome", code=code)
        return self

    def open(self, **fields: Any) -> Self:
        """Send open; the container id is a new one unless given."""
        return self.send("open", **{"container_id": f"peer-{next(_containers)}", **fields})

    def begin(self, channel: int = 0, **fields: Any) -> Self:
        """Send begin with wide windows."""
        windows = {"next_outgoing_id": 0, "incoming_window": 10_000, "outgoing_window": 10_000}
        return self.send("begin", channel=channel, **{**windows, **fields})

    def attach(self, name: str, role: bool, handle: int = 0, *, channel: int = 0, **fields: Any) -> Self:
        """Send attach; source and target are present but empty unless given (None: absent)."""
        termini: dict[str, Any] = {"source": frames.source(), "target": frames.target()}
        counts = {} if role else {"initial_delivery_count": 0}
        defaults = {"name": name, "handle": handle, "role": role, **termini, **counts}
        return self.send("attach", channel=channel, **{**defaults, **fields})

    def attach_sender(self, address: str | None, handle: int = 0, **fields: Any) -> Frame:
        """Attach a sending link, check that it is accepted, return the other side's attach."""
        given = {"name": f"sender-{handle}", "target": frames.target(address), **fields}
        self.attach(role=SENDER, handle=handle, **given)
        return self._attached()

    def attach_receiver(self, address: str | None, handle: int = 0, **fields: Any) -> Frame:
        """Attach a receiving link, check that it is accepted, return the other side's attach."""
        given = {"name": f"receiver-{handle}", "source": frames.source(address), **fields}
        self.attach(role=RECEIVER, handle=handle, **given)
        return self._attached()

    def _attached(self) -> Frame:
        frame = self.until("attach")
        if (frame.target if frame.role else frame.source) is None:
            self.receive()
            raise self.unexpected("the link was refused")
        return frame

    # links

    def flow(self, handle: int | None = None, *, channel: int = 0, **fields: Any) -> Self:
        """Send flow: of the session alone, or with a link's `link_credit`."""
        session = {
            "next_incoming_id": self._received_transfers,
            "incoming_window": 10_000,
            "next_outgoing_id": self._next_delivery,
            "outgoing_window": 10_000,
        }
        link = {} if handle is None else {"handle": handle, "delivery_count": 0}
        return self.send("flow", channel=channel, **{**session, **link, **fields})

    def heard(self) -> Self:
        """Wait until the other side has read all that was sent: it answers a flow with `echo`.

        What another connection says after this comes after it. Two sockets are read in any order.
        """
        self.flow(echo=True).pick("flow", handle=None)
        return self

    def transfer(self, payload: bytes, handle: int = 0, *, channel: int = 0, **fields: Any) -> Self:
        """Send a whole message as one transfer, with the next delivery id and a tag made from it."""
        number = self._next_delivery
        self._next_delivery += 1
        delivery = {"delivery_id": number, "delivery_tag": b"%d" % number, "message_format": 0}
        return self.send(
            "transfer", channel=channel, payload=payload, **{"handle": handle, **delivery, **fields}
        )

    @property
    def last_delivery(self) -> int:
        """The id of the delivery that `transfer` sent last."""
        return self._next_delivery - 1

    def count(self, deliveries: int) -> None:
        """So many transfers were sent as raw bytes, with the next delivery ids."""
        self._next_delivery += deliveries

    def disposition(self, first: int, state: Any, *, role: bool = RECEIVER, **fields: Any) -> Self:
        """Send disposition; `state` is the name of an outcome without fields, or a composite."""
        outcome = frames.composite(state) if isinstance(state, str) else state
        defaults = {"role": role, "first": first, "settled": True, "state": outcome}
        return self.send("disposition", **{**defaults, **fields})

    def detach(self, handle: int = 0, *, closed: bool = True, channel: int = 0, **fields: Any) -> Self:
        """Send detach."""
        return self.send("detach", channel=channel, handle=handle, closed=closed, **fields)

    def end(self, channel: int = 0, **fields: Any) -> Self:
        """Send end."""
        return self.send("end", channel=channel, **fields)

    def close(self, **fields: Any) -> Self:
        """Send close."""
        return self.send("close", **fields)


class Listener:
    """The remote container of a connector: accepts the gateway's connections as scripted peers."""

    def __init__(self, port: int = 0) -> None:
        self._socket = socket.create_server(("127.0.0.1", port or free_port()))
        self.port: int = self._socket.getsockname()[1]

    def accept(self, seconds: float = PATIENCE) -> Peer:
        """Return the next connection, nothing said yet."""
        self._socket.settimeout(seconds)
        connection, _ = self._socket.accept()
        return Peer(connection=connection)

    def accept_started(
        self, *, seconds: float = PATIENCE, mechanisms: tuple[str, ...] = ("ANONYMOUS",), **fields: Any
    ) -> Peer:
        """Return the next connection after SASL, open and begin of both sides."""
        peer = self.accept(seconds)
        peer.expect_header(SASL_HEADER).send_raw(SASL_HEADER)
        peer.send("sasl_mechanisms", sasl_server_mechanisms=list(mechanisms)).expect("sasl_init")
        peer.send("sasl_outcome", code=0).expect_header().send_raw(AMQP_HEADER)
        peer.expect("open")
        peer.open(**fields).expect("begin")
        return peer.begin(remote_channel=0)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
