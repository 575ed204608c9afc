"""The readable headers of a message are the same, whether C or Python makes them of its properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.kafka.records import headers
from gateway.amqp.codec.codec import Long, Symbol, Timestamp, Ubyte, Uint, Ulong, encode
from gateway.amqp.message import _sections
from gateway.amqp.message.section_index import opened, walk
from gateway.errors import AmqpError
from tests.bench.shapes import shapes
from tests.support.amqp.strategies import AP_SECTIONS, MESSAGES, PROPERTIES_SECTIONS, mutated


def outcome(data: bytes) -> object:
    """The headers, or the condition and text of the error."""
    try:
        return headers.readable_headers(data, walk(data))
    except AmqpError as error:
        return error.condition, error.description


def both(data: bytes) -> tuple[object, object]:
    """With C and without."""
    with pytest.MonkeyPatch.context() as patch:
        ours = outcome(data)
        for name in ("map_texts", "list_texts"):
            patch.setattr(headers, name, lambda *_: ...)
        return ours, outcome(data)


@given(MESSAGES | mutated(MESSAGES) | mutated(AP_SECTIONS) | mutated(PROPERTIES_SECTIONS))
def test_headers_are_the_same_in_c_and_in_python(data: bytes) -> None:
    ours, general = both(data)
    assert repr(ours) == repr(general)


@pytest.mark.parametrize("name", shapes.recorded())
def test_headers_of_what_clients_send_are_made_in_c(name: str) -> None:
    data = shapes.recorded()[name]
    ours, general = both(data)
    assert ours == general
    layout = walk(data)
    if layout.app < layout.body:
        first, end, _ = opened(data, layout.app)
        assert _sections.map_texts(data, first, end, bytes.decode) is not ...
    if layout.properties < layout.app:
        first, end, count = opened(data, layout.properties)
        assert _sections.list_texts(data, first, end, headers._PROPERTIES[:count]) is not ...


@given(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1).map(Long)
    | st.integers(0, 255).map(Ubyte)
    | st.integers(0, 2**32 - 1).map(Uint)
    | st.integers(0, 2**64 - 1).map(Ulong)
    | st.integers(-(2**63), 2**63 - 1).map(Timestamp)
    | st.text(max_size=300)
    | st.text(st.characters(max_codepoint=127), max_size=300).map(Symbol)
    | st.binary(max_size=300)
)
def test_a_value_has_the_text_of_its_type(value: object) -> None:
    item = encode(value)  # type: ignore[arg-type]
    data = b"\xa1\x01n" + item
    expected = [("n", headers._TEXTS[type(value)](value))]  # type: ignore[arg-type]
    assert _sections.map_texts(data, 0, len(data), bytes.decode) == expected
    assert _sections.list_texts(item, 0, len(item), ("n",)) == ([] if value is None else expected)


_NAME = b"\xa1\x01n"
_RARE = b"", b"\x56\x02", b"\xa1\x01\xff", b"\xa3\x01\xff", b"\x72\x00\x00\x00\x00", b"\x45", b"\x00\x53\x01\x40"


@pytest.mark.parametrize("data", [*(_NAME + value for value in _RARE), b"\xa1\x05n", b"\xb1\x00\x00\x00\x01n@", b"@@"])
def test_rare_and_malformed_entries_are_left_to_python(data: bytes) -> None:
    assert _sections.map_texts(data, 0, len(data), bytes.decode) is ...


def test_names_that_cannot_be_headers_are_left_out_and_errors_are_raised() -> None:
    data = b"\xa1\x01a\x40\xa1\x01b\x41"
    assert _sections.map_texts(data, 0, len(data), {b"a": None, b"b": "b"}.get) == [("b", b"true")]  # type: ignore[arg-type]
    with pytest.raises(UnicodeDecodeError):
        _sections.map_texts(b"\xa1\x01\xff\x40", 0, 4, bytes.decode)


@pytest.mark.parametrize(
    "arguments",
    [(), (b"", 0, 1, ()), (b"", 1, 0, ()), (b"", -1, 0, ()), ("", 0, 0, ()), (b"", "0", 0, ()), (b"", 0, 0, [])],
)
def test_what_is_no_list_is_left_to_python(arguments: tuple[object, ...]) -> None:
    assert _sections.list_texts(*arguments) is ...  # type: ignore[arg-type]
    assert _sections.list_texts(b"\x40\x41", 0, 2, ("a",)) is _sections.list_texts(b"\x40", 0, 1, ("a", "b")) is ...
    assert _sections.map_texts(*arguments[:3]) is ...  # type: ignore[arg-type]
