"""The walk in large steps finds what the walk of every form finds, and refuses what that refuses."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Array, Described, MapKey, Symbol, Value, decode, encode
from gateway.amqp.message import _sections, hop, properties, section_index
from gateway.amqp.message.hop import EVENTS, ROUTING, TARGETED
from gateway.amqp.message.sections import delivery_annotations, header
from gateway.errors import AmqpError
from gateway.response import fields
from tests.support.amqp.messages import section
from tests.support.amqp.strategies import (
    AP_SECTIONS,
    BODIES,
    DA_SECTIONS,
    FOOTER_SECTIONS,
    HEADER_SECTIONS,
    MA_SECTIONS,
    MESSAGES,
    PROPERTIES_SECTIONS,
    SCALARS,
    mutated,
    result_or_condition,
)

_PARTS = (HEADER_SECTIONS, DA_SECTIONS, MA_SECTIONS, PROPERTIES_SECTIONS, AP_SECTIONS, BODIES, FOOTER_SECTIONS)
_ANY_ORDER = st.lists(st.one_of(*_PARTS), max_size=9).map(b"".join)
_NAMES = st.sampled_from([*sorted(name.decode() for name in TARGETED | EVENTS), "foo", "x-opt-a", ""])
_NAMED = st.dictionaries(_NAMES.map(Symbol) | _NAMES, SCALARS, max_size=6).map(lambda entries: section(0x71, entries))
_ANNOTATED = st.tuples(st.just(b"") | HEADER_SECTIONS, _NAMED, st.just(b"") | MA_SECTIONS, BODIES).map(b"".join)


@given(MESSAGES | mutated(MESSAGES) | _ANY_ORDER | mutated(_ANY_ORDER))
def test_both_walks_agree(data: bytes) -> None:
    assert result_or_condition(section_index.walk, data) == result_or_condition(section_index._walk, data)


@given(MESSAGES | mutated(MESSAGES) | _ANY_ORDER | mutated(_ANY_ORDER))
def test_c_knows_every_legal_form(data: bytes) -> None:
    """Python is left with what is malformed: sections, single fields, leading fields."""
    found = result_or_condition(section_index._walk, data)
    legal = isinstance(found, section_index.SectionOffsets)
    assert (_sections.section_offsets(data) is not ...) is legal
    if not legal or found.properties == found.app:
        return
    for index in (0, 4, 12):
        field = result_or_condition(properties._property_field, data, found, index)
        known = _sections.properties_field(data, found.properties, index) is not ...
        assert known or not isinstance(field, bytes | None)
    leading = result_or_condition(fields._leading_fields, data, found)
    assert (_sections.leading_fields(data, found.properties) is not ...) is (len(leading) == 3)


@given(MESSAGES | mutated(MESSAGES) | mutated(HEADER_SECTIONS))
def test_the_header_tells_whether_there_may_be_a_ttl(data: bytes) -> None:
    found = _placed(data)
    if found is None:
        return
    try:
        listed = header(data, found)
    except AmqpError:
        return
    assert _sections.may_have_ttl(data) is (len(listed) > 2 and listed[2] is not None)


@given(MESSAGES | mutated(MESSAGES) | _ANY_ORDER | mutated(_ANY_ORDER))
def test_the_first_bytes_tell_whether_there_are_delivery_annotations(data: bytes) -> None:
    """False only where the general walk finds none; true only where it finds some, or in unusual forms."""
    found, may_be = _placed(data), _sections.may_be_annotated(data)
    if found is not None and not may_be:
        assert found.da == found.ma
    if may_be and _sections.section_offsets(data) is not ...:
        assert found is not None
        assert found.da < found.ma


@given(_ANNOTATED | mutated(_ANNOTATED) | MESSAGES, st.sampled_from([ROUTING, TARGETED, EVENTS]))
@example(b"\x00Sq\xc1\x16\x02\xa3\x0eaddress-cookier\x7f\x80\x00\x01", ROUTING)
def test_only_what_is_understood_is_left(data: bytes, names: frozenset[bytes]) -> None:
    left, found = hop.only(data, names), _placed(data)
    if found is None:
        assert left == data
        return
    assert left.startswith(data[: found.da])
    assert left.endswith(data[found.ma :])
    try:
        before = delivery_annotations(data, found)
    except (AmqpError, TypeError):
        return
    after = delivery_annotations(left, section_index.walk(left))
    assert {name: encode(value) for name, value in after.items()} == {  # encoded, for a NaN equals nothing
        name: encode(value) for name, value in before.items() if isinstance(name, str) and name.encode() in names
    }


@given(st.lists(st.one_of(*_PARTS), max_size=9).map(b"".join), st.integers(0, 60))
def test_values_are_counted_in_c_as_they_are_decoded(data: bytes, most: int) -> None:
    position = found = 0
    while position < len(data):
        value, position = decode(data, position)
        found += _count(value)
    assert _sections.count_values(data, 0, len(data), most) == min(found, most + 1)


def _count(value: Value) -> int:
    """Values at all depths; an array counts the values in it, but nothing below these."""
    match value:
        case Described(descriptor, inner):
            return _count(descriptor) + _count(inner)
        case MapKey(value=inner):
            return _count(inner)
        case Array(_, items):
            return 1 + len(items)
        case list():
            return 1 + sum(map(_count, value))
        case dict():
            return 1 + sum(map(_count, [*value.keys(), *value.values()]))
        case _:
            return 1


@given(st.integers(1, 4000))
def test_many_sections_are_walked_in_proportion(count: int) -> None:
    data = b"\x00\x53\x75\xa0\x00" * count
    assert section_index.walk(data) == section_index.SectionOffsets(0, 0, 0, 0, 0, 0, 0, len(data), len(data))


@given(MESSAGES | mutated(MESSAGES) | mutated(PROPERTIES_SECTIONS), st.integers(0, 13))
def test_a_field_is_the_same_however_it_is_found(data: bytes, index: int) -> None:
    found = _placed(data)
    if found is not None:
        general = result_or_condition(properties._property_field, data, found, index)
        if found.properties == found.app:
            general = None
        assert result_or_condition(properties.property_field, data, found, index) == general


@given(MESSAGES | mutated(MESSAGES) | mutated(PROPERTIES_SECTIONS))
def test_the_leading_fields_are_the_same_however_they_are_found(data: bytes) -> None:
    found = _placed(data)
    if found is not None and found.properties < found.app:
        general = result_or_condition(fields._leading_fields, data, found)
        assert result_or_condition(fields.leading_fields, data, found) == general


@given(MESSAGES | mutated(MESSAGES) | mutated(PROPERTIES_SECTIONS), st.binary(max_size=300))
def test_annotations_are_put_on_as_python_would(data: bytes, section: bytes) -> None:
    expected = result_or_condition(_put_on, data, section)
    for reply_to in _reply_tos(data):
        assert _sections.add_annotations(data, {reply_to: section}) in (..., expected)
    assert _sections.add_annotations(data, {}) is ...


def _put_on(data: bytes, section: bytes) -> bytes | None:
    found = section_index.walk(data)
    properties.property_field(data, found, fields.REPLY_TO)  # or its error
    return None if found.da != found.ma else data[: found.da] + section + data[found.da :]


def _reply_tos(data: bytes) -> set[bytes]:
    """All that could be taken for its reply-to: the only one that counts is there if there is one."""
    found = _placed(data)
    try:
        own = None if found is None else properties.property_field(data, found, fields.REPLY_TO)
    except AmqpError:
        own = None
    return {fields.NULL, own or fields.NULL}


@given(MESSAGES | mutated(MESSAGES) | mutated(PROPERTIES_SECTIONS), st.binary(max_size=3))
def test_annotations_are_taken_off_as_python_would(data: bytes, mark: bytes) -> None:
    found = _placed(data)
    known = {data[found.da : found.ma]: "it"} if found is not None else {}
    assert _sections.remove_annotations(data, known, mark) in (
        ...,
        result_or_condition(_annotations_removed, data, mark),
    )
    assert _sections.remove_annotations(data, {}, mark) is ...


def _annotations_removed(data: bytes, mark: bytes) -> tuple[str, bytes, bool]:
    found = section_index.walk(data)
    onward = data.find(mark, found.properties, found.app) >= 0
    onward = onward or properties.property_field(data, found, fields.REPLY_TO) is not None
    return "it", data[: found.da] + data[found.ma :], onward


def _placed(data: bytes) -> section_index.SectionOffsets | None:
    try:
        return section_index.walk(data)
    except AmqpError:
        return None
