"""The index over the filters of subscriptions: the answers of each filter alone, and of what the dialects say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridges.cloudevents.events.dialects import basic, draft, source, sql, types
from bridges.cloudevents.events.event import CloudEvent, StructuredBody
from bridges.cloudevents.events.filter import EVERYTHING, EventFilter, every
from bridges.cloudevents.events.index import FilterIndex
from bridges.cloudevents.model.values import Json
from gateway.filters.cesql import parse_cesql
from gateway.filters.parse.limits import FilterLimits
from tests.support.cloudevents.records import ADDRESS, REQUIRED, event
from tests.support.filters import cesql_reference as naive
from tests.support.plugins.examples import examples

NAMES = ("type", "subject", "ext", "datacontenttype", "absent")
TEXTS = ("a", "b", "ab", "ba", "abab", "7", "true", "%", "ü", "text/plain")
WIDE = FilterLimits(length=1 << 20, tokens=1 << 20)
UNREADABLE = CloudEvent({}, "x", b"", None, ADDRESS, 0, 0, 0, StructuredBody("application/cloudevents+avro", b""))

NAMED = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), min_size=1, max_size=2)
EXPRESSIONS = (naive.expressions(NAMES) | naive.terms(NAMES)).map(naive.written)
LEAVES: st.SearchStrategy[Json] = st.one_of(
    st.sampled_from(("exact", "prefix", "suffix")).flatmap(lambda kind: st.fixed_dictionaries({kind: NAMED})),
    st.fixed_dictionaries({"sql": EXPRESSIONS}),
)
DRAFT: st.SearchStrategy[Json] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=6,
)
CONDITION: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {
        "type": st.sampled_from(("exact", "prefix", "suffix")),
        "property": st.sampled_from(NAMES),
        "value": st.sampled_from((*TEXTS, "")),
    }
)
FILTERS: st.SearchStrategy[EventFilter] = st.one_of(
    st.just(EVERYTHING),
    st.lists(CONDITION, max_size=3).map(lambda items: basic({"dialect": "basic", "filters": items})),
    st.lists(DRAFT, max_size=2).map(lambda items: draft(items, limits=WIDE)),
    EXPRESSIONS.map(lambda text: sql(text, limits=WIDE)),
    st.lists(st.sampled_from(TEXTS), max_size=3).map(types),
)
ALL = st.lists(FILTERS | st.sampled_from(("/shop/1", "/x")).map(source), min_size=1, max_size=2).map(every) | FILTERS
EVENTS = st.dictionaries(st.sampled_from(NAMES[:4]), st.sampled_from(TEXTS)).map(lambda given: event(**given))


@pytest.mark.row("CE-3.2.3-6", "CE-3.2.3-7")
@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.none() | ALL), min_size=1, max_size=16), st.lists(EVENTS, max_size=3))
def test_the_index_says_what_each_filter_says_alone(
    steps: list[tuple[int, EventFilter | None]], events: list[CloudEvent]
) -> None:
    index, known = FilterIndex[int](), dict[int, EventFilter]()
    for key, wanted in steps:
        if key in known:
            index.remove(key)
            del known[key]
        if wanted is not None:
            index.add(key, wanted)
            known[key] = wanted
        assert len(index) == len(known)
        for each in (*events, UNREADABLE):
            assert sorted(index.matching(each)) == sorted(key for key, one in known.items() if one.matches(each))
    assert index.unindexed == len({one for one in known.values() if one.unindexed})


def naive_draft(filters: Json, attributes: dict[str, str]) -> bool:
    """The draft's dialects as its text says them."""
    assert isinstance(filters, list)
    return all(_naive(item, attributes) for item in filters)


def _naive(item: Any, attributes: dict[str, str]) -> bool:
    ((dialect, content),) = item.items()
    if dialect == "sql":
        return naive_sql(content, attributes)
    if dialect in ("all", "any"):
        return {"all": all, "any": any}[dialect](_naive(each, attributes) for each in content)
    if dialect == "not":
        return not _naive(content, attributes)
    test = {"exact": str.__eq__, "prefix": str.startswith, "suffix": str.endswith}[dialect]
    return all(name in attributes and test(attributes[name], text) for name, text in content.items())


def naive_sql(text: str, attributes: dict[str, str]) -> bool:
    try:
        return naive.boolean(naive.evaluate(parse_cesql(text, limits=WIDE), attributes))
    except naive.Wrong:
        return False


@pytest.mark.row("CE-3.2.3-6", "CE-3.2.3-7")
@settings(max_examples=examples(400), deadline=None)
@given(st.lists(DRAFT, max_size=3), st.dictionaries(st.sampled_from(NAMES[:4]), st.sampled_from(TEXTS)))
def test_filters_want_what_their_dialects_say(filters: list[Json], given: dict[str, str]) -> None:
    wanted = draft(filters, limits=WIDE)
    assert wanted.matches(event(**given)) == naive_draft(filters, REQUIRED | given)
    assert wanted == draft(filters, limits=WIDE)
    assert hash(wanted) == hash(draft(filters, limits=WIDE))
