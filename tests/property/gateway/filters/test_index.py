"""The index of predicates: after any adds and removes the answers of each predicate asked alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.amqp.codec import codec
from gateway.amqp.message import sections
from gateway.filters import predicate as p
from gateway.filters.evaluate.access import MessageAccess
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.index import PredicateIndex
from gateway.filters.index.tree import PrefixTree
from tests.support.filters import naive_filter as naive
from tests.support.filters import strategies as random
from tests.support.plugins.examples import examples

ACCESS = MessageAccess()
ENDS = st.sampled_from(("", "a", "b", "ab", "%", "_", "a%", "%a", "a_%b", "ab%", "%ab", "%a%", "a\\%", "É%", "%ß"))
KEY_TERMS = st.one_of(
    st.builds(p.Like, random.fields(), ENDS.map(p.Literal), st.none() | st.just(p.Literal("\\"))),
    st.builds(p.Text, random.fields(), st.sampled_from(p.Affix), st.sampled_from(random.TEXTS), st.booleans()),
    st.builds(p.Compare, st.just(p.Comparison.EQ), random.fields(), random.CONSTANTS),
    st.builds(p.Compare, st.just(p.Comparison.EQ), random.CONSTANTS, random.fields()),
    st.builds(p.In, random.fields(), st.lists(random.CONSTANTS, min_size=1, max_size=3).map(tuple)),
    st.builds(p.Matches, random.fields(paths=False), random.SCALARS.filter(lambda value: value is not None)),
)
TERMS = st.builds(p.Or, st.lists(KEY_TERMS, max_size=3).map(tuple)) | KEY_TERMS
PREDICATES = st.one_of(
    random.PREDICATES | random.KEYED, TERMS, st.builds(p.And, st.lists(TERMS | random.LEAVES, max_size=3).map(tuple))
)
STEPS = st.lists(st.tuples(st.integers(0, 7), st.none() | PREDICATES), min_size=1, max_size=14)


@settings(max_examples=examples(400), deadline=None)
@given(STEPS, st.lists(random.messages(), min_size=1, max_size=3), st.integers(0, 255), st.integers(0, 99))
def test_the_index_says_what_each_predicate_says_alone(
    steps: list[Any], messages: list[bytes], octet: int, place: int
) -> None:
    index: PredicateIndex[int, Any] = PredicateIndex(ACCESS)
    known: dict[int, Any] = {}
    for key, predicate in steps:
        if key in known:
            index.remove(key)
            del known[key]
        if predicate is not None:
            index.add(key, predicate)
            known[key] = predicate
        assert len(index) == len(known)
        for data in messages:
            layout, at = sections.walk(data), len(data) * place // 100
            broken = data[:at] + bytes((octet,)) + data[at + 1 :]
            fields = naive.message_fields(data)
            expected = [key for key, found in known.items() if naive.evaluate(found, fields) is True]
            assert sorted(index.matching((data, layout))) == sorted(expected)
            alone = [key for key, found in known.items() if compile_filter(found, ACCESS)((broken, layout))]
            assert sorted(index.matching((broken, layout))) == sorted(alone)
    for key in known:
        index.remove(key)
    assert index.matching((messages[0], sections.walk(messages[0]))) == []


WORDS = st.text("ab", max_size=6)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.tuples(WORDS, st.integers(0, 3)), max_size=12), WORDS)
def test_a_tree_finds_all_beginnings_of_a_text(steps: list[tuple[str, int]], text: str) -> None:
    tree: PrefixTree[int] = PrefixTree()
    known: set[tuple[str, int]] = set()
    for prefix, item in steps:
        if (prefix, item) in known:
            tree.remove(prefix, item)
            known.remove((prefix, item))
        else:
            tree.add(prefix, item)
            known.add((prefix, item))
        found: list[int] = []
        tree.find(text, found)
        assert sorted(found) == sorted(item for prefix, item in known if text.startswith(prefix))
        assert tree.waiting(prefix) == sum(other == prefix for other, _ in known)
        assert bool(tree) == bool(known)


def of(**entries: Any) -> Any:
    data = sections.section(sections.APPLICATION_PROPERTIES, entries)
    return data, sections.walk(data)


def test_numbers_are_found_in_any_of_their_types() -> None:
    field = p.FieldReference(p.MessageSection.APPLICATION_PROPERTIES, "n")
    index: PredicateIndex[Any, Any] = PredicateIndex(ACCESS)
    for number in (5, 6, 1 << 53, (1 << 53) + 1, 1 << 60):
        index.add(number, p.Compare(p.Comparison.EQ, field, p.Literal(number)))
    for value in (5, codec.Ubyte(5), 5.0, codec.Float(5.0), random.bid(4, 50, -1), codec.Timestamp(5)):
        assert index.matching(of(n=codec.Decimal32(value) if type(value) is bytes else value)) == [5]
    assert sorted(index.matching(of(n=float(1 << 53)))) == [1 << 53, (1 << 53) + 1]
    assert index.matching(of(n=codec.Ulong(1 << 60))) == [1 << 60]
    assert index.matching(of(n=codec.Char("5"))) == index.matching(of(n=[5])) == []
