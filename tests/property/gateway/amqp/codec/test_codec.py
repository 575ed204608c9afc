"""The codec on any value and on any bytes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from gateway.amqp.codec.codec import decode, decode_all, encode, skip
from gateway.errors import DECODE_ERROR
from tests.support.amqp.strategies import VALUES, mutated, result_or_condition, same

ANY_BYTES = st.binary(max_size=200) | mutated(VALUES.map(encode))


@given(VALUES)
def test_a_value_comes_back_in_type_and_value(value):
    encoded = encode(value)
    decoded = decode_all(encoded)
    assert same(decoded, value)
    assert encode(decoded) == encoded


@given(VALUES, st.binary(max_size=5), st.binary(max_size=5))
def test_skip_ends_where_decode_ends(value, before, after):
    data = before + encode(value) + after
    end = len(data) - len(after)
    assert skip(data, len(before)) == end
    assert decode(data, len(before))[1] == end


@given(ANY_BYTES)
@example(b"")
@example(b"\x00" * 100)
@example(b"\xc1\x03\x02\x45\x45")
def test_any_bytes_give_a_value_or_a_decode_error(data):
    result = result_or_condition(decode, data)
    if result != DECODE_ERROR:
        value, end = result
        assert skip(data) == end <= len(data)
        assert same(decode_all(encode(value)), value)


@given(ANY_BYTES)
def test_skip_of_any_bytes_ends_inside_them_or_is_a_decode_error(data):
    result = result_or_condition(skip, data)
    assert result == DECODE_ERROR or 0 < result <= len(data)
