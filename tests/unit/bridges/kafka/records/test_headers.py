"""Readable headers are made of bytes as they came; what is malformed in them is refused all the same (KM-5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.kafka.records.envelope import Header
from bridges.kafka.records.headers import readable_headers
from gateway.amqp.codec.codec import Symbol, Timestamp, encode
from gateway.amqp.codec.encoder import encode_list, encode_map
from gateway.amqp.message.sections import APPLICATION_PROPERTIES, PROPERTIES, section, walk
from gateway.errors import DECODE_ERROR, AmqpError

CUT, LATIN = b"\xa1\x09cut", b"\xa1\x01\xff"
KEY, VALUE = encode("key"), encode("value")


def headers(data: bytes) -> list[Header]:
    return readable_headers(data, walk(data))


def application(*entries: tuple[bytes, bytes]) -> bytes:
    return b"\x00\x53\x74" + encode_map(entries)


def fields(*encoded: bytes) -> bytes:
    return b"\x00\x53\x73" + encode_list(list(encoded))


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)


@given(st.dictionaries(TEXT, TEXT))
def test_any_text_is_a_header(properties: dict[str, str]) -> None:
    expected = [(name, value.encode()) for name, value in properties.items() if not name.startswith("amqp.")]
    for _ in range(2):  # names are remembered
        assert headers(section(APPLICATION_PROPERTIES, properties)) == expected


@pytest.mark.parametrize("name", ["long" * 100, "ß", "amqp", ""])
def test_names(name: str) -> None:
    assert headers(application((encode(name), VALUE))) == [(name, b"value")]
    assert headers(application((b"\xb1" + len(name.encode()).to_bytes(4, "big") + name.encode(), VALUE))) == [
        (name, b"value")
    ]


@pytest.mark.parametrize("name", ["amqp.bare", "amqp.", "cut\0off", "amqp." + "long" * 100])
def test_names_that_are_no_headers(name: str) -> None:
    assert headers(application((encode(name), VALUE), (KEY, VALUE))) == [("key", b"value")]


def test_what_has_no_text_is_left_out() -> None:
    assert headers(application((encode(Symbol("s")), VALUE), (KEY, encode([1])))) == []
    assert headers(fields(encode([1]), encode(Timestamp(5)), encode("to"))) == [
        ("amqp.user-id", b"5"),
        ("amqp.to", b"to"),
    ]


def test_an_application_property_comes_before_the_property_of_its_name() -> None:
    properties = section(PROPERTIES, [None] * 6 + [Symbol("text/plain"), Symbol("gzip")])
    assert headers(properties + application((encode("content-type"), VALUE))) == [
        ("content-type", b"value"),
        ("amqp.content-encoding", b"gzip"),
    ]


@pytest.mark.parametrize(
    "data",
    [
        application((KEY, VALUE), (KEY, VALUE)),
        application((encode("amqp.x"), VALUE), (encode("amqp.x"), VALUE)),
        application((LATIN, VALUE)),
        application((KEY, LATIN)),
        application((KEY, CUT)),
        application((CUT, VALUE)),
        application((KEY, b"")),
        application((KEY, b"\x83\x00")),
        application((KEY, b"\x3f")),
        b"\x00\x53\x74\xc1\x0b\x01" + KEY + VALUE[:5],
        fields(LATIN),
        fields(CUT),
        fields(b"\xa3\x01\xff"),
        fields(b"\x83\x00"),
        fields(*[VALUE] * 14),
        b"\x00\x53\x73\xc0\x08\x02" + VALUE,
        b"\x00\x53\x73\xc0\x0f\x01" + VALUE + VALUE,
    ],
)
def test_what_is_malformed_is_refused(data: bytes) -> None:
    with pytest.raises(AmqpError) as refused:
        headers(data)
    assert refused.value.condition == DECODE_ERROR
