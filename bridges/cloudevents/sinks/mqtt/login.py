"""The login at an MQTT server: paho connects on a socket of ours, and leaves it when the server has answered."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final, NamedTuple

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.model.values import PlainCredential
from gateway.tasks import off_loop

KEEPALIVE: Final = 60
"""Seconds without a packet after which a client has to send one (3.1.2.10)."""
LARGEST_PACKET: Final = 65_536
"""Bytes of a packet of the server, which sends none but answers."""
DENIED: Final = frozenset((0x86, 0x87, 0x8C))
"""Reason codes: bad user name or password, not authorized, bad authentication method."""
_DENIED_V3: Final = frozenset(("Bad user name or password", "Not authorized"))
_MOST_IN_FLIGHT: Final = 65_535
"""Unacknowledged publications, if the server does not say less (3.2.2.3.3)."""


class MqttTarget(NamedTuple):
    """Where and how messages are published; `tls` None means a plaintext connection."""

    host: str
    port: int
    version: MQTTProtocolVersion
    topic: str
    qos: int
    retain: bool
    expiry: int | None
    tls: ssl.SSLContext | None
    login: PlainCredential | None
    timeout: float


class ConnectRefused(Exception):
    """The server refused the connection."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.reason)
        self.answer: Final = answer


class Session(NamedTuple):
    """A session that a server has accepted; `socket` does not block."""

    socket: socket.socket
    max_packet_size: int
    """Bytes of a packet that the server takes (3.2.2.3.6); 0 for no limit."""
    most_in_flight: int
    """Publications that may be unacknowledged (3.2.2.3.3)."""
    keepalive: int
    """Seconds without a packet after which one is due; the server may ask for another number (3.2.2.3.14). 0: never."""


class _SocketClient(paho.Client):
    """paho's client on a socket that is already connected to a checked address."""

    connected_socket: socket.socket

    def _create_socket_connection(self) -> socket.socket:
        return self.connected_socket

    def _sock_recv(self, bufsize: int) -> bytes:
        """Read from the socket, which paho does until a packet is complete; raises OSError."""
        if bufsize > LARGEST_PACKET:
            raise ConnectionAbortedError
        return super()._sock_recv(bufsize)

    def leave(self) -> socket.socket | None:
        """Give the socket away: paho neither reads nor closes it any more."""
        found, self._sock = self._sock, None
        return found if isinstance(found, socket.socket) else None


class MqttLogin:
    """One login; paho's callbacks are called on the loop."""

    def __init__(self, target: MqttTarget, connected: socket.socket) -> None:
        self._target: Final = target
        self._connected: Final = connected
        self._loop: Final = asyncio.get_running_loop()
        self._answer: Final[asyncio.Future[Properties | None]] = self._loop.create_future()
        self._watched: socket.socket | None = None
        self._client: Final = self._make(target)

    def _make(self, target: MqttTarget) -> _SocketClient:
        client = _SocketClient(
            CallbackAPIVersion.VERSION2,
            client_id="",
            clean_session=None if target.version is MQTTProtocolVersion.MQTTv5 else True,
            protocol=target.version,
            reconnect_on_failure=False,
        )
        client.connected_socket = self._connected
        client.suppress_exceptions = True
        if target.login is not None:
            client.username_pw_set(target.login.identifier, target.login.secret)
        if target.tls is not None:
            client.tls_set_context(target.tls)
        client.on_connect = self._on_connect
        client.on_socket_close = self._stop_watching
        return client

    async def run(self) -> Session:
        """Log in; raises OSError or ConnectRefused. The TLS handshake runs in a thread, since paho's blocks."""
        target = self._target
        self._connected.setblocking(True)
        self._connected.settimeout(target.timeout)
        await off_loop(self._client.connect, target.host, target.port, KEEPALIVE)
        made = self._client.socket()
        if not isinstance(made, socket.socket):
            raise ConnectionResetError
        self._watched = made
        self._loop.add_reader(made, self._read)
        properties = await self._answer
        self._stop_watching()
        _check_offer(target, properties)
        left = self._client.leave()
        if left is None:
            raise ConnectionResetError
        most = max(1, getattr(properties, "ReceiveMaximum", _MOST_IN_FLIGHT))
        keepalive = getattr(properties, "ServerKeepAlive", KEEPALIVE)
        return Session(left, getattr(properties, "MaximumPacketSize", 0), most, keepalive)

    def close(self) -> None:
        """End a login that has failed."""
        self._stop_watching()
        left = self._client.leave()
        if left is not None:
            left.close()
        self._connected.close()

    def _stop_watching(self, *arguments: object) -> None:
        """Called before paho closes the socket: the loop does not know a closed one, whose number may be reused."""
        watched, self._watched = self._watched, None
        if watched is not None:
            self._loop.remove_reader(watched)

    def _read(self) -> None:
        while not self._answer.done():
            self._client.loop_read()
            made = self._client.socket()
            if made is None:
                self._fail(ConnectionResetError())
            elif not getattr(made, "pending", int)():
                return  # what is already decrypted does not make the socket readable again

    def _fail(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)

    def _on_connect(
        self, client: paho.Client, data: object, flags: object, code: ReasonCode, properties: Properties | None
    ) -> None:
        if code.is_failure:
            self._fail(ConnectRefused(_refused(code)))
        elif not self._answer.done():
            self._answer.set_result(properties)


def _check_offer(target: MqttTarget, properties: Properties | None) -> None:
    """Raise ConnectRefused for a server that does not take what is published (3.2.2.3.4, 3.2.2.3.5)."""
    if getattr(properties, "MaximumQoS", target.qos) < target.qos:
        raise ConnectRefused(Answer(DeliveryOutcome.SINK_FAILED, f"the server does not take qos {target.qos}"))
    if target.retain and not getattr(properties, "RetainAvailable", 1):
        raise ConnectRefused(Answer(DeliveryOutcome.SINK_FAILED, "the server does not retain messages"))


def _refused(code: ReasonCode) -> Answer:
    if code.value in DENIED or code.getName() in _DENIED_V3:
        return Answer(DeliveryOutcome.CREDENTIAL, "the server does not accept the login", code.value)
    return Answer(DeliveryOutcome.SINK_FAILED, f"the server refused the connection with 0x{code.value:02x}", code.value)
