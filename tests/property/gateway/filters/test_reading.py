"""Reading filters: whatever comes, a predicate or the one error, soon; and positions that skip no match."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Described, Symbol, Timestamp, Ulong
from gateway.amqp.message.sections import walk
from gateway.errors import INVALID_FIELD, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.filters import predicate as p
from gateway.filters.evaluate.access import MessageAccess
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.parse.event_filters import parse_event_sql
from gateway.filters.parse.filter_set import CODES, read
from gateway.filters.parse.limits import LIMITS
from gateway.filters.parse.selector import parse_selector
from gateway.filters.parse.sql import parse_sql
from gateway.filters.position.event_stream import offset_symbol
from gateway.filters.predicate import bind
from gateway.filters.predicate import walk as nodes
from tests.support.amqp.messages import message
from tests.support.amqp.strategies import VALUES
from tests.support.plugins.examples import examples

SECONDS = 1.0
"""Of processor time, for any input: the limits of the policy's defaults take a fifth of it."""
LANGUAGES = [parse_sql, parse_selector, parse_event_sql]
CONDITIONS = {INVALID_FIELD, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED}
WORDS = (
    "a.x", "x", "d.", "d.event-streams-offset", "h.priority", "p.message_id", "v.items[0].sku", "[b c]", "[", "]", "(",
    ")", ",", ".", "AND", "or", "NOT", "IS", "NULL", "IN", "LIKE", "ESCAPE", "EXISTS", "BETWEEN", "TRUE", "false", "=",
    "<>", "!=", "<", ">=", "+", "-", "*", "/", "%", "1", "05", "1.5", ".5", "5E3", "1e999", "'x'", "''''", "'", '"',
    "'@latest'", "'a%'", "'\\'", "JMSPriority", "JMSDeliveryMode", "'PERSISTENT'", "0xFF", "é", "\0", "$x", "data",
    "\n",
)  # fmt: skip
SOUP = st.lists(st.sampled_from(WORDS), max_size=60).flatmap(
    lambda words: st.sampled_from(("", " ")).map(lambda blank: blank.join(words))
)
LONG = st.tuples(st.sampled_from(WORDS), st.integers(1, 2000), SOUP).map(lambda each: each[0] * each[1] + each[2])


def outcome(call: Callable[[], Any]) -> Any:
    """What the call gives, None for its one error; fails for any other, and for taking long each time."""
    for _ in range(3):
        begin, refusal = time.process_time(), None
        try:
            found = call()
        except AmqpError as error:
            found, refusal = None, error
        if time.process_time() - begin < SECONDS:
            break
    else:
        raise AssertionError(f"over {SECONDS} s, three times")
    if refusal is not None:
        assert refusal.condition in CONDITIONS
        assert 0 < len(refusal.description) < 1000
    return found


@pytest.mark.row("FX-5-25")
@pytest.mark.parametrize("parse", LANGUAGES)
@given(text=st.text(max_size=80) | SOUP | LONG)
@settings(max_examples=examples(400), deadline=None)
def test_any_text_is_a_predicate_or_the_one_error(parse: Callable[[str], p.Predicate], text: str) -> None:
    found = outcome(lambda: parse(text))
    if found is not None:
        hash(found)
        compile_filter(found, MessageAccess())(((data := message(app={"x": 1})), walk(data)))
        assert sum(1 for _ in nodes(found)) <= 1000


NAMES = st.sampled_from(
    [*CODES.values(), "amqp:all-filter", "amqp:any-filter", "amqp:not-filter", "amqp:header-filter", "amqp:all-filter "]
)
DESCRIPTORS = NAMES.map(Symbol) | st.sampled_from([*CODES, 0xFEFEFEFE]).map(Ulong) | VALUES
FILTERS = st.recursive(
    st.builds(Described, DESCRIPTORS, VALUES | SOUP),
    lambda inner: st.builds(Described, NAMES.map(Symbol), st.lists(inner | VALUES, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5).map(Symbol), FILTERS | VALUES, max_size=4))
@settings(max_examples=examples(600), deadline=None)
def test_any_filter_set_is_read_or_refused(filters: dict[Symbol, Any]) -> None:
    found = outcome(lambda: read(filters))
    if found is not None:
        assert found.in_force.items() <= filters.items()
        assert set(found.in_force) | set(found.left_out) >= {
            name for name, value in filters.items() if value is not None
        }


@pytest.mark.parametrize("depth", [8, 60, 500])
def test_deep_values_cost_no_stack(depth: int) -> None:
    nested: Any = Described(Symbol("amqp:sql-filter"), "x")
    for _ in range(depth):
        nested = Described(Symbol("amqp:not-filter"), [nested])
    assert (outcome(lambda: read({Symbol("f"): nested})) is None) == (depth > 8)
    for text in (
        "(" * depth + "x" + ")" * depth,
        "NOT " * depth + "x",
        "-" * depth + "x = 1",
        "x" + "+x" * depth + "=1",
    ):
        outcome(lambda text=text: parse_sql(text, limits=LIMITS._replace(tokens=2000)))


# -- a text of which the form is known


@st.composite
def constants(draw: st.DrawFn) -> tuple[str, Any]:
    text = draw(st.text(max_size=5))
    number = draw(st.integers(0, 10**6))
    return draw(
        st.sampled_from(
            [
                ("'" + text.replace("'", "''") + "'", text),
                (str(number), number),
                (f"{number}E0", float(number)),
                ("TRUE", True),
            ]
        )
    )


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tuple[str, p.Predicate]:
    """A text and what it means; parentheses around everything, so that precedence has no say."""
    kind = draw(st.sampled_from(["compare", "null", "like", "in"] + (["and", "or", "not"] if depth else [])))
    name = draw(st.sampled_from(["x", "y z", "é]["]))
    field = p.FieldReference(p.MessageSection.APPLICATION_PROPERTIES, name)
    ref = f"a.[{name.replace('[', '[[').replace(']', ']]')}]"
    (one, left), (two, right) = draw(constants()), draw(constants())
    if kind == "compare":
        how = draw(st.sampled_from(list(p.Comparison)))
        return f"{ref}{how.value}{one}", p.Compare(how, field, p.Literal(left))
    if kind == "null":
        return f"{ref} IS NULL", p.IsNull(field)
    if kind == "like":
        return f"{ref} LIKE 'a%'", p.Like(field, p.Literal("a%"))
    if kind == "in":
        return f"{ref} IN ({one},{two})", p.In(field, (p.Literal(left), p.Literal(right)))
    (text, inner), (other, second) = draw(expressions(depth=depth - 1)), draw(expressions(depth=depth - 1))
    if kind == "not":
        return f"NOT ({text})", p.Not(inner)
    made: Any = p.And if kind == "and" else p.Or
    return f"({text}) {kind} ({other})", made((inner, second))


@given(expressions())
@settings(max_examples=examples(300), deadline=None)
def test_what_is_written_is_what_is_read(written: tuple[str, p.Predicate]) -> None:
    text, meant = written
    assert parse_sql(text) == meant


# -- positions

SIGNS = ("=", "<>", "<", "<=", ">", ">=")
OFFSETS = st.integers(0, 12)
TIMES = st.integers(0, 12)
EVENTS = st.tuples(OFFSETS, TIMES)


@st.composite
def positions(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["offset", "time", "turned", "sentinel"] + (["AND", "OR", "NOT"] if depth else [])))
    sign, number = draw(st.sampled_from(SIGNS)), draw(OFFSETS)
    if kind == "offset":
        return f"d.event-streams-offset {sign} '{offset_symbol(number)}'"
    if kind == "turned":
        return f"'{offset_symbol(number)}' {sign} d.event-streams-offset"
    if kind == "time":
        return f"d.event-streams-timestamp {sign} {number}"
    if kind == "sentinel":
        return f"d.event-streams-offset {sign} '{draw(st.sampled_from(['@earliest', '@latest', '', 'zz']))}'"
    one, two = draw(positions(depth=depth - 1)), draw(positions(depth=depth - 1))
    return f"NOT ({one})" if kind == "NOT" else f"({one}) {kind} ({two})"


@pytest.mark.row("ES-5.2-5", "FX-3-5")
@given(text=positions(), latest=OFFSETS, seconds=st.booleans(), group=st.sampled_from(["", "all", "any", "not"]))
@settings(max_examples=examples(400), deadline=None)
def test_bounds_of_a_position_hold_all_that_matches(text: str, latest: int, seconds: bool, group: str) -> None:
    """A reader that starts where the position says, and stops where it says, misses no match."""
    given: Any = Described(Symbol("amqp:sql-filter"), text)
    if group:
        given = Described(Symbol(f"amqp:{group}-filter"), [given])
    found = read({Symbol("f"): given})
    test = compile_filter(bind(found.predicate, offset_symbol(latest)), MessageAccess())
    for offset in range(13):
        for at in (offset, 12 - offset):
            milliseconds = at * 1000 if seconds else at
            annotations = {
                "event-streams-offset": Symbol(offset_symbol(offset)),
                "event-streams-timestamp": Timestamp(milliseconds),
            }
            data = message(da=annotations)
            if test((data, walk(data))):
                assert found.position.matches(offset, milliseconds)
                assert offset >= found.position.first(0, latest)
