"""A session at an MQTT server in which events are published (MQTT 3.1.1 and 5, section 4.3).

A session is never resumed: publications without an answer fail, and the delivery queue, which counts attempts, sends
them again on another connection.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from paho.mqtt.enums import MQTTProtocolVersion

from bridges.cloudevents.delivery.answers import DONE, Answer, DeliveryOutcome
from bridges.cloudevents.events.bindings.mqtt import MqttMessage
from bridges.cloudevents.sinks.common.receive_budget import ReceiveBudget
from bridges.cloudevents.sinks.mqtt.login import DENIED, LARGEST_PACKET, MqttTarget, Session
from bridges.cloudevents.sinks.mqtt.packets import (
    DISCONNECT,
    PINGREQ,
    PUBREC,
    Acknowledgement,
    MalformedPacket,
    PacketReader,
    publish_header,
    publish_properties,
    release,
)

_FAILURE: Final = 0x80
_REFUSED: Final = frozenset((0x90, 0x95, 0x99))
"""Topic name invalid, packet too large, payload format invalid."""
_RETRY_LATER: Final = frozenset((0x89, 0x97))
_IDS: Final = 65_535
_PIECE: Final = 65_536
"""Bytes of one read."""
_TICK: Final = 1.0
_LOST: Final = Answer(DeliveryOutcome.FAILED, "the connection was lost", reached=False)
_UNSENT: Final = Answer(DeliveryOutcome.SINK_FAILED, "the connection was lost before the event was sent", reached=False)
_CLOSED: Final = Answer(DeliveryOutcome.FAILED, "the connection was closed", reached=False)
_TOO_LATE: Final = Answer(DeliveryOutcome.FAILED, "no answer in time", reached=False)
OnAnswer = Callable[[Answer], None]


class _Publication(NamedTuple):
    """An unacknowledged publication; `due` is when its time limit ends."""

    due: float
    on_answer: OnAnswer


class MqttConnection:
    """A session and its unacknowledged publications, driven by the loop.

    What is published in one step of the loop is one write, and what the server has acknowledged meanwhile one read.
    """

    def __init__(self, target: MqttTarget, session: Session) -> None:
        self.lost = False
        self._target: Final = target
        self._is_v5: Final = target.version is MQTTProtocolVersion.MQTTv5
        self._header: Final = publish_header(target.topic, target.qos, retain=target.retain)
        self._session: Final = session
        self._loop: Final = asyncio.get_running_loop()
        self._budget: Final = ReceiveBudget(LARGEST_PACKET)
        self._reader: Final = PacketReader(LARGEST_PACKET)
        self._unacknowledged: Final[dict[int, _Publication]] = {}
        self._unwritten: Final[list[_Publication]] = []
        """Those at QoS 0, which are done when they are written."""
        self._held: Final[deque[tuple[bytes, bytes, OnAnswer]]] = deque()
        """Properties and payloads that wait until the server takes more."""
        self._out: Final = bytearray()
        self._last_id = 0
        self._flushing = self._awaits_writable = self._pinged = False
        self._sent_at = self._loop.time()
        self._loop.add_reader(session.socket, self._read)
        self._tick_at = self._sent_at + _TICK
        self._timer = self._loop.call_at(self._tick_at, self._tick)

    # -- publishing

    def publish(self, message: MqttMessage, on_answer: OnAnswer) -> None:
        """Publish; `on_answer` is called once, later: after PUBACK or PUBCOMP, at QoS 0 when the packet is written."""
        if self.lost:
            self._loop.call_soon(on_answer, _UNSENT)
            return
        properties = b""
        if self._is_v5:
            properties = publish_properties(message.content_type, self._target.expiry, message.user_properties)
        most, size = self._session.max_packet_size, len(self._header.packet(1, properties, message.payload))
        if most and size > most:
            reason = f"larger than the server's largest packet of {most} bytes"
            self._loop.call_soon(on_answer, Answer(DeliveryOutcome.REFUSED, reason))
        elif len(self._unacknowledged) >= self._session.most_in_flight:
            self._held.append((properties, message.payload, on_answer))
        else:
            self._write(properties, message.payload, on_answer)

    def _write(self, properties: bytes, payload: bytes, on_answer: OnAnswer) -> None:
        publication = _Publication(self._loop.time() + self._target.timeout, on_answer)
        if publication.due < self._tick_at:
            self._set_timer(publication.due)
        id = 0
        if self._header.has_id:
            id = self._next_id()
            self._unacknowledged[id] = publication
        else:
            self._unwritten.append(publication)
        self._budget.on_published()
        self._send(self._header.packet(id, properties, payload))

    def _next_id(self) -> int:
        """A packet identifier that is not in use (2.2.1)."""
        id = self._last_id % _IDS + 1
        while id in self._unacknowledged:
            id = id % _IDS + 1
        self._last_id = id
        return id

    def _send(self, packet: bytes) -> None:
        self._out.extend(packet)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Write as much as the socket takes, and the rest later."""
        self._flushing = False
        if self.lost or not self._out:
            return
        try:
            written = self._session.socket.send(self._out)
        except (BlockingIOError, InterruptedError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            written = 0
        except OSError:
            self._end(_LOST)
            return
        del self._out[:written]
        self._sent_at = self._loop.time()
        self._watch_writable(bool(self._out))
        if not self._out:
            done, self._unwritten[:] = [*self._unwritten], []
            for each in done:
                each.on_answer(DONE)

    def _watch_writable(self, wanted: bool) -> None:
        if wanted and not self._awaits_writable:
            self._loop.add_writer(self._session.socket, self._flush)
        elif not wanted and self._awaits_writable:
            self._loop.remove_writer(self._session.socket)
        self._awaits_writable = wanted

    # -- from the server

    def _read(self) -> None:
        try:
            data = self._session.socket.recv(_PIECE)
            while data and (more := self._pending()):
                data += self._session.socket.recv(more)
            if not data or not self._budget.spend(len(data)):
                raise MalformedPacket
            for each in self._reader.feed(data):
                self._acknowledge(each)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except (OSError, MalformedPacket):
            self._end(_LOST)
            return
        self._pinged = False
        while self._held and len(self._unacknowledged) < self._session.most_in_flight:
            self._write(*self._held.popleft())

    def _pending(self) -> int:
        """Bytes that are decrypted: for these, the socket does not become readable again."""
        made = self._session.socket
        return made.pending() if isinstance(made, ssl.SSLSocket) else 0

    def _acknowledge(self, acknowledgement: Acknowledgement) -> None:
        kind, id, code = acknowledgement
        if kind == PUBREC and code < _FAILURE:
            if id in self._unacknowledged:
                self._send(release(id))
            return
        publication = self._unacknowledged.pop(id, None)
        if publication is not None:
            publication.on_answer(_outcome(code))

    def _tick(self) -> None:
        now = self._loop.time()
        quiet = self._session.keepalive or math.inf
        if not self._end_if_late(now) and now - self._sent_at >= quiet:
            if self._pinged:
                self._end(_LOST)
            else:
                self._pinged = True
                self._send(PINGREQ)
        if not self.lost:
            oldest = self._oldest()
            self._set_timer(now + _TICK if oldest is None else min(now + _TICK, oldest.due))

    def _set_timer(self, at: float) -> None:
        self._timer.cancel()
        self._tick_at = at
        self._timer = self._loop.call_at(at, self._tick)

    def _oldest(self) -> _Publication | None:
        return next(iter(self._unacknowledged.values()), None) or next(iter(self._unwritten), None)

    def _end_if_late(self, now: float) -> bool:
        """End the connection if a publication has no answer in time: its packet identifier would stay in use."""
        oldest = self._oldest()
        if oldest is None or oldest.due > now:
            return False
        late = [each for each in (*self._unacknowledged.values(), *self._unwritten) if each.due <= now]
        for id in [id for id, each in self._unacknowledged.items() if each.due <= now]:
            del self._unacknowledged[id]
        self._unwritten[:] = [each for each in self._unwritten if each.due > now]
        self._end(_CLOSED)
        for each in late:
            each.on_answer(_TOO_LATE)
        return True

    # -- the end

    def close(self) -> None:
        """Disconnect; unacknowledged publications have failed."""
        if not self.lost:
            self._out.extend(DISCONNECT)
            self._flush()
        self._end(_CLOSED)

    def _end(self, answer: Answer) -> None:
        if self.lost:
            return
        self.lost = True
        self._timer.cancel()
        self._loop.remove_reader(self._session.socket)
        self._watch_writable(False)
        self._session.socket.close()
        left = [(each.on_answer, answer) for each in (*self._unacknowledged.values(), *self._unwritten)]
        left += [(on_answer, _UNSENT) for _, _, on_answer in self._held]  # they are not at fault
        for each in (self._unacknowledged, self._unwritten, self._held):
            each.clear()
        for on_answer, its in left:
            on_answer(its)


def _outcome(code: int) -> Answer:
    """The meaning of the reason code of an acknowledgement (MQTT 5, 3.4.2.1); version 3.1.1 only has success."""
    if code < _FAILURE:
        return DONE
    reason = f"the server answered 0x{code:02x}"
    if code in _REFUSED:
        return Answer(DeliveryOutcome.REFUSED, reason, code)
    if code in DENIED:
        return Answer(DeliveryOutcome.CREDENTIAL, reason, code)
    return Answer(DeliveryOutcome.WAIT if code in _RETRY_LATER else DeliveryOutcome.FAILED, reason, code)
