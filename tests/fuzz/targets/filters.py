"""Filters: any text is a predicate or the one error, in each language; any value is a filter set or that error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.amqp.codec.decoder import decode_all
from gateway.amqp.message.sections import walk
from gateway.errors import INVALID_FIELD, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.filters.evaluate.access import MessageAccess
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.parse.event_filters import parse_event_sql
from gateway.filters.parse.filter_set import CODES, read
from gateway.filters.parse.selector import parse_selector
from gateway.filters.parse.sql import parse_sql
from tests.support.amqp.messages import message

LANGUAGES = (parse_sql, parse_selector, parse_event_sql)
CONDITIONS = {INVALID_FIELD, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED}
SYNTAX = (
    "AND OR NOT IS NULL IN LIKE ESCAPE EXISTS BETWEEN TRUE FALSE UNKNOWN <> != <= >= '' 'x' \" [a] 1e9 0xFF 05 .5 a.x "
    "h.priority p.message_id v.items[0] d.event-streams-offset '@latest' JMSPriority JMSXGroupID data $x"
)
WORDS = (*(word.encode() for word in SYNTAX.split()), *(name.encode() for name in CODES.values()))
DATA = message(b"m", app={"x": 1, "color": "red"}, subject="s")
MESSAGE = DATA, walk(DATA)


def one(data: bytes) -> None:
    """The first byte chooses: a language, or a value of AMQP."""
    if not data:
        return
    if (chosen := data[0] % 4) == 3:
        _set(data[1:])
        return
    text = data[1:].decode(errors="replace")
    predicate = _outcome(lambda: LANGUAGES[chosen](text))
    if predicate is not None:
        hash(predicate)
        compile_filter(predicate, MessageAccess())(MESSAGE)


def _set(data: bytes) -> None:
    try:
        filters = decode_all(data)
    except AmqpError:
        return
    if not isinstance(filters, dict):
        return
    found = _outcome(lambda: read(filters))
    if found is not None:
        wanted = {name for name, value in filters.items() if value is not None}
        assert set(found.in_force) | set(found.left_out) >= wanted


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except AmqpError as error:
        refusal = error
    assert refusal.condition in CONDITIONS, refusal
    assert 0 < len(refusal.description) < 1000
    return None
