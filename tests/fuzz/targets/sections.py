"""The bytes of a message: the walk in C finds what the walk in Python finds, and splices change nothing else."""

from __future__ import annotations

from gateway.amqp.message import _sections, hop, section_index, sections
from gateway.amqp.message.hop import EVENTS, ROUTING, TARGETED
from gateway.amqp.proton import _batch
from gateway.errors import AmqpError
from tests.support.amqp.strategies import result_or_condition

WORDS = tuple(bytes((0, 0x53, code)) for code in range(0x70, 0x79))


def one(data: bytes) -> None:
    """Walk, take off, put on, look for a field."""
    found = result_or_condition(section_index._walk, data)
    assert result_or_condition(section_index.walk, data) == found
    _sections.may_be_annotated(data)
    for start in (0, len(data) // 2, len(data)):
        _sections.leading_fields(data, start)
        _sections.properties_field(data, start, start % 14)
    _sections.add_annotations(data, {b"\xa3\x01a": b"\x40"})
    _sections.remove_annotations(data, {b"address-cookie": 1}, b"x-opt-a")
    _batch.largest_frame([data[:7], data[7:]])
    _batch.sender_attaches(data)
    for names in (ROUTING, TARGETED, EVENTS):
        hop.only(data, names)
    if isinstance(found, section_index.SectionOffsets):
        _spliced(data, found)


def _spliced(data: bytes, found: section_index.SectionOffsets) -> None:
    assert sections.splice(data, found) == data
    try:
        before = sections.delivery_annotations(data, found)
    except AmqpError:
        return
    edited = sections.edit_map(data[found.da : found.ma], put={"x-opt-a": b"\x40"})
    changed = sections.splice(data, found, da=edited)
    after = sections.delivery_annotations(changed, section_index.walk(changed))
    assert after.pop("x-opt-a", 0) is None
    before.pop("x-opt-a", None)
    assert list(map(repr, after)) == list(map(repr, before)), "a key may be NaN, which equals nothing"
