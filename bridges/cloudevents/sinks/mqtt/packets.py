"""The MQTT packets of a client that only publishes (MQTT 3.1.1 and 5, sections 3.3 to 3.7 and 3.14). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

PUBACK: Final = 4
PUBREC: Final = 5
PUBCOMP: Final = 7
_PINGRESP: Final = 13
_ACKNOWLEDGEMENTS: Final = frozenset((PUBACK, PUBREC, PUBCOMP))
PINGREQ: Final = b"\xc0\x00"
DISCONNECT: Final = b"\xe0\x00"
_PUBLISH: Final = 0x30
_PUBREL: Final = b"\x62\x02"
_EXPIRY: Final = b"\x02"
_CONTENT_TYPE: Final = b"\x03"
_USER_PROPERTY: Final = b"\x26"
_HIGHEST_LENGTH: Final = 4
"""Bytes of a length at most (1.5.5)."""


class MalformedPacket(Exception):
    """The server sent what no server may send to a client without subscriptions."""


class Acknowledgement(NamedTuple):
    """A PUBACK, PUBREC or PUBCOMP; version 3.1.1 has no reason codes, and its `code` is 0."""

    kind: int
    packet_id: int
    code: int


def packet_length(size: int) -> bytes:
    """A length as a variable byte integer (1.5.5)."""
    found = bytearray()
    while size > 0x7F:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    found.append(size)
    return bytes(found)


def text(value: str) -> bytes:
    """A UTF-8 string with its length (1.5.4); raises OverflowError for more than 65,535 bytes."""
    encoded = value.encode()
    return len(encoded).to_bytes(2) + encoded


def publish_properties(content_type: str | None, expiry: int | None, user: Sequence[tuple[str, str]]) -> bytes:
    """The properties of a PUBLISH of version 5 (3.3.2.3), with their length; `expiry` in seconds."""
    parts = [_USER_PROPERTY + text(name) + text(value) for name, value in user]
    if content_type is not None:
        parts.append(_CONTENT_TYPE + text(content_type))
    if expiry is not None:
        parts.append(_EXPIRY + expiry.to_bytes(4))
    found = b"".join(parts)
    return packet_length(len(found)) + found


class PublishHeader(NamedTuple):
    """The parts of a PUBLISH that all events of a subscription share."""

    first: int
    topic: bytes
    has_id: bool
    """Not with QoS 0."""

    def packet(self, packet_id: int, properties: bytes, payload: bytes) -> bytes:
        """A packet; `properties` is empty in version 3.1.1."""
        id = packet_id.to_bytes(2) if self.has_id else b""
        size = packet_length(len(self.topic) + len(id) + len(properties) + len(payload))
        return b"%c%b%b%b%b%b" % (self.first, size, self.topic, id, properties, payload)


def publish_header(topic: str, qos: int, *, retain: bool) -> PublishHeader:
    """The shared parts of PUBLISH packets (3.3.1)."""
    return PublishHeader(_PUBLISH | qos << 1 | retain, text(topic), qos > 0)


def release(packet_id: int) -> bytes:
    """PUBREL (3.6)."""
    return _PUBREL + packet_id.to_bytes(2)


class PacketReader:
    """Splits what a server sends into packets."""

    def __init__(self, largest: int) -> None:
        """`largest`: bytes that a packet may have."""
        self._largest: Final = largest
        self._data = b""

    def feed(self, data: bytes) -> Iterator[Acknowledgement]:
        """Acknowledgements in received bytes; raises MalformedPacket, also for the end of the session."""
        data = self._data + data if self._data else data
        at, end = 0, len(data)
        while (found := self._body(data, at)) is not None:
            start, stop = found
            if stop > end:
                break
            acknowledgement = _acknowledgement(data[at] >> 4, data[start:stop])
            if acknowledgement is not None:
                yield acknowledgement
            at = stop
        self._data = data[at:]

    def _body(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Where the body of the packet at `at` begins and ends; None if its length is not complete."""
        size, where = 0, at + 1
        for shift in range(_HIGHEST_LENGTH):
            if where >= len(data):
                return None
            size |= (data[where] & 0x7F) << 7 * shift
            where += 1
            if data[where - 1] < 0x80:
                if size > self._largest:
                    break
                return where, where + size
        raise MalformedPacket


def _acknowledgement(kind: int, body: bytes) -> Acknowledgement | None:
    """None for PINGRESP."""
    if kind in _ACKNOWLEDGEMENTS and len(body) >= 2:
        return Acknowledgement(kind, int.from_bytes(body[:2]), body[2] if len(body) > 2 else 0)
    if kind == _PINGRESP and not body:
        return None
    raise MalformedPacket
