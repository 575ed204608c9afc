"""Filters that compare properties with texts find the same messages in C as in Python."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Symbol
from gateway.amqp.message import sections
from gateway.amqp.message._sections import matching_events
from gateway.errors import AmqpError
from gateway.filters import predicate as p
from gateway.filters.evaluate.access import MessageAccess
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.index.text_tests import BEGINS, ENDS, EQUAL, text_tests
from gateway.filters.parse.sql import parse_sql as parse
from tests.support.amqp.strategies import mutated
from tests.support.filters.strategies import NAMES, PATTERNS, PREDICATES, SCALARS, TEXTS, VALUES, messages
from tests.support.plugins.examples import examples

FIELDS = st.builds(p.FieldReference, st.just(p.MessageSection.APPLICATION_PROPERTIES), st.sampled_from(NAMES))
TEXT = st.sampled_from(TEXTS).map(p.Literal)
ESCAPES = st.none() | st.sampled_from(("\\", "!", "", "ab")).map(p.Literal)
TERMS = st.one_of(
    st.builds(p.Compare, st.just(p.Comparison.EQ), FIELDS, TEXT),
    st.builds(p.Compare, st.just(p.Comparison.EQ), TEXT, FIELDS),
    st.builds(p.In, FIELDS, st.lists(TEXT, min_size=1, max_size=3).map(tuple)),
    st.builds(p.Like, FIELDS, st.sampled_from(PATTERNS).map(p.Literal), ESCAPES, st.sampled_from((None, 2))),
    st.builds(p.Matches, FIELDS, st.sampled_from(TEXTS)),
)
FILTERS = st.lists(TERMS, min_size=1, max_size=3).map(lambda terms: p.And(tuple(terms))) | TERMS | PREDICATES
ENTRIES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(TEXTS) | SCALARS | VALUES), max_size=4)


def text_message(entries: list[tuple[Any, Any]]) -> bytes:
    return sections.section(sections.APPLICATION_PROPERTIES, dict(entries)) + sections.section(sections.DATA, b"x")


TEXT_MESSAGES = ENTRIES.map(text_message)
ANY = TEXT_MESSAGES | messages() | mutated(TEXT_MESSAGES) | mutated(messages())


def general_of(predicate: p.Predicate) -> Any:
    matches = compile_filter(predicate, MessageAccess())

    def general(data: bytes) -> bool:
        try:
            return matches((data, sections.walk(data)))
        except AmqpError:
            return False

    return general


@settings(max_examples=examples(1000), deadline=None)
@given(FILTERS, st.lists(ANY, max_size=5))
def test_c_finds_what_python_finds(predicate: p.Predicate, found: list[bytes]) -> None:
    tests, general = text_tests(predicate), general_of(predicate)
    if tests is not None:
        events = [(data, number) for number, data in enumerate(found)]
        assert matching_events(events, tests, general) == [event for event in events if general(event[0])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.color = 'red' AND a.region LIKE 'eu-%'", ((b"color", EQUAL, (b"red",)), (b"region", BEGINS, (b"eu-",)))),
        ("a.color LIKE '%ed'", ((b"color", ENDS, (b"ed",)),)),
        ("a.color LIKE 'red'", ((b"color", EQUAL, (b"red",)),)),
        ("a.color LIKE 'r_d'", None),
        ("a.color LIKE 'r%d'", None),
        ("a.color = 'red' OR a.color = 'blue'", None),
        ("a.size = 7", None),
        ("a.color = 'red' AND a.size > 7", None),
        ("p.subject = 'red'", None),
    ],
)
def test_which_filters_c_evaluates(text: str, expected: Any) -> None:
    found = text_tests(parse(text))
    assert (None if found is None else tuple(test[:3] for test in found)) == expected


def test_usual_messages_need_no_look() -> None:
    def fails(_: bytes) -> bool:
        raise AssertionError

    tests = text_tests(parse("a.color = 'red' AND a.region LIKE 'eu-%'"))
    assert tests is not None
    made = [{"color": color, "region": region, "n": 7} for color in ("red", "blue", None) for region in ("eu-1", "us")]
    events = [(text_message(list(each.items())),) for each in made]
    assert matching_events([*events, (sections.section(sections.DATA, b"x"),)], tests, fails) == events[:1]
    odd = (text_message([("color", Symbol("red")), ("region", "eu-")]),)
    assert matching_events([odd], tests, general_of(parse("a.color = 'red'"))) == [odd]
    with pytest.raises(AssertionError):
        matching_events([odd], tests, fails)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ((), (), bool),
        ([], [], bool),
        ([], ((b"a", 0, (b"b",), 0),) * 17, bool),
        ([None], (), bool),
        ([()], (), bool),
        ([("text",)], (), bool),
        ([], (None,), bool),
        ([], (("a", 0, (b"b",), 0),), bool),
        ([], ((b"a", 3, (b"b",), 0),), bool),
        ([], ((b"a", 0, [b"b"], 0),), bool),
        ([], ((b"a", 0, ("b",), 0),), bool),
        ([], ((b"a", 0, (b"b",), -1),), bool),
        ([], ((b"a", 1 << 70, (b"b",), 0),), bool),
    ],
)
def test_what_is_no_argument_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        matching_events(*arguments)
