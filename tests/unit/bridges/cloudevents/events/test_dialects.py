"""The dialects of filters: what they want, and every mistake with its place (CE 3.2.3)."""

from __future__ import annotations

import pytest

from bridges.cloudevents.events.dialects import InvalidFilter, basic, draft, source, types
from bridges.cloudevents.events.event import CloudEvent, StructuredBody
from bridges.cloudevents.events.filter import EVERYTHING, every
from bridges.cloudevents.events.index import FilterIndex
from bridges.cloudevents.model.values import Json
from gateway.filters.parse.limits import LIMITS, FilterLimits
from tests.support.cloudevents.records import ADDRESS, event

EVENT = event(
    subject="cat.jpg", time="2018-04-05T17:31:00Z", count="5", flag="true", empty="", datacontenttype="text/plain"
)
UNREADABLE = CloudEvent({}, "x", b"", None, ADDRESS, 0, 0, 0, StructuredBody("application/cloudevents+avro", b""))


def condition(kind: str, name: str, value: str) -> dict[str, Json]:
    return {"type": kind, "property": name, "value": value}


def basic_of(*conditions: Json, key: str = "filters") -> dict[str, Json]:
    return {"dialect": "basic", key: list(conditions)}


@pytest.mark.row("CE-3.2.3-2", "CE-3.2.3.1-1", "CE-3.2.3.1-5", "CE-3.2.3.1-6", "CE-3.2.3.1-7", "CE-3.2.3.1-8")
@pytest.mark.parametrize(
    ("kind", "name", "value", "matches"),
    [
        ("exact", "type", "com.example.order.created", True),
        ("exact", "type", "com.example.order.created2", False),
        ("exact", "type", "com.example.order", False),
        ("exact", "type", "COM.EXAMPLE.order.created", False),
        ("prefix", "type", "com.example", True),
        ("prefix", "type", "com.ex", True),
        ("prefix", "type", "org.", False),
        ("suffix", "subject", ".jpg", True),
        ("suffix", "subject", ".JPG", False),
        ("suffix", "subject", "a-cat.jpg", False),
        ("exact", "time", "2018-04-05T17:31:00Z", True),
        ("exact", "time", "2018-04-05T17:31:00+00:00", False),
        ("exact", "count", "5", True),
        ("exact", "flag", "true", True),
        ("exact", "datacontenttype", "text/plain", True),
        ("prefix", "specversion", "1.", True),
        ("exact", "empty", "", True),
        ("prefix", "empty", "", True),
        ("suffix", "subject", "", True),
        ("exact", "subject", "", False),
        ("exact", "absent", "", False),
        ("prefix", "absent", "", False),
        ("suffix", "absent", "", False),
    ],
)
def test_basic_conditions(kind: str, name: str, value: str, matches: bool) -> None:
    wanted = basic(basic_of(condition(kind, name, value)))
    assert wanted.matches(EVENT) is matches
    assert not wanted.unindexed
    assert not wanted.matches(UNREADABLE)


@pytest.mark.row("CE-3.2.3.1-2", "CE-3.2.3.1-9")
@pytest.mark.parametrize("key", ["filters", "conditions"])
def test_all_basic_conditions_have_to_hold(key: str) -> None:
    yes, no = condition("prefix", "type", "com."), condition("suffix", "subject", ".png")
    assert basic(basic_of(yes, condition("suffix", "subject", ".jpg"), key=key)).matches(EVENT)
    assert not basic(basic_of(yes, no, key=key)).matches(EVENT)
    assert not basic(basic_of(no, yes, key=key)).matches(EVENT)


@pytest.mark.row("CE-3.2.3.1-10")
def test_filter_without_conditions_wants_every_event() -> None:
    for wanted in (basic(basic_of()), draft([]), types([]), EVERYTHING, every([]), every([EVERYTHING])):
        assert wanted == EVERYTHING
        assert wanted.matches(EVENT)
        assert wanted.matches(UNREADABLE)
        assert not wanted.unindexed


LIMITED = FilterLimits(items=2, nodes=4, depth=2)


@pytest.mark.row("CE-3.2.3-5", "CE-3.2.3.1-2", "CE-3.2.3.1-3", "CE-3.2.3.1-4", "CE-3.2.3.1-5")
@pytest.mark.parametrize(
    ("value", "pointers"),
    [
        (None, [""]),
        ([], [""]),
        ({"dialect": "basic"}, ["/filters"]),
        ({"dialect": "basic", "filters": [], "conditions": []}, ["/conditions"]),
        ({"dialect": "basic", "filters": {}}, ["/filters"]),
        ({"dialect": "basic", "conditions": None}, ["/conditions"]),
        ({"dialect": "basic", "filters": [], "a/~b": 1}, ["/a~1~0b"]),
        (basic_of("x"), ["/filters/0"]),
        (basic_of({}), ["/filters/0/type", "/filters/0/property", "/filters/0/value"]),
        (basic_of(condition("contains", "type", "x")), ["/filters/0/type"]),
        (basic_of(condition("Exact", "type", "x")), ["/filters/0/type"]),
        (basic_of(condition("exact", "Type", "x"), condition("exact", "data", "x")),
         ["/filters/0/property", "/filters/1/property"]),
        (basic_of(condition("exact", "data_base64", "x"), key="conditions"), ["/conditions/0/property"]),
        (basic_of({"type": "exact", "property": "type", "value": 5}), ["/filters/0/value"]),
        (basic_of({"type": "exact", "property": "type", "value": None}), ["/filters/0/value"]),
        (basic_of({"type": ["exact"], "property": "type", "value": "x"}), ["/filters/0/type"]),
        (basic_of({**condition("exact", "type", "x"), "negate": True}), ["/filters/0/negate"]),
        (basic_of(*[condition("exact", "type", "x")] * 3), ["/filters"]),
    ],
)  # fmt: skip
def test_basic_mistakes(value: Json, pointers: list[str]) -> None:
    with pytest.raises(InvalidFilter) as error:
        basic(value, limits=LIMITED)
    assert [mistake.pointer for mistake in error.value.mistakes] == pointers
    assert all(mistake.message for mistake in error.value.mistakes)


YES: Json = {"exact": {"subject": "cat.jpg"}}
NO: Json = {"exact": {"subject": "dog.jpg"}}
ABSENT: Json = {"exact": {"absent": "x"}}


@pytest.mark.row("CE-3.2.3-6")
@pytest.mark.parametrize(
    ("filters", "matches"),
    [
        ([YES], True),
        ([NO], False),
        ([YES, NO], False),
        ([{"exact": {"subject": "cat.jpg", "count": "5"}}], True),
        ([{"exact": {"subject": "cat.jpg", "count": "6"}}], False),
        ([{"prefix": {"subject": "cat", "type": "com."}}], True),
        ([{"prefix": {"subject": "cat", "type": "org."}}], False),
        ([{"suffix": {"subject": ".jpg", "type": "created"}}], True),
        ([{"suffix": {"subject": ".jpg", "type": "x"}}], False),
        ([{"all": [YES, YES]}], True),
        ([{"all": [YES, NO]}], False),
        ([{"any": [NO, YES]}], True),
        ([{"any": [NO, NO]}], False),
        ([{"any": [ABSENT, YES]}], True),
        ([{"not": NO}], True),
        ([{"not": YES}], False),
        ([ABSENT], False),
        ([{"not": ABSENT}], True),
        ([{"not": {"prefix": {"absent": "x"}}}], True),
        ([{"not": {"suffix": {"absent": "x"}}}], True),
        ([{"not": {"not": ABSENT}}], False),
        ([{"not": {"all": [YES, ABSENT]}}], True),
        ([{"not": {"any": [YES, ABSENT]}}], False),
        ([{"exact": {"datacontenttype": "text/plain"}}], True),
    ],
)
def test_draft_filters(filters: list[Json], matches: bool) -> None:
    assert draft(filters).matches(EVENT) is matches
    index = FilterIndex[int]()
    index.add(1, draft(filters))
    assert index.matching(EVENT) == [1] * matches


@pytest.mark.row("CE-3.2.3-6", "CE-3.2.1-13")
@pytest.mark.parametrize(
    ("value", "pointers"),
    [
        (None, [""]),
        ({}, [""]),
        ([{}], ["/0"]),
        ([5], ["/0"]),
        ([{"exact": {"type": "x"}, "prefix": {"type": "x"}}], ["/0"]),
        ([{"exact": {}}, {"prefix": {}}], ["/0/exact", "/1/prefix"]),
        ([{"exact": {"type": ""}}], ["/0/exact/type"]),
        ([{"exact": {"": "x"}}], ["/0/exact/"]),
        ([{"exact": {"Type": 5}}], ["/0/exact/Type", "/0/exact/Type"]),
        ([{"suffix": []}], ["/0/suffix"]),
        ([{"all": []}], ["/0/all"]),
        ([{"any": {}}], ["/0/any"]),
        ([{"not": []}], ["/0/not"]),
        ([{"not": {"jq": ".x"}}], ["/0/not/jq"]),
        ([{"all": [YES, {"contains": {}}]}], ["/0/all/1/contains"]),
        ([{"not": {"not": YES}}], ["/0/not/not"]),
        ([YES, YES, YES], [""]),
        ([{"any": [YES, YES]}, {"all": [YES]}], ["/1/all"]),
    ],
)
def test_draft_mistakes(value: Json, pointers: list[str]) -> None:
    with pytest.raises(InvalidFilter) as error:
        draft(value, limits=LIMITED)
    assert [mistake.pointer for mistake in error.value.mistakes] == pointers


@pytest.mark.row("CE-3.2.1-13")
def test_types_and_source_join_the_filter() -> None:
    mine = types(["com.example.order.created", "com.example.order.deleted"])
    assert mine.matches(EVENT)
    assert not types(["com.example.order"]).matches(EVENT)
    assert source("/shop/1").matches(EVENT)
    assert not source("/shop").matches(EVENT)
    assert every([mine, source("/shop/1"), draft([YES])]).matches(EVENT)
    for one in (types(["x"]), source("/x"), draft([NO])):
        assert not every([mine, one]).matches(EVENT)


@pytest.mark.parametrize("value", [None, {}, "x", [""], [5], ["a", "b", "c"]])
def test_types_mistakes(value: Json) -> None:
    with pytest.raises(InvalidFilter):
        types(value, limits=LIMITED)


@pytest.mark.parametrize("value", [None, 5, "", "a b", "a\n", []])
def test_source_mistakes(value: Json) -> None:
    with pytest.raises(InvalidFilter):
        source(value)


def test_number_of_conditions_is_limited() -> None:
    many: dict[str, Json] = {f"a{number}": "x" for number in range(LIMITS.nodes + 1)}
    with pytest.raises(InvalidFilter) as error:
        draft([{"exact": many}])
    assert [mistake.pointer for mistake in error.value.mistakes] == ["/0/exact"]
