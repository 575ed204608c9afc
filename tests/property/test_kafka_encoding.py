"""The template for plain records says what the mapping says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridges.kafka.encoding import EventEncoder
from bridges.kafka.records import RecordReader


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
