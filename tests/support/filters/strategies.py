"""Random predicates, and messages with fields in common, for the property tests of every back end."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from gateway.amqp.codec import codec
from gateway.filters import predicate as p
from gateway.filters.values import frozen
from tests.support.filters.drawn_messages import messages
from tests.support.filters.values import NAMES, SCALARS, TEXTS, UUIDS, VALUES, WHOLE, again, bid, evenly, named

__all__ = ["NAMES", "SCALARS", "TEXTS", "VALUES", "bid", "messages"]

PATTERNS = ("", "%", "_", "a%", "%b", "%a_", "a\\%b", "%b%a_d", "__", "%_%", "ab\\", "%é%", "a!%b", "_b%_b%")
PROPERTY_NAMES = (
    "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
    "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id",
)  # fmt: skip
HEADER_NAMES = ("durable", "priority", "ttl", "first-acquirer", "delivery-count")


# -- values of a predicate

_CONSTANTS: tuple[tuple[Any, ...], ...] = (
    (*WHOLE, -7, 2**63, 2**64, -(2**63)),
    tuple(map(Decimal, ("0.5", "5", "5.00", "-7.5", "1E30", "1e-20"))),
    (0.5, 5.0, 1e300),
    TEXTS,
    (False, True),
    (None,),
    (codec.Timestamp(5), UUIDS[0], b"a"),
)
CONSTANTS = evenly(*([p.Literal(value) for value in group] for group in _CONSTANTS))


def _all(section: p.MessageSection, names: tuple[str, ...]) -> list[p.FieldReference]:
    return [p.FieldReference(section, name) for name in names]


_HEADER, _PROPERTIES = _all(p.MessageSection.HEADER, HEADER_NAMES), _all(p.MessageSection.PROPERTIES, PROPERTY_NAMES)
_OFTEN = _all(p.MessageSection.APPLICATION_PROPERTIES, NAMES)
_MAPS = [_all(each, NAMES) for each in p.MessageSection if each.name not in ("HEADER", "PROPERTIES")]
_MAPS += [_OFTEN, _OFTEN]
_NAMED = [evenly(_HEADER, _PROPERTIES, *_MAPS) for _ in range(2)]
_STEPS = (NAMES, [p.Literal(step) for step in (0, 1, 5, -1, "a")])


def _deep(*steps: Any) -> st.SearchStrategy[p.FieldReference]:
    paths = st.lists(evenly(*steps), min_size=1, max_size=2).map(tuple)
    return st.builds(lambda first, path: p.FieldReference(first.section, first.name, path), evenly(*_MAPS), paths)


_PLAIN, _PATHS = st.one_of(*_NAMED, _deep(*_STEPS)), st.one_of(*_NAMED, _deep(*_STEPS, _OFTEN))


def fields(paths: bool = True) -> st.SearchStrategy[p.FieldReference]:
    """A reference that often finds something; with `paths`, what another field says may be a step of it."""
    return _PATHS if paths else _PLAIN


def _expressions(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        _PATHS,
        *again(CONSTANTS, 2),
        st.builds(p.Arithmetic, st.sampled_from(p.Operator), values, values),
        st.builds(p.Negative, values),
        st.builds(p.Positive, values),
    )


EXPRESSIONS = named(_expressions(_expressions(_PATHS | CONSTANTS)))

# -- predicates

_COMPARISONS = st.sampled_from(p.Comparison)
_TEXT = st.sampled_from([p.Literal(text) for text in TEXTS])
_SEVERAL_TEXTS = st.lists(_TEXT, min_size=1, max_size=4).map(tuple)
_SEVERAL = st.lists(st.one_of(CONSTANTS, EXPRESSIONS), min_size=1, max_size=4).map(tuple)
_ESCAPES = evenly((None,), [p.Literal(text) for text in ("\\", "!", "", "ab", "%", "_")])
_LIKES = st.builds(
    p.Like,
    EXPRESSIONS,
    st.one_of(st.sampled_from(PATTERNS).map(p.Literal), EXPRESSIONS),
    st.one_of(_ESCAPES, EXPRESSIONS),
    st.sampled_from((None, None, 2)),
)
_REFERENCES = VALUES.filter(lambda value: value is not None).map(frozen)
LEAVES = st.one_of(
    st.builds(p.Compare, _COMPARISONS, EXPRESSIONS, EXPRESSIONS),
    st.builds(p.Compare, _COMPARISONS, fields(), CONSTANTS),
    st.builds(p.In, EXPRESSIONS, _SEVERAL),
    st.builds(p.In, fields(), _SEVERAL_TEXTS),
    _LIKES,
    st.builds(p.IsNull, EXPRESSIONS),
    st.builds(p.Exists, fields()),
    st.builds(p.Truth, EXPRESSIONS),
    st.builds(p.Matches, fields(), _REFERENCES),
    st.builds(p.Text, fields(), st.sampled_from(p.Affix), st.sampled_from(TEXTS), st.booleans()),
    st.sampled_from([p.Constant(value) for value in (True, False, None)]),
)


def _combined(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(items, max_size=3).map(tuple)
    return st.one_of(
        st.builds(p.And, several), st.builds(p.Or, several), st.builds(p.Not, items), st.builds(p.IsTrue, items)
    )


# A term is a choice like each of the four ways to combine, not eleven of fifteen.
_TERMS = again(LEAVES, 3)
PREDICATES = named(st.one_of(*_TERMS[1:], _combined(LEAVES), _combined(st.one_of(*_TERMS, _combined(LEAVES)))))

_KEYS = st.builds(
    p.FieldReference,
    st.sampled_from((p.MessageSection.APPLICATION_PROPERTIES, p.MessageSection.MESSAGE_ANNOTATIONS)),
    st.sampled_from(NAMES),
)
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
