"""The packets of an MQTT client that only publishes, beside those that paho writes."""

from __future__ import annotations

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridges.cloudevents.sinks.mqtt.packets import (
    Acknowledgement,
    MalformedPacket,
    PacketReader,
    packet_length,
    publish_header,
    publish_properties,
    release,
)

LARGEST = 1000
PUBACK_7 = b"\x40\x02\x00\x07"


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001"), (268_435_455, "ffffff7f")],
)
def test_a_length_has_the_bytes_of_the_specification(size: int, expected: str) -> None:
    """MQTT 5, table 1-1."""
    assert packet_length(size).hex() == expected


@pytest.mark.row("CE-B-4", part="properties")
@pytest.mark.parametrize("media", [None, "application/json"])
@pytest.mark.parametrize("expiry", [None, 0, 4_294_967_295])
def test_properties_are_those_of_paho(media: str | None, expiry: int | None) -> None:
    user = [("id", "1"), ("subject", "\u00fc\U0001f600"), ("id", "2"), ("long", "x" * 65_535), ("empty", "")]
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = user
    if media is not None:
        properties.ContentType = media
    if expiry is not None:
        properties.MessageExpiryInterval = expiry
    written = publish_properties(media, expiry, user)
    read = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    assert read.unpack(written)[1] == len(written)  # type: ignore[no-untyped-call]
    assert read.json() == properties.json()  # type: ignore[no-untyped-call]


def test_a_publication_is_its_packet() -> None:
    assert publish_header("a/b", 1, retain=True).packet(258, b"\x00", b"hi").hex() == "330a0003612f620102006869"
    assert publish_header("a/b", 0, retain=False).packet(0, b"", b"hi").hex() == "30070003612f626869"
    assert release(258).hex() == "62020102"


@pytest.mark.parametrize(
    "wrong",
    [
        b"\x30\x05\x00\x01ahi",  # PUBLISH, to a client without subscriptions
        b"\xe0\x00",  # DISCONNECT
        b"\x40\x01\x00",  # no packet identifier
        b"\x40\xff\xff\xff\xff\x01",  # a length of five bytes
        b"\x40\xe9\x07",  # 1001 bytes follow
        b"\xd0\x01x",
        b"\x00\x00",
    ],
)
def test_what_no_server_may_send_is_malformed(wrong: bytes) -> None:
    reader = PacketReader(LARGEST)
    found = list[Acknowledgement]()
    with pytest.raises(MalformedPacket):
        found.extend(reader.feed(PUBACK_7 + wrong))

