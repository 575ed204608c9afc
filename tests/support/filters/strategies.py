"""Random predicates and random messages with fields in common, for the property tests of every back end."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from gateway.amqp.codec import codec
from gateway.amqp.message import sections
from gateway.filters import predicate as p
from gateway.filters.values import frozen

# few names and few values, so that they meet
NAMES = ("a", "b", "n", "ab", "é")
TEXTS = ("", "a", "A", "ab", "a%b", "x_y", "é", "ΑΣ", "ας", "İi", "&a", "abcabcabd")
PATTERNS = ("", "%", "_", "a%", "%b", "%a_", "a\\%b", "%b%a_d", "__", "%_%", "ab\\", "%é%", "a!%b", "_b%_b%")
UUIDS = (uuid.UUID(int=0), uuid.UUID(int=7))
WHOLE = (0, 1, 2, 5, 6, 7, 127, 255)
PROPERTY_NAMES = (
    "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
    "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id",
)  # fmt: skip
HEADER_NAMES = ("durable", "priority", "ttl", "first-acquirer", "delivery-count")


def bid(width: int, coefficient: int, exponent: int) -> bytes:
    """A decimal's bytes: binary integer decimal, the coefficient in the form its size asks for."""
    exponent_bits, bits, bias = {4: (8, 23, 101), 8: (10, 53, 398), 16: (14, 113, 6176)}[width]
    sign, magnitude = int(coefficient < 0), abs(coefficient)
    biased = exponent + bias
    assert 0 <= biased < 3 << (exponent_bits - 2)
    if magnitude < 1 << bits:
        word = sign << (exponent_bits + bits) | biased << bits | magnitude
    else:
        low = bits - 2
        assert magnitude >> low == 4
        word = sign << (exponent_bits + bits) | 3 << (exponent_bits + bits - 2) | biased << low
        word |= magnitude & (1 << low) - 1
    return word.to_bytes(width, "big")


@st.composite
def _decimals(draw: st.DrawFn) -> Any:
    kind, width = draw(st.sampled_from([(codec.Decimal32, 4), (codec.Decimal64, 8), (codec.Decimal128, 16)]))
    if draw(st.integers(0, 4)) == 0:
        return kind(draw(st.binary(min_size=width, max_size=width)))
    return kind(bid(width, draw(st.sampled_from((0, 1, -1, 5, 50, 15, 127, 9_999_999))), draw(st.integers(-20, 20))))


_KINDS = (
    (codec.Ubyte, 0, 2**8 - 1), (codec.Ushort, 0, 2**16 - 1), (codec.Uint, 0, 2**32 - 1), (codec.Ulong, 0, 2**64 - 1),
    (codec.Byte, -(2**7), 2**7 - 1), (codec.Short, -(2**15), 2**15 - 1), (codec.Int, -(2**31), 2**31 - 1),
    (codec.Long, -(2**63), 2**63 - 1),
)  # fmt: skip


@st.composite
def integers(draw: st.DrawFn) -> Any:
    kind, low, high = draw(st.sampled_from(_KINDS))
    near = [number for number in (low, high, -1, -7, *WHOLE) if low <= number <= high]
    return kind(draw(st.sampled_from(near)))


FLOATS = st.sampled_from((0.0, -0.0, 0.5, 1.0, 5.0, -7.5, 1e300, float("inf"), float("-inf"), float("nan"), 2.0**63))
SCALARS = st.one_of(
    integers(),
    integers(),
    FLOATS,
    st.sampled_from((0.5, 5.0, -7.5, float("nan"), float("inf"))).map(codec.Float),
    _decimals(),
    st.booleans(),
    st.sampled_from(TEXTS),
    st.sampled_from([text for text in TEXTS if text.isascii()]).map(codec.Symbol),
    st.sampled_from((b"", b"a", b"\xff")),
    st.sampled_from((0, 1, 5, -7, 2**62)).map(codec.Timestamp),
    st.sampled_from(UUIDS),
    st.sampled_from("aé").map(codec.Char),
    st.none(),
)
ARRAYS = st.lists(integers().filter(lambda value: type(value) is codec.Int), max_size=3).map(
    lambda items: codec.Array("int", tuple(items))
) | st.lists(st.sampled_from(TEXTS), max_size=3).map(lambda items: codec.Array("string", tuple(items)))
KEYS = st.sampled_from(NAMES) | st.sampled_from(("a", "b", "n", "ab")).map(codec.Symbol) | st.just(codec.Char("a"))


@st.composite
def entries(draw: st.DrawFn, values: st.SearchStrategy[Any], keys: st.SearchStrategy[Any] = KEYS) -> dict[Any, Any]:
    """A map as the codec would decode it: a key that Python calls equal to an earlier one is wrapped."""
    result: dict[Any, Any] = {}
    for key, value in draw(st.lists(st.tuples(keys, values), max_size=5)):
        wrapped = codec.MapKey(key, codec.encode(key)) if key in result else key
        if wrapped not in result and not any(type(known) is type(key) and known == key for known in result):
            result[wrapped] = value
    return result


def _wider(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    described = st.builds(codec.Described, st.just(codec.Symbol("x")), values)
    return st.lists(values, max_size=3) | entries(values) | described


VALUES = st.recursive(SCALARS | ARRAYS, _wider, max_leaves=6)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """An encoded message; any section may be missing."""
    texts = st.none() | st.sampled_from(TEXTS)
    symbols = st.none() | st.sampled_from(("a", "ab", "application/json")).map(codec.Symbol)
    ids = st.none() | st.sampled_from((*TEXTS, codec.Ulong(5), *UUIDS, b"a"))
    times = st.none() | st.sampled_from((0, 5, 127)).map(codec.Timestamp)
    numbers = st.none() | st.sampled_from((0, 5, 255)).map(codec.Uint)
    flags = st.none() | st.booleans()
    binary = st.none() | st.sampled_from((b"", b"a"))
    header = [flags, st.none() | st.sampled_from((0, 4, 5)).map(codec.Ubyte), numbers, flags, numbers]
    properties = [ids, binary, texts, texts, texts, ids, symbols, symbols, times, times, texts, numbers, texts]
    scalar_map = entries(SCALARS)
    parts = [
        (sections.HEADER, _prefix(header)),
        (sections.DELIVERY_ANNOTATIONS, entries(VALUES)),
        (sections.MESSAGE_ANNOTATIONS, entries(VALUES)),
        (sections.PROPERTIES, _prefix(properties)),
        (sections.APPLICATION_PROPERTIES, entries(VALUES) if draw(st.booleans()) else scalar_map),
    ]
    data = b"".join(sections.section(code, draw(content)) for code, content in parts if draw(st.integers(0, 3)))
    body = draw(st.sampled_from((sections.DATA, sections.AMQP_SEQUENCE, sections.AMQP_VALUE, sections.AMQP_VALUE)))
    content = {sections.DATA: st.just(b"a"), sections.AMQP_SEQUENCE: st.lists(SCALARS, max_size=2)}
    data += sections.section(body, draw(content.get(body, entries(VALUES) | VALUES)))
    return data + (sections.section(sections.FOOTER, draw(entries(VALUES))) if draw(st.booleans()) else b"")


@st.composite
def _prefix(draw: st.DrawFn, kinds: list[st.SearchStrategy[Any]]) -> list[Any]:
    return [draw(kind) for kind in kinds[: draw(st.integers(0, len(kinds)))]]


# -- predicates

CONSTANTS = st.one_of(
    st.sampled_from((*WHOLE, -7, 2**63, 2**64, -(2**63))),
    st.sampled_from((Decimal("0.5"), Decimal(5), Decimal("5.00"), Decimal("-7.5"), Decimal("1E30"), Decimal("1e-20"))),
    st.sampled_from((0.5, 5.0, 1e300)),
    st.sampled_from(TEXTS),
    st.booleans(),
    st.none(),
    st.sampled_from((codec.Timestamp(5), UUIDS[0], b"a")),
).map(p.Literal)


@st.composite
def fields(draw: st.DrawFn, paths: bool = True) -> p.FieldReference:
    """A reference that often finds something."""
    section = draw(
        st.sampled_from(
            (*p.MessageSection, p.MessageSection.APPLICATION_PROPERTIES, p.MessageSection.APPLICATION_PROPERTIES)
        )
    )
    if section is p.MessageSection.HEADER:
        return p.FieldReference(section, draw(st.sampled_from(HEADER_NAMES)))
    if section is p.MessageSection.PROPERTIES:
        return p.FieldReference(section, draw(st.sampled_from(PROPERTY_NAMES)))
    steps = st.sampled_from(NAMES) | st.sampled_from((0, 1, 5, -1, "a")).map(p.Literal)
    if paths:
        steps |= st.builds(p.FieldReference, st.just(p.MessageSection.APPLICATION_PROPERTIES), st.sampled_from(NAMES))
    path = draw(st.lists(steps, max_size=2)) if draw(st.booleans()) else []
    return p.FieldReference(section, draw(st.sampled_from(NAMES)), tuple(path))


def _expressions(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.builds(p.Arithmetic, st.sampled_from(p.Operator), values, values)
        | st.builds(p.Negative, values)
        | st.builds(p.Positive, values)
    )


EXPRESSIONS = st.recursive(fields() | fields() | CONSTANTS, _expressions, max_leaves=3)
_LIKES = st.builds(
    p.Like,
    EXPRESSIONS,
    st.sampled_from(PATTERNS).map(p.Literal) | EXPRESSIONS,
    st.none() | st.sampled_from(("\\", "!", "", "ab", "%", "_")).map(p.Literal) | EXPRESSIONS,
    st.sampled_from((None, None, 2)),
)
_REFERENCES = VALUES.filter(lambda value: value is not None).map(frozen)
LEAVES = st.one_of(
    st.builds(p.Compare, st.sampled_from(p.Comparison), EXPRESSIONS, EXPRESSIONS),
    st.builds(p.Compare, st.sampled_from(p.Comparison), fields(), CONSTANTS),
    st.builds(p.In, EXPRESSIONS, st.lists(CONSTANTS | EXPRESSIONS, min_size=1, max_size=4).map(tuple)),
    st.builds(p.In, fields(), st.lists(st.sampled_from(TEXTS).map(p.Literal), min_size=1, max_size=4).map(tuple)),
    _LIKES,
    st.builds(p.IsNull, EXPRESSIONS),
    st.builds(p.Exists, fields()),
    st.builds(p.Truth, EXPRESSIONS),
    st.builds(p.Matches, fields(), _REFERENCES),
    st.builds(p.Text, fields(), st.sampled_from(p.Affix), st.sampled_from(TEXTS), st.booleans()),
    st.builds(p.Constant, st.sampled_from((True, False, None))),
)


def _combined(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(items, max_size=3).map(tuple)
    return st.one_of(
        st.builds(p.And, several), st.builds(p.Or, several), st.builds(p.Not, items), st.builds(p.IsTrue, items)
    )


PREDICATES = st.recursive(LEAVES, _combined, max_leaves=6)

_KEYS = st.builds(
    p.FieldReference,
    st.sampled_from((p.MessageSection.APPLICATION_PROPERTIES, p.MessageSection.MESSAGE_ANNOTATIONS)),
    st.sampled_from(NAMES),
)
_TEXT = st.sampled_from(TEXTS).map(p.Literal)
_KEY_TERMS = st.one_of(
    st.builds(p.Compare, st.just(p.Comparison.EQ), _KEYS, _TEXT),
    st.builds(p.Compare, st.just(p.Comparison.EQ), _TEXT, _KEYS),
    st.builds(p.In, _KEYS, st.lists(_TEXT, min_size=1, max_size=3).map(tuple)),
    st.builds(p.Matches, _KEYS, st.sampled_from(TEXTS)),
)
KEYED = st.builds(
    lambda terms: p.And(tuple(terms)), st.tuples(_KEY_TERMS, PREDICATES).map(list) | st.tuples(_KEY_TERMS)
)
"""Conjunctions in which some field is compared with a text."""
