"""The index of predicates: what it costs, and what is looked up at all. That it is right: tests/property."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from gateway.amqp.message.sections import walk
from gateway.filters.evaluate.access import MessageAccess
from gateway.filters.index import PredicateIndex
from gateway.filters.parse.sql import parse_sql
from tests.support.amqp.direct import steps
from tests.support.amqp.messages import message

ACCESS = MessageAccess()
FEW, MANY = 20, 2000
LOOKED_UP = [
    "id = 'x-{}'",
    "'x-{}' = id",
    "id IN ('x-{}', 'y-{}')",
    "id LIKE 'x-{}%'",
    "id LIKE '%x-{}'",
    "id LIKE 'a%x-{}' AND n > 5",
    "n = 1000{}",
    "color = 'red' AND id = 'x-{}'",
    "id = 'x-{}' OR color LIKE 'y-{}%'",
    "p.correlation_id = 'x-{}'",
    "f{} = 'x'",
]


def index_of(texts: list[str]) -> PredicateIndex[int, Any]:
    index: PredicateIndex[int, Any] = PredicateIndex(ACCESS)
    for number, text in enumerate(texts):
        index.add(number, parse_sql(text))
    return index


class Pair(NamedTuple):
    """Indexes of filters of one form."""

    form: str
    few: PredicateIndex[int, Any]
    many: PredicateIndex[int, Any]


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest) -> Pair:
    """Made once for all tests of a form, which leave both as they were."""
    form = request.param
    few, many = (index_of([form.replace("{}", str(number)) for number in range(size)]) for size in (FEW, MANY))
    return Pair(form, few, many)


def source(**entries: Any) -> Any:
    data = message(app=entries)
    return data, walk(data)


def seconds(run: Callable[[], object]) -> float:
    """Processor time of a hundred runs, the best of five: other work can only make it longer."""
    found = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(100):
            run()
        found.append(time.process_time() - start)
    return min(found)


@pytest.mark.parametrize("pair", LOOKED_UP, indirect=True)
def test_a_message_costs_the_same_however_many_filters_there_are(pair: Pair) -> None:
    _, few, many = pair
    assert many.scanned == 0
    given = source(id="z-7-z", color="red", n=7)
    assert many.matching(given) == []
    assert seconds(lambda: many.matching(given)) < 8 * seconds(lambda: few.matching(given))


@pytest.mark.parametrize("pair", LOOKED_UP, indirect=True)
def test_a_message_that_cannot_be_decoded_is_not_asked_by_each_filter(pair: Pair) -> None:
    _, few, many = pair
    data, layout = source(broken="q", id="z-7-z", color="red", n=7)
    broken = data.replace(b"\xa1\x01q", b"\x3f\x01q"), layout  # there is no such constructor
    assert many.matching(broken) == []
    assert steps(lambda: many.matching(broken)) <= steps(lambda: few.matching(broken))


@pytest.mark.parametrize("pair", [*LOOKED_UP, "id LIKE '%x-{}%'", "n > {}"], indirect=True)
def test_a_filter_comes_and_goes_at_its_own_cost(pair: Pair) -> None:
    form, few, many = pair
    predicate = parse_sql(form.replace("{}", "new")) if "n " not in form else parse_sql("n = 99999999")

    def comes_and_goes(index: PredicateIndex[int, Any]) -> None:
        index.add(-1, predicate)
        index.remove(-1)

    assert seconds(lambda: comes_and_goes(many)) < 8 * seconds(lambda: comes_and_goes(few))


def test_what_has_no_key_is_counted() -> None:
    index = index_of(["id LIKE '%x%'", "n > 5", "id = 'a' OR n > 5", "id = 'a'", "NOT id = 'a'", "n > 5"])
    assert index.scanned == 4
    assert len(index) == 6
    assert sorted(index.matching(source(id="a", n=6))) == [1, 2, 3, 5]
    for key in range(6):
        index.remove(key)
    assert index.scanned == len(index) == 0


def test_a_key_stands_for_one_predicate() -> None:
    index = index_of(["n = 5"])
    with pytest.raises(ValueError, match="already"):
        index.add(0, parse_sql("n = 6"))
    with pytest.raises(KeyError):
        index.remove(1)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("id = 'a' OR color = 'red'", {"id": "a"}),
        ("id = 'a' OR color = 'red'", {"color": "red"}),
        ("id LIKE 'a%' OR color LIKE '%d' OR n = 5", {"n": 5.0}),
        ("id LIKE 'a%' OR color LIKE '%d' OR n = 5", {"color": "red"}),
        ("id IN ('a', 'b', 'c')", {"id": "c"}),
        ("color = 'red' AND id LIKE 'a_c%z'", {"color": "red", "id": "abc-z"}),
        ("color = 'red' AND (id = 'a' OR id = 'b')", {"color": "red", "id": "b"}),
    ],
)
def test_each_key_of_a_filter_finds_it(text: str, entries: dict[str, Any]) -> None:
    index = index_of([f"id = 'other-{number}'" for number in range(9)])
    index.add(99, parse_sql(text))
    assert index.scanned == 0
    assert index.matching(source(**entries)) == [99]
    assert index.matching(source(id="other", color="blue", n=6)) == []
