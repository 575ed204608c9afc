"""The shortcuts for plain events say what the mapping says."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.kafka.records.fast_encode import EventEncoder, plain_value
from bridges.kafka.records.header_names import encoded
from bridges.kafka.records.mapping import RecordReader, RecordWriter
from gateway.amqp.codec.codec import encode
from gateway.amqp.message import sections
from gateway.amqp.message.sections import DELIVERY_ANNOTATIONS
from tests.support.amqp.messages import message


@pytest.mark.parametrize("names", [("amqp.x",), ("a", "a"), ("content-type",), ("ce_specversion",), ("n" * 1025,)])
def test_names_that_mean_more_are_not_encoded_once_for_all(names: tuple[str, ...]) -> None:
    assert encoded(names) is None
    others = tuple(f"my-{name}-{place}"[:99] for place, name in enumerate(names))
    assert encoded(others) == tuple(map(encode, others))


class Record(NamedTuple):
    """What is read of a Kafka client's record."""

    at: int
    kind_and_time: tuple[int, int]
    content: bytes | None
    name: bytes | None
    others: list[tuple[str, bytes]] | None

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return self.kind_and_time

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes | None:
        return self.name

    def headers(self) -> list[tuple[str, bytes]] | None:
        return self.others


@given(
    st.integers(0, 3) | st.integers(0, 2**62),
    st.lists(
        st.tuples(
            st.sampled_from([1, 1, 1, 2, 700, 1000]),
            st.sampled_from([(1, 5), (1, 5), (1, 5), (2, 5), (1, 6), (1, -1)]),
            st.sampled_from([b"a", b"b", b"%", b"", b"long" * 80, b"LONG" * 80, None]),
            st.sampled_from([None, None, None, b"", b"key"]),
            st.sampled_from([None, None, None, [], [("a", b"b")]]),
        ),
        max_size=20,
    ),
    st.integers(0, 20),
)
def test_a_run_of_records_is_each_of_them(
    start: int, steps: list[tuple[int, Any, Any, Any, Any]], partition: int
) -> None:
    offsets = itertools.accumulate((step for step, *_ in steps), initial=start)
    records = [Record(offset, *rest) for offset, (_, *rest) in zip(offsets, steps, strict=False)]
    each = [
        RecordReader().encode(name, content, others, partition, at, *kind_and_time)
        for at, kind_and_time, content, name, others in records
    ]
    events, mapped = EventEncoder().events(records, partition)
    assert [event.data for event in events] == each
    assert {data for data in each if data[2] != DELIVERY_ANNOTATIONS} <= set(mapped), "those that may have a ttl"
    assert [event[1:] for event in events] == [(partition, at, 0, 0, when[1]) for at, when, *_ in records]


@given(
    st.binary(max_size=300) | st.sampled_from([bytes(255), bytes(256), b""]),
    st.none() | st.just([True]),
    st.none() | st.just({"k": 1}),
    st.none() | st.just({"x-opt-f": 1}),
)
def test_plain_messages_are_their_own_record(
    body: bytes, header: list[bool] | None, app: dict[str, int] | None, footer: dict[str, int] | None
) -> None:
    data = message(body, header=header, app=app, footer=footer)
    value = plain_value(data)
    assert (value is not None) == (header is app is footer is None)
    if value is not None:
        assert RecordWriter("auto").record(data, sections.walk(data)) == (None, value, [])


@given(st.binary(max_size=12), st.binary(max_size=300))
def test_bytes_that_are_not_one_data_section_are_not_plain(head: bytes, tail: bytes) -> None:
    for data in (head + tail, message(tail) + head, message(tail)[: len(head)], b"\x00\x53\x75" + head):
        if (value := plain_value(data)) is not None:
            layout = sections.walk(data)
            assert sections.body_values(data, layout) == [value]
            assert (layout.body, layout.footer) == (0, layout.end)
