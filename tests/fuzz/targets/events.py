"""CloudEvents: any text is a CESQL expression or the one error, any JSON a filter or its mistakes, any record an event.

Expressions agree with the naive evaluator, and every binding carries an event or says that it cannot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from bridges.cloudevents.events import dialects
from bridges.cloudevents.events.bindings.errors import NotEncodable
from bridges.cloudevents.events.event import CloudEvent, event_of
from bridges.cloudevents.events.filter import EventFilter
from bridges.cloudevents.events.index import FilterIndex
from bridges.cloudevents.model.values import Json
from bridges.kafka.records.envelope import Header
from gateway.errors import INVALID_FIELD, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.filters.cesql import Expression, compile_condition, parse_cesql
from tests.support.cloudevents.golden import ENCODERS
from tests.support.cloudevents.records import ADDRESS, REQUIRED, StoredRecord, event
from tests.support.filters import cesql_reference as naive

_SYNTAX = (
    "AND OR XOR NOT LIKE IN EXISTS TRUE false 'x' \"x\" '' \\' = <> != <= >= -1 +5 2147483648 INT( BOOL( STRING( "
    "IS_INT( ABS( LENGTH( CONCAT( CONCAT_WS( LOWER( TRIM( LEFT( SUBSTRING( type subject count missing \\% %x_ "
    '{"exact": {"prefix": {"suffix": {"all": [ {"any": [ {"not": {"sql": {"dialect": "basic" "filters" "conditions" '
    "ce_id ce_type ce_source ce_specversion content-type application/cloudevents+json data_base64 datacontenttype"
)
WORDS = tuple(word.encode() for word in _SYNTAX.split())
EVENTS = (event(subject="x", count="7"), event(datacontenttype="text/plain", subject="7", ext="true"))


def one(data: bytes) -> None:
    """The first byte chooses: an expression, a filter, or a record."""
    if data:
        (_expression, _filter, _record)[data[0] % 3](data[1:])


def _expression(data: bytes) -> None:
    text = data.decode(errors="replace")
    expression = _parsed(text)
    if isinstance(expression, AmqpError):
        assert expression.condition in (INVALID_FIELD, RESOURCE_LIMIT_EXCEEDED)
        assert 0 < len(expression.description) < 1000
        return
    hash(expression)
    holds = compile_condition(expression)
    for each in EVENTS:
        try:
            expected = naive.boolean(naive.evaluate(expression, each.attributes))
        except naive.Wrong:
            expected = False
        assert holds(each.attributes) == expected
    _same_alone(dialects.sql(text))


def _parsed(text: str) -> Expression | AmqpError:
    try:
        return parse_cesql(text)
    except AmqpError as error:
        return error


def _filter(data: bytes) -> None:
    try:
        value: Json = json.loads(data)
    except (ValueError, RecursionError):
        return
    for read in (dialects.basic, dialects.draft, dialects.types, dialects.source, dialects.sql, dialects.amqp_sql):
        try:
            found = read(value)
        except dialects.InvalidFilter:
            continue
        _same_alone(found)


def _same_alone(wanted: EventFilter) -> None:
    index = FilterIndex[int]()
    for key, each in enumerate([wanted, *(dialects.source(f"/{number}") for number in range(6))]):
        index.add(key, each)
    for each in EVENTS:
        assert (0 in index.matching(each)) == wanted.matches(each)


def _record(data: bytes) -> None:
    parts = _parts(data)
    value = next(parts, None)
    names = (name.decode(errors="replace") for name in parts if name is not None)
    headers: list[Header] = [(name, next(parts, None)) for name in names]
    known: list[Header] = [(f"ce_{name}", text.encode()) for name, text in REQUIRED.items()]
    for each in (headers, known + headers):
        found = event_of(StoredRecord(each, value), ADDRESS, wrap=True)
        assert found is not None
        _sent(found)


def _sent(found: CloudEvent) -> None:
    for encode in ENCODERS.values():
        try:
            encode(found)
        except NotEncodable:
            continue


def _parts(data: bytes) -> Iterator[bytes | None]:
    """A byte says how long the next part is; 255 that it is none."""
    place = 0
    while place < len(data):
        size = data[place]
        place += 1
        yield None if size == 255 else data[place : place + size]
        place += 0 if size == 255 else size
