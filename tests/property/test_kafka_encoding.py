"""The shortcuts for plain events say what the mapping says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridges.kafka.encoding import EventEncoder, plain_value
from bridges.kafka.records import RecordReader, RecordWriter
from gateway.amqp import sections
from tests.support.messages import message


@given(
    st.none()
    | st.binary(max_size=300)
    | st.sampled_from([b"%d" * 100, b"\x00\x53\x75" * 90, bytes(255), bytes(256)]),
    st.none() | st.binary(max_size=3),
    st.none() | st.just([]) | st.just([("a", b"b")]),
    st.integers(0, 3),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2),
    st.integers(-1, 2**63 - 1),
)
def test_templates_and_mapping_agree(
    value: bytes | None,
    key: bytes | None,
    headers: list[tuple[str, bytes]] | None,
    partition: int,
    offset: int,
    kind: int,
    time: int,
) -> None:
    encoder = EventEncoder()
    for _ in range(2):
        encoded = encoder.encode(key, value, headers, partition, offset, kind, time)
        assert encoded == RecordReader().encode(key, value, headers, partition, offset, kind, time)


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
