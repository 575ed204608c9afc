"""A connection to an MQTT server: paho's client, driven by the gateway's event loop.

Each connection has a new client, so that paho does not resend publications by itself: those without an answer fail, and
the delivery queue, which counts attempts, sends them again.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final, NamedTuple

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from bridges.cloudevents.delivery.answers import DONE, Answer, DeliveryOutcome
from bridges.cloudevents.events.bindings.mqtt import MqttMessage
from bridges.cloudevents.model.values import PlainCredential
from bridges.cloudevents.sinks.common.receive_budget import ReceiveBudget
from gateway.tasks import off_loop

KEEPALIVE: Final = 60
_FAILURE: Final = 0x80
_REFUSED: Final = frozenset((0x90, 0x95, 0x99))
"""Topic name invalid, packet too large, payload format invalid."""
_DENIED: Final = frozenset((0x86, 0x87, 0x8C))
_RETRY_LATER: Final = frozenset((0x89, 0x97))
_DENIED_V3: Final = frozenset(("Bad user name or password", "Not authorized"))
_OVERHEAD: Final = 16
"""Maximum size of a PUBLISH beyond topic, payload and properties, in bytes."""
_LARGEST_PACKET: Final = 65_536
"""Bytes of a packet of the server, which sends none but answers."""


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


class _SocketClient(paho.Client):
    """paho's client on a socket that is already connected to a checked address."""

    connected_socket: socket.socket
    budget: ReceiveBudget

    def _create_socket_connection(self) -> socket.socket:
        return self.connected_socket

    def _sock_recv(self, bufsize: int) -> bytes:
        """Read from the socket, which paho does until a packet is complete; raises OSError."""
        if bufsize > _LARGEST_PACKET:
            raise ConnectionAbortedError
        data = super()._sock_recv(bufsize)
        if not self.budget.spend(len(data)):
            raise ConnectionAbortedError
        return data


class MqttConnection:
    """A connection and its unacknowledged publications."""

    def __init__(self, target: MqttTarget, connected: socket.socket, window: int) -> None:
        self.lost = False
        self._target: Final = target
        self._is_v5: Final = target.version is MQTTProtocolVersion.MQTTv5
        self._loop: Final = asyncio.get_running_loop()
        self._unacknowledged: Final[dict[int, asyncio.Future[Answer]]] = {}
        self._early_answers: Final[dict[int, Answer]] = {}
        self._opened: Final[asyncio.Future[None]] = self._loop.create_future()
        self._watched_socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._max_packet_size = 0
        """Maximum packet size of the server; 0 for no limit."""
        self._budget: Final = ReceiveBudget(_LARGEST_PACKET)
        self._client: Final = self._make(connected, window)

    def _make(self, connected: socket.socket, window: int) -> _SocketClient:
        target = self._target
        client = _SocketClient(
            CallbackAPIVersion.VERSION2,
            client_id="",
            clean_session=None if self._is_v5 else True,
            protocol=target.version,
            reconnect_on_failure=False,
        )
        client.connected_socket = connected
        client.budget = self._budget
        client.suppress_exceptions = True
        client.max_inflight_messages_set(min(window, 65_535))
        if target.login is not None:
            client.username_pw_set(target.login.identifier, target.login.secret)
        if target.tls is not None:
            client.tls_set_context(target.tls)
        client.on_connect = self._on_connect
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        client.on_socket_register_write = self._want_write
        client.on_socket_unregister_write = self._stop_writing
        client.on_socket_close = self._stop_watching
        return client

    async def open(self) -> None:
        """Log in; raises OSError or ConnectRefused. The TLS handshake runs in a thread, since paho's blocks."""
        target = self._target
        self._client.connected_socket.setblocking(True)
        self._client.connected_socket.settimeout(target.timeout)
        await off_loop(self._client.connect, target.host, target.port, KEEPALIVE)
        made = self._client.socket()
        if not isinstance(made, socket.socket):
            raise ConnectionResetError
        self._watched_socket = made
        self._loop.add_reader(self._watched_socket, self._read)
        if self._client.want_write():
            self._want_write(self._client, None, self._watched_socket)
        self._tick()
        await self._opened

    async def publish(self, message: MqttMessage) -> Answer:
        """Publish and wait for PUBACK or PUBCOMP, or at QoS 0 until the packet is written."""
        if self._max_packet_size and self._size(message) > self._max_packet_size:
            return Answer(
                DeliveryOutcome.REFUSED, f"larger than the server's largest packet of {self._max_packet_size} bytes"
            )
        target = self._target
        self._budget.on_published()
        info = self._client.publish(
            target.topic, message.payload, target.qos, target.retain, self._properties(message) if self._is_v5 else None
        )
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            return Answer(DeliveryOutcome.FAILED, "the connection was lost", reached=False)
        if (early := self._early_answers.pop(info.mid, None)) is not None:
            return early
        waiting: asyncio.Future[Answer] = self._loop.create_future()
        self._unacknowledged[info.mid] = waiting
        try:
            return await waiting
        finally:
            self._unacknowledged.pop(info.mid, None)

    def _size(self, message: MqttMessage) -> int:
        own = sum(len(name.encode()) + len(value.encode()) + 5 for name, value in message.user_properties)
        head = len(self._target.topic.encode()) + len(message.content_type or "")
        return _OVERHEAD + head + own + len(message.payload)

    def _properties(self, message: MqttMessage) -> Properties:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if message.content_type is not None:
            properties.ContentType = message.content_type
        if self._target.expiry is not None:
            properties.MessageExpiryInterval = self._target.expiry
        if message.user_properties:
            properties.UserProperty = list(message.user_properties)
        return properties

    def close(self) -> None:
        """Disconnect; unacknowledged publications get no answer."""
        self._client.disconnect()
        self._on_lost("the connection was closed")

    # -- from the loop

    def _read(self) -> None:
        self._client.loop_read()
        while (made := self._client.socket()) is not None and getattr(made, "pending", int)():
            self._client.loop_read()  # already decrypted: the socket will not become readable again
        self._check()

    def _write(self) -> None:
        self._client.loop_write()
        self._check()

    def _tick(self) -> None:
        self._client.loop_misc()
        self._check()
        if not self.lost:
            self._timer = self._loop.call_later(1.0, self._tick)

    def _check(self) -> None:
        if self._client.socket() is None:
            self._on_lost("the connection was lost")

    def _want_write(self, client: paho.Client, data: object, made: object) -> None:
        if self._watched_socket is not None:
            self._loop.add_writer(self._watched_socket, self._write)

    def _stop_writing(self, client: paho.Client, data: object, made: object) -> None:
        if self._watched_socket is not None:
            self._loop.remove_writer(self._watched_socket)

    def _stop_watching(self, *arguments: object) -> None:
        """Called before paho closes the socket: the loop does not know a closed one, whose number may be reused."""
        if (watched := self._watched_socket) is not None:
            self._watched_socket = None
            self._loop.remove_reader(watched)
            self._loop.remove_writer(watched)

    def _on_lost(self, reason: str) -> None:
        self.lost = True
        if self._timer is not None:
            self._timer.cancel()
        if (watched := self._watched_socket) is not None:
            self._stop_watching()
            watched.close()
        self._client.connected_socket.close()
        for waiting in [*self._unacknowledged.values()]:
            if not waiting.done():
                waiting.set_result(Answer(DeliveryOutcome.FAILED, reason, reached=False))
        if not self._opened.done():
            self._opened.set_exception(ConnectionResetError())
            self._opened.exception()

    # -- from paho

    def _on_connect(
        self, client: paho.Client, data: object, flags: object, code: ReasonCode, properties: Properties | None
    ) -> None:
        if self._opened.done():
            return
        if not code.is_failure:
            self._max_packet_size = getattr(properties, "MaximumPacketSize", 0)
            self._opened.set_result(None)
        else:
            self._opened.set_exception(ConnectRefused(_refused(code)))

    def _on_publish(
        self, client: paho.Client, data: object, mid: int, code: ReasonCode, properties: Properties | None
    ) -> None:
        answer = _outcome(code.value)
        waiting = self._unacknowledged.get(mid)
        if waiting is None:  # acknowledged before `publish` has returned
            self._early_answers[mid] = answer
        elif not waiting.done():
            waiting.set_result(answer)

    def _on_disconnect(self, *arguments: object) -> None:
        self._loop.call_soon(self._check)


def _refused(code: ReasonCode) -> Answer:
    if code.value in _DENIED or code.getName() in _DENIED_V3:
        return Answer(DeliveryOutcome.CREDENTIAL, "the server does not accept the login", code.value)
    return Answer(DeliveryOutcome.SINK_FAILED, f"the server refused the connection with 0x{code.value:02x}", code.value)


def _outcome(code: int) -> Answer:
    """The meaning of the reason code of a PUBACK or PUBCOMP (MQTT 5, 3.4.2.1); version 3.1.1 only has success."""
    if code < _FAILURE:
        return DONE
    reason = f"the server answered 0x{code:02x}"
    if code in _REFUSED:
        return Answer(DeliveryOutcome.REFUSED, reason, code)
    if code in _DENIED:
        return Answer(DeliveryOutcome.CREDENTIAL, reason, code)
    return Answer(DeliveryOutcome.WAIT if code in _RETRY_LATER else DeliveryOutcome.FAILED, reason, code)
