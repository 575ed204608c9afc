"""The ttl that remains, written into a remembered header, against a header that is decoded and encoded anew."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from bridges.kafka.records.event import EncodedEvent, header_fields
from bridges.kafka.records.ttl import expired, unexpired
from gateway.amqp.codec.types import Ubyte, Uint, Ulong
from gateway.amqp.message import sections

NOW = 10**10
TTLS = st.one_of(st.none(), st.integers(0, 600).map(Uint), st.integers(0, 2**32 - 1).map(Uint), st.just(Ulong(5)))
FIELDS = st.tuples(
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), st.integers(0, 255).map(Ubyte), st.just("x" * 100)),  # of a wrong type, and long
    TTLS,
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), st.integers(0, 2**32 - 1).map(Uint), st.just(Uint(0x01010101))),
)
REST = st.sampled_from([b"\x00\x53\x75\xa0\x01x", b"\x00\x53\x72\xc1\x01\x00\x00\x53\x77\x43", b""])


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    fields = draw(FIELDS)[: draw(st.integers(0, 5))]
    made = sections.section(sections.HEADER, list(fields))
    head = draw(st.sampled_from([b"", b"\x00\x53\x70\xc0\x02\x01\xff", made]))
    return head + draw(REST)


def naive(event: EncodedEvent) -> EncodedEvent:
    """Decodes and encodes the header of one event."""
    layout = sections.walk(event.data)
    fields: list[Any] = header_fields(event.data, layout) or []
    if len(fields) < 3 or type(fields[2]) is not Uint or event.time <= 0:
        return event
    fields[2] = Uint(max(1, fields[2] - max(0, NOW - event.time)))
    return event._replace(data=sections.section(sections.HEADER, fields) + event.data[layout.da :])


AGES = st.one_of(st.integers(-5, 700), st.integers(0, 2**32), st.just(NOW + 1))
EVENTS = st.lists(st.builds(lambda data, age: EncodedEvent(data, 1, 7, 2, 3, NOW - age), messages(), AGES), max_size=8)
WIDE = EncodedEvent(sections.section(sections.HEADER, [None, None, Uint(300), None, Uint(0x01010101)]), 0, 1, time=NOW)


@given(EVENTS, st.integers(0, 8), st.integers(0, 9), st.booleans())
@example([WIDE, WIDE._replace(time=NOW - 44), WIDE._replace(time=NOW - 45), WIDE._replace(time=NOW - 400)], 0, 9, False)
def test_the_remaining_ttl_is_that_of_a_header_encoded_anew(
    events: list[EncodedEvent], index: int, limit: int, drop: bool
) -> None:
    left = [event for event in events[index:] if not (drop and expired(event, NOW))]
    chosen, after = unexpired(events, index, limit, NOW, drop=drop)
    assert chosen == [naive(event) for event in left[:limit]]
    assert index <= after <= max(index, len(events))
    assert left[len(chosen) :] == [event for event in events[after:] if not (drop and expired(event, NOW))]
