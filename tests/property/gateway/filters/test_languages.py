"""Filters: the closure back end against the naive evaluator, and the rules of values against plain mathematics."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.amqp.codec import codec
from gateway.amqp.message import sections
from gateway.filters import like
from gateway.filters.decimals import decimal_value, decoded
from gateway.filters.evaluate.access import MessageAccess
from gateway.filters.evaluate.compile import compile_filter, extraction, verdict
from gateway.filters.predicate import Exists, FieldReference, IsNull, Matches, MessageSection, bind, fields_of
from gateway.filters.values import family, folded, frozen, matcher
from tests.support.amqp import strategies
from tests.support.filters import naive_filter as naive
from tests.support.filters import strategies as random
from tests.support.plugins.examples import examples

ACCESS = MessageAccess()


@settings(max_examples=examples(500), deadline=None)
@given(random.PREDICATES, st.lists(random.messages(), min_size=1, max_size=3))
def test_a_closure_says_of_any_message_what_the_naive_evaluator_says(predicate: Any, messages: list[bytes]) -> None:
    matches = compile_filter(predicate, ACCESS)
    for data in messages:
        expected = naive.evaluate(predicate, naive.message_fields(data))
        assert matches((data, sections.walk(data))) is (expected is True)


@settings(max_examples=examples(300), deadline=None)
@given(random.PREDICATES, random.messages())
def test_three_values_are_those_of_the_naive_evaluator(predicate: Any, data: bytes) -> None:
    slots, read = extraction(fields_of(predicate), ACCESS)
    result = verdict(predicate, slots)(read((data, sections.walk(data))))
    assert result is naive.evaluate(predicate, naive.message_fields(data))


@settings(max_examples=examples(300), deadline=None)
@given(random.LEAVES, random.messages())
def test_terms(predicate: Any, data: bytes) -> None:
    slots, read = extraction(fields_of(predicate), ACCESS)
    result = verdict(predicate, slots)(read((data, sections.walk(data))))
    assert result is naive.evaluate(predicate, naive.message_fields(data))


@pytest.mark.row("FX-2-1")
@settings(max_examples=examples(200), deadline=None)
@given(random.PREDICATES, random.messages(), st.data())
def test_a_filter_says_yes_or_no_to_malformed_messages_too(predicate: Any, data: bytes, draw: st.DataObject) -> None:
    layout = sections.walk(data)
    bad = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        bad[draw.draw(st.integers(0, len(bad) - 1))] = draw.draw(st.integers(0, 255))
    cut = draw.draw(st.integers(0, len(bad)))
    matches = compile_filter(predicate, ACCESS)
    assert matches((bytes(bad), layout)) in (True, False)
    assert matches((bytes(bad[:cut]), layout)) in (True, False)


def _named(fields: naive.Fields) -> list[FieldReference]:
    """Every field of a message that a filter can name."""
    return [
        FieldReference(section, str(name))
        for section, entries in fields.items()
        for name, _ in entries
        if type(name) in (str, codec.Symbol)
    ]


@settings(max_examples=examples(300), deadline=None)
@given(strategies.MESSAGES)
def test_fields_are_found_in_any_form_a_peer_may_send(data: bytes) -> None:
    fields = naive.message_fields(data)
    for field in (
        *_named(fields),
        FieldReference(MessageSection.APPLICATION_PROPERTIES, "no such"),
        FieldReference(MessageSection.HEADER, "ttl"),
    ):
        value = naive.worth(field, fields)
        found = None if value in (None, naive.MISSING) else Matches(field, frozen(value))
        for predicate in (Exists(field), IsNull(field), *([found] if found else [])):
            expected = naive.evaluate(predicate, fields)
            assert compile_filter(predicate, ACCESS)((data, sections.walk(data))) is expected


@settings(max_examples=examples(300))
@given(random.PREDICATES)
def test_equal_predicates_are_one_and_hashable(predicate: Any) -> None:
    assert bind(predicate, "9") == predicate
    assert hash(bind(predicate, "9")) == hash(predicate)


@settings(max_examples=examples(1000), deadline=None)
@given(random.VALUES, random.VALUES)
def test_strict_match_is_the_naive_one(reference: Any, value: Any) -> None:
    assert matcher(reference)(value) is naive.strict(reference, value)


@given(st.sampled_from([4, 8, 16]), st.data())
def test_decimals_decode_to_the_number_that_was_encoded(width: int, data: st.DataObject) -> None:
    digits, lowest, highest = {4: (7, -101, 90), 8: (16, -398, 369), 16: (34, -6176, 6111)}[width]
    coefficient = data.draw(st.integers(-(10**digits) + 1, 10**digits - 1))
    exponent = data.draw(st.integers(lowest, highest))
    number = decoded(random.bid(width, coefficient, exponent))
    assert number is not None
    assert Fraction(number) == Fraction(coefficient) * Fraction(10) ** exponent
    assert number.as_tuple().exponent == exponent


@given(st.sampled_from([(4, codec.Decimal32), (8, codec.Decimal64), (16, codec.Decimal128)]), st.data())
def test_any_decimal_bytes_are_read_as_the_bits_say(form: Any, data: st.DataObject) -> None:
    width, kind = form
    raw = kind(data.draw(st.binary(min_size=width, max_size=width)))
    number, expected = decoded(raw), naive.fraction(raw)
    assert (number is None) == (expected is None)
    assert number is None or Fraction(number) == expected


@given(st.decimals(allow_nan=True, places=None) | st.decimals(-(10**21), 10**21, places=18))
def test_a_decimal_is_kept_when_38_digits_hold_it(value: Decimal) -> None:
    found, expected = decimal_value(value), naive.number(value)
    assert (found is None) == (expected is None)
    assert found is None or Fraction(found) == expected


TEXTS = st.text("ab%_\\é", max_size=12)


@settings(max_examples=examples(2000))
@given(st.text("abé%", max_size=25), TEXTS, st.sampled_from([None, "\\", "a"]))
def test_like_is_like_the_table_of_prefixes(text: str, pattern: str, escape: str | None) -> None:
    matches = like.compiled(pattern, escape)
    expected = naive.like(text, pattern, escape or "")
    assert (matches(text) if matches else None) is expected


@settings(max_examples=examples(500))
@given(
    st.lists(st.text("ab_", min_size=1, max_size=4) | st.text("abcdefghijkl_é", max_size=12), max_size=5),
    st.text("ab", max_size=300) | st.text("abé", max_size=40) | st.text("abcdefghijkl", max_size=200),
)
def test_like_finds_parts_with_blanks_in_turn(parts: list[str], text: str) -> None:
    pattern = "%" + "%".join(parts) + "%"
    matches = like.compiled(pattern)
    assert matches is not None
    assert matches(text) is naive.like(text, pattern, "")


@given(st.text())
def test_folding_lowers_each_character_alone(text: str) -> None:
    assert folded(text) == naive.lowered(text)
    assert len(folded(text)) == len(text)


@pytest.mark.parametrize("point", range(0, 0x110000, 0x11000))
def test_folding_keeps_to_one_character(point: int) -> None:
    block = [chr(c) for c in range(point, point + 0x11000) if not 0xD800 <= c < 0xE000]
    assert [folded(character) for character in block] == [naive.lowered(character) for character in block]
    assert [len(folded(character)) for character in block] == [1] * len(block)


@given(random.VALUES)
def test_every_value_of_a_message_has_a_family_or_is_null(value: Any) -> None:
    assert (family(value) is None) == (value is None)
