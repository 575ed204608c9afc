"""Clients of `streams` at the real gateway process: their engine's bytes go through a socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Self

from tests.support.amqp.frames import receive_all
from tests.support.amqp.peer import Peer
from tests.support.kafka.streams import Clients, StreamSide
from tests.support.servers.kafka import KafkaBroker

_PIECE = 1 << 16


class RemoteWire:
    """What a client's side takes for the other engine: a socket behind SASL."""

    def __init__(self, port: int, side: StreamSide) -> None:
        self._side = side
        self._socket: socket.socket = Peer(port).sasl_anonymous().detached()
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._read)
        self._out = bytearray()

    @property
    def engine(self) -> Self:
        """It receives, as engines do."""
        return self

    def receive(self, data: bytes) -> None:
        """Bytes for the gateway."""
        self._out += data
        self._write()

    def _write(self) -> None:
        try:
            del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self._out.clear()  # the gateway has closed: the engine has heard why
        if self._out:
            self._loop.add_writer(self._socket, self._write)
        else:
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_PIECE)
        except OSError:
            data = b""
        if data:
            receive_all(self._side.engine, data)
        else:
            self._loop.remove_reader(self._socket)

    def close(self) -> None:
        """Drop the connection."""
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()


class Remote(Clients):
    """Clients of a gateway where topics are `events/{topic}`; `names` says which topics those of a test are."""

    def __init__(self, port: int, kafka: KafkaBroker, names: Mapping[str, str] | None = None) -> None:
        self._port = port
        self._kafka = kafka
        self._topics = dict(names or {})
        self._wires: list[RemoteWire] = []
        super().__init__()

    @property
    def bootstrap(self) -> str:
        """The broker's."""
        return self._kafka.bootstrap

    def connect(self) -> StreamSide:
        """One more connection."""
        side = StreamSide("client")
        side.other = wire = RemoteWire(self._port, side)
        self._wires.append(wire)
        return side

    def topic(self, name: str) -> str:
        """What Kafka calls it."""
        return self._topics.get(name, name)

    def address(self, address: str) -> str:
        """The address of a topic, or of its `$info`."""
        name, slash, rest = address.partition("/")
        return f"events/{self.topic(name)}{slash}{rest}"

    async def close(self) -> None:
        """Drop the connections."""
        for wire in self._wires:
            wire.close()
