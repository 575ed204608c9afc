"""Packets of an MQTT server in pieces, and bytes that are none."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bridges.cloudevents.sinks.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    Acknowledgement,
    MalformedPacket,
    PacketReader,
)

LARGEST = 1000
PINGRESP = b"\xd0\x00"
MEANING = {
    b"\x40\x03\x00\x07\x97": Acknowledgement(PUBACK, 7, 0x97),
    b"\x50\x02\x00\x08": Acknowledgement(PUBREC, 8, 0),
    b"\x70\x04\xff\xff\x00\x00": Acknowledgement(PUBCOMP, 65_535, 0),
}


@given(st.lists(st.sampled_from([*MEANING, PINGRESP])), st.lists(st.integers(0, 60)))
def test_what_comes_in_pieces_is_what_came(packets: list[bytes], cuts: list[int]) -> None:
    data, reader, found = b"".join(packets), PacketReader(LARGEST), list[Acknowledgement]()
    bounds = [0, *sorted(min(each, len(data)) for each in cuts), len(data)]
    for first, stop in pairwise(bounds):
        found += reader.feed(data[first:stop])
    assert found == [MEANING[each] for each in packets if each in MEANING]


@given(st.binary(max_size=50))
def test_whatever_comes_is_read_or_malformed(data: bytes) -> None:
    try:
        for each in PacketReader(LARGEST).feed(data):
            assert 0 <= each.packet_id <= 65_535
    except MalformedPacket:
        pass
