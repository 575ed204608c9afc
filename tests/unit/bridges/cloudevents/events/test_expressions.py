"""Expressions as filters: CESQL alone and among the draft's dialects, and SQL over the message (CE-3.2.3-7)."""

from __future__ import annotations

import pytest

from bridges.cloudevents.events.dialects import InvalidFilter, amqp_sql, draft, sql
from bridges.cloudevents.events.event import CloudEvent, event_of
from bridges.cloudevents.events.filter import EventFilter
from bridges.cloudevents.events.index import FilterIndex
from bridges.cloudevents.model.values import Json
from bridges.kafka.records.mapping import RecordWriter
from gateway.amqp.codec.codec import Symbol
from gateway.amqp.message.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    section,
    walk,
)
from gateway.filters.parse.limits import FilterLimits
from tests.support.cloudevents.records import ADDRESS, REQUIRED, StoredRecord, binary_record, event

EVENT = event(subject="cat.jpg", amount="120", flag="true", datacontenttype="text/plain")


def matches_both_ways(wanted: EventFilter, found: CloudEvent) -> bool:
    """By itself and in an index with another one, which is the same."""
    index = FilterIndex[int]()
    index.add(1, wanted)
    for key in range(2, 8):
        index.add(key, draft([{"exact": {"subject": str(key)}}]))
    alone = wanted.matches(found)
    assert index.matching(found) == [1] * alone
    assert index.unindexed == wanted.unindexed
    return alone


@pytest.mark.row("CE-3.2.3-7")
@pytest.mark.parametrize(
    ("text", "matches", "indexed"),
    [
        ("subject = 'cat.jpg'", True, True),
        ("subject = 'cat'", False, True),
        ("subject IN ('dog', 'cat.jpg') AND amount > 100", True, True),
        ("subject LIKE 'cat%' AND amount > 200", False, True),
        ("amount > 100 AND subject LIKE '%.jpg'", True, True),
        ("subject = 'cat.jpg' OR subject = 'dog'", True, True),
        ("amount = 120 OR subject = 'dog'", True, False),
        ("amount > 100", True, False),
        ("subject LIKE '%t.j%'", True, False),
        ("NOT (subject = 'dog')", True, False),
        ("flag", True, False),
        ("TRUE", True, False),
        ("missing = 'x' OR TRUE", False, False),
        ("EXISTS subject AND NOT EXISTS missing", True, False),
        ("datacontenttype = 'text/plain'", True, True),
        ("LENGTH(datacontenttype) = 10", True, False),
        ("EXISTS datacontenttype", True, False),
        ("EXISTS data", False, False),
        ("amount / 0 = 1", False, False),
    ],
)
def test_cesql(text: str, matches: bool, indexed: bool) -> None:
    for wanted in (sql(text), draft([{"sql": text}]), draft([{"cesql": text}])):
        assert matches_both_ways(wanted, EVENT) is matches
        assert wanted.unindexed is not indexed
        assert wanted == sql(text)


@pytest.mark.row("CE-3.2.3-6", "CE-3.2.3-7")
@pytest.mark.parametrize(
    ("filters", "matches"),
    [
        ([{"not": {"sql": "missing = 'x'"}}], True),
        ([{"not": {"sql": "missing IN ('x')"}}], True),
        ([{"not": {"sql": "missing LIKE 'x%'"}}], True),
        ([{"not": {"sql": "amount > 100"}}], False),
        ([{"any": [{"sql": "amount > 500"}, {"prefix": {"subject": "cat"}}]}], True),
        ([{"any": [{"sql": "missing"}, {"sql": "flag"}]}], True),
        ([{"all": [{"sql": "amount > 500"}, {"prefix": {"subject": "cat"}}]}], False),
        ([{"prefix": {"subject": "cat"}}, {"sql": "amount > 100"}], True),
        ([{"not": {"any": [{"sql": "amount > 500"}, {"exact": {"subject": "dog"}}]}}], True),
    ],
)
def test_cesql_among_the_dialects_of_the_draft(filters: Json, matches: bool) -> None:
    assert matches_both_ways(draft(filters), EVENT) is matches


@pytest.mark.row("CE-3.2.3-7")
@pytest.mark.parametrize(
    ("filters", "pointer", "word"),
    [
        ([{"sql": "a ="}], "/0/sql", "line 1, column 4"),
        ([{"all": [{"not": {"cesql": "FOO(a)"}}]}], "/0/all/0/not/cesql", "no function 'FOO'"),
        ([{"sql": "a LIKE type"}], "/0/sql", "line 1, column 8"),
        ([{"sql": 5}], "/0/sql", "a CESQL expression"),
        ([{"sql": "  "}], "/0/sql", "a CESQL expression"),
        ([{"sql": "a" * 41}], "/0/sql", "the limit is 40"),
    ],
)
def test_mistakes_of_expressions(filters: Json, pointer: str, word: str) -> None:
    with pytest.raises(InvalidFilter) as error:
        draft(filters, limits=FilterLimits(length=40))
    (mistake,) = error.value.mistakes
    assert mistake.pointer == pointer
    assert word in mistake.message


@pytest.mark.parametrize(
    ("text", "mixed"),
    [
        ("subject = 'x' AND a OR b", True),
        ("subject = 'x' AND (a OR b)", False),
        ("(subject = 'x' AND a) OR subject = 'b'", False),
        ("subject = 'x' AND a AND b", False),
        ("subject = 'x' AND (a OR (b XOR c AND d))", True),
    ],
)
def test_summary_warns_of_operators_without_parentheses(text: str, mixed: bool) -> None:
    note = "; AND, OR and XOR bind from left to right"
    for wanted in (sql(text), draft([{"not": {"sql": text}}])):
        assert wanted.summary.startswith("unindexed" if wanted.unindexed else "indexed")
        assert wanted.summary.endswith(note) is mixed


def test_sql_where_it_is_not_offered() -> None:
    with pytest.raises(InvalidFilter) as error:
        draft([{"sql": "TRUE"}], sql=False)
    assert [mistake.pointer for mistake in error.value.mistakes] == ["/0/sql"]


def in_message(text: str, record: StoredRecord) -> bool:
    found = event_of(record, ADDRESS, wrap=True)
    assert found is not None
    wanted = amqp_sql(text)
    assert wanted.unindexed
    return matches_both_ways(wanted, found)


@pytest.mark.row("CE-3.2.3-1")
@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("[cloudEvents:subject] = 'x'", True),
        ("[cloudEvents:subject] = 'y'", False),
        ("p.content_type = 'application/json'", True),
        ("d.event-streams-offset = '00000000000000000007'", True),
        ("color = 'red'", True),
        ("color = 'blue'", False),
    ],
)
def test_sql_over_the_message_of_a_plain_record(text: str, matches: bool) -> None:
    record = binary_record(REQUIRED | {"subject": "x"})
    assert record.headers_ is not None
    record.headers_.append(("color", b"red"))
    record.offset_ = 7
    assert in_message(text, record) is matches


def test_sql_over_the_message_of_a_record_that_the_gateway_wrote() -> None:
    message = section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-tier"): "gold"})
    message += section(APPLICATION_PROPERTIES, {f"cloudEvents:{name}": value for name, value in REQUIRED.items()})
    message += section(AMQP_VALUE, {"total": 5})
    key, value, headers = RecordWriter().record(message, walk(message))
    record = StoredRecord(headers, value, key)
    assert in_message("m.[x-opt-tier] = 'gold' AND v.total > 4", record)
    assert not in_message("v.total > 5", record)


def test_sql_over_the_message_of_an_event_without_a_record() -> None:
    assert not amqp_sql("TRUE").matches(CloudEvent(REQUIRED, None, None, None, ADDRESS, 0, 0, 0))


@pytest.mark.parametrize("value", [None, "", " ", 5, "a =", "data.x = 1"])
def test_mistakes_of_amqp_sql(value: Json) -> None:
    with pytest.raises(InvalidFilter) as error:
        amqp_sql(value)
    assert [mistake.pointer for mistake in error.value.mistakes] == [""]
