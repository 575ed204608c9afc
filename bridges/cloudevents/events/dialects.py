"""The filter dialects of a subscription (CE 3.2.3): parses their JSON and reports all mistakes at once. Pure.

Each function parses the value of one member of the subscription. The mistakes of `InvalidFilter` have JSON pointers
relative to that member. `every` joins the filters of several members.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from bridges.cloudevents.events.access import attribute
from bridges.cloudevents.events.condition import (
    EVERY,
    AttributeCondition,
    CesqlCondition,
    Condition,
    MessageCondition,
    all_of,
    any_of,
    none_of,
)
from bridges.cloudevents.events.filter import EVERYTHING, EventFilter
from bridges.cloudevents.model.values import Json
from gateway.errors import AmqpError
from gateway.filters.cesql import limited_cesql, parse_cesql
from gateway.filters.cesql.limit import WORK
from gateway.filters.evaluate.search_limit import limited
from gateway.filters.parse.limits import LIMITS, FilterLimits
from gateway.filters.parse.sql import parse_sql
from gateway.filters.predicate import Affix, In, Literal, Matches, Predicate, Text

_NAME: Final = re.compile(r"[a-z0-9]+")
_SPACE: Final = re.compile(r"[\s\x00-\x1f\x7f<>\"{}|\\^`]")
_NO_ATTRIBUTES: Final = ("data", "database64")
_TERMS: Final = ("exact", "prefix", "suffix")
_DIALECTS: Final = (*_TERMS, "all", "any", "not", "sql")


class FilterMistake(NamedTuple):
    """A mistake in a filter, with a JSON pointer relative to the parsed member."""

    pointer: str
    message: str


class InvalidFilter(ValueError):
    """A filter with mistakes."""

    def __init__(self, *mistakes: FilterMistake) -> None:
        super().__init__("; ".join(f"{mistake.pointer}: {mistake.message}" for mistake in mistakes))
        self.mistakes: Final = mistakes


def basic(value: Json, *, limits: FilterLimits = LIMITS) -> EventFilter:
    """Parse the member `filter` in the dialect `basic` (CE 3.2.3.1); raises InvalidFilter."""
    read = _DialectParser(limits)
    return read.finished(read.basic(value))


def draft(value: Json, *, sql: bool = True, limits: FilterLimits = LIMITS) -> EventFilter:
    """Parse the member `filters`, an array of the draft's dialects; `sql`: whether CESQL is allowed there.

    An empty array matches every event. Raises InvalidFilter.
    """
    read = _DialectParser(limits, sql=sql)
    return read.finished(read.filters(value, "", 1, empty=True))


def types(value: Json, *, limits: FilterLimits = LIMITS) -> EventFilter:
    """Parse the member `types`: the event has one of these types; raises InvalidFilter."""
    read = _DialectParser(limits)
    return read.finished(read.types(value))


def source(value: Json) -> EventFilter:
    """Parse the member `source`: the event has exactly this source; raises InvalidFilter."""
    if not isinstance(value, str) or not value or _SPACE.search(value):
        raise InvalidFilter(FilterMistake("", "a URI reference"))
    return EventFilter(AttributeCondition(_term("exact", "source", value)))


def sql(value: Json, *, limits: FilterLimits = LIMITS) -> EventFilter:
    """Parse a CESQL expression; raises InvalidFilter."""
    read = _DialectParser(limits)
    return read.finished(read.sql(value, ""))


def amqp_sql(value: Json, *, limits: FilterLimits = LIMITS) -> EventFilter:
    """Parse an SQL filter over the message that receivers of the record get; raises InvalidFilter."""
    read = _DialectParser(limits)
    return read.finished(read.amqp_sql(value))


def _term(kind: str, name: str, operand: str) -> Predicate:
    field = attribute(name)
    if kind == "exact":
        return Matches(field, operand)
    return Text(field, Affix(kind), operand, fold=False)


class _DialectParser:
    """Parses JSON and collects mistakes; an invalid part becomes a condition that is discarded."""

    def __init__(self, limits: FilterLimits, *, sql: bool = True) -> None:
        self._limits: Final = limits
        self._sql: Final = sql
        self._mistakes: Final[list[FilterMistake]] = []
        self._nodes = 0

    def finished(self, condition: Condition) -> EventFilter:
        if self._mistakes:
            raise InvalidFilter(*self._mistakes)
        return EVERYTHING if condition == EVERY else EventFilter(condition)

    def _wrong(self, pointer: str, message: str) -> Condition:
        self._mistakes.append(FilterMistake(pointer, message))
        return EVERY

    # -- basic

    def basic(self, value: Json) -> Condition:
        if not isinstance(value, dict):
            return self._wrong("", "an object")
        self._unknown(value, "", ("dialect", "filters", "conditions"))
        given = [name for name in ("filters", "conditions") if name in value]
        if not given:
            return self._wrong("/filters", "required: an array of conditions")
        if len(given) == 2:
            return self._wrong("/conditions", "the same as filters: only one of them")
        items = self._array(value[given[0]], f"/{given[0]}")
        conditions = [self._condition(item, f"/{given[0]}/{number}") for number, item in enumerate(items)]
        return all_of(tuple(conditions)) if conditions else EVERY

    def _condition(self, value: Json, at: str) -> Condition:
        if not isinstance(value, dict):
            return self._wrong(at, "an object with type, property and value")
        before = len(self._mistakes)
        self._unknown(value, at, ("type", "property", "value"))
        kind, name, operand = value.get("type"), value.get("property"), value.get("value")
        if kind not in _TERMS:
            self._wrong(f"{at}/type", "exact, prefix or suffix")
        self._name(name, f"{at}/property")
        if not isinstance(operand, str):
            self._wrong(f"{at}/value", "a string")
        if len(self._mistakes) > before:
            return EVERY
        return AttributeCondition(_term(str(kind), str(name), str(operand)))

    def _name(self, name: Json, at: str) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self._wrong(at, "the name of an attribute: lower-case letters a to z and digits")
        elif name in _NO_ATTRIBUTES:
            self._wrong(at, f"{name} is not an attribute; filters cannot ask for the data of an event")

    def _unknown(self, value: Mapping[str, Json], at: str, known: tuple[str, ...]) -> None:
        for name in value.keys() - set(known):
            self._wrong(f"{at}/{escaped(name)}", f"unknown; known are {', '.join(known)}")

    def _array(self, value: Json, at: str) -> list[Json]:
        if not isinstance(value, list):
            self._wrong(at, "an array")
            return []
        self._nodes += len(value)
        if len(value) > self._limits.items or self._nodes > self._limits.nodes:
            most = self._limits.items if len(value) > self._limits.items else self._limits.nodes
            self._wrong(at, f"too many conditions: the limit is {most}")
            return []
        return value

    # -- the draft

    def filters(self, value: Json, at: str, depth: int, *, empty: bool = False) -> Condition:
        return all_of(self._members(value, at, depth, empty=empty) or (EVERY,))

    def _members(self, value: Json, at: str, depth: int, *, empty: bool = False) -> tuple[Condition, ...]:
        if value == [] and not empty:
            self._wrong(at, "at least one filter")
        return tuple(self._filter(item, f"{at}/{number}", depth) for number, item in enumerate(self._array(value, at)))

    def _filter(self, value: Json, at: str, depth: int) -> Condition:
        if not isinstance(value, dict) or len(value) != 1:
            return self._wrong(at, f"an object with exactly one dialect of {', '.join(_DIALECTS)}")
        ((dialect, content),) = value.items()
        below = f"{at}/{escaped(dialect)}"
        if depth > self._limits.depth:
            return self._wrong(at, f"filters are nested too deeply: the limit is {self._limits.depth}")
        if dialect in _TERMS:
            return self._terms(dialect, content, below)
        if dialect == "all":
            return all_of(self._members(content, below, depth + 1) or (EVERY,))
        if dialect == "any":
            return any_of(self._members(content, below, depth + 1) or (EVERY,))
        if dialect == "not":
            return none_of(self._filter(content, below, depth + 1))
        if dialect in ("sql", "cesql"):
            return self.sql(content, below)
        return self._wrong(below, f"unknown dialect; known are {', '.join(_DIALECTS)}")

    def _terms(self, dialect: str, value: Json, at: str) -> Condition:
        if not isinstance(value, dict) or not value:
            return self._wrong(at, "an object with at least one attribute and its value")
        before = len(self._mistakes)
        self._nodes += len(value) - 1
        if self._nodes > self._limits.nodes:
            return self._wrong(at, f"too many conditions: the limit is {self._limits.nodes}")
        for name, operand in value.items():
            self._name(name, f"{at}/{escaped(name)}")
            if not isinstance(operand, str) or not operand:
                self._wrong(f"{at}/{escaped(name)}", "a string that is not empty")
        if len(self._mistakes) > before:
            return EVERY
        return all_of(tuple(AttributeCondition(_term(dialect, name, str(text))) for name, text in value.items()))

    # -- types, source and expressions

    def types(self, value: Json) -> Condition:
        items = self._array(value, "")
        for number, item in enumerate(items):
            if not isinstance(item, str) or not item:
                self._wrong(f"/{number}", "a type: a string that is not empty")
        if not items:
            return EVERY
        names = dict.fromkeys(map(str, items))
        return AttributeCondition(In(attribute("type"), tuple(Literal(name) for name in names)))

    def sql(self, value: Json, at: str) -> Condition:
        if not self._sql:
            return self._wrong(at, "the dialect sql is not offered here")
        if not isinstance(value, str) or not value.strip():
            return self._wrong(at, "a CESQL expression")
        try:
            return CesqlCondition(limited_cesql(parse_cesql(value, limits=self._limits)))
        except AmqpError as error:
            return self._wrong(at, error.description)

    def amqp_sql(self, value: Json) -> Condition:
        if not isinstance(value, str) or not value.strip():
            return self._wrong("", "an SQL expression")
        try:
            return MessageCondition(limited(parse_sql(value, limits=self._limits), WORK))
        except AmqpError as error:
            return self._wrong("", error.description)


def escaped(name: str) -> str:
    """A member name as a reference token of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
