"""The members `filter`, `filters`, `types` and `source` of a subscription as one filter (CE 3.2.3). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from bridges.cloudevents.events import dialects
from bridges.cloudevents.events.dialects import InvalidFilter
from bridges.cloudevents.events.filter import EventFilter, every
from bridges.cloudevents.model.members import InvalidMember, Members, object_value
from bridges.cloudevents.model.values import Json, Mistake
from gateway.filters.parse.limits import FilterLimits
from policies.model.filters import Filters

_EXPRESSIONS: Final = {"sql": "sql", "cesql": "sql", "amqp-sql": "amqp-sql"}
_DIALECTS: Final = ("basic", *_EXPRESSIONS)
_SETS: Final[dict[frozenset[str], frozenset[str]]] = {}
"""Sets of dialects, of which there are few; subscriptions with equal ones share them."""


class ParsedFilter(NamedTuple):
    """The filter of a subscription and its dialects, named as in the policy."""

    filter: EventFilter
    dialects: frozenset[str]


def event_filter(members: Members, mistakes: list[Mistake], policy: Filters) -> ParsedFilter:
    """Parse the four members; an event must match all that are present."""
    limits = FilterLimits(
        policy.max_length, policy.max_tokens, policy.max_depth, policy.max_terms, policy.max_items
    )
    reading = _FilterParser(limits, mistakes)
    if "filter" in members and "filters" in members:
        members.report("filters", "an object has filter or filters, not both")
    members.take("filter", reading.filter, None)
    members.take("filters", reading.filters, None)
    members.take("types", lambda value: reading.add("/types", lambda: dialects.types(value, limits=limits)), None)
    members.take("source", lambda value: reading.add("/source", lambda: dialects.source(value)), None)
    used = frozenset(reading.used)
    return ParsedFilter(every(reading.found), _SETS.setdefault(used, used))


class _FilterParser:
    """Collects filters and mistakes."""

    def __init__(self, limits: FilterLimits, mistakes: list[Mistake]) -> None:
        self._limits: Final = limits
        self._mistakes: Final = mistakes
        self.found: Final[list[EventFilter]] = []
        self.used: Final[set[str]] = set()

    def add(self, at: str, parse: Callable[[], EventFilter]) -> None:
        """Parse one filter; its mistakes point below `at`."""
        try:
            self.found.append(parse())
        except InvalidFilter as error:
            self._mistakes.extend(Mistake(at + each.pointer, each.message) for each in error.mistakes)

    def filter(self, value: Json) -> None:
        """The member `filter`: null, or an object with a dialect (CE-3.2.3-4)."""
        if value is None:
            return
        found = object_value(value)
        dialect = found.get("dialect")
        if not isinstance(dialect, str):
            raise InvalidMember(f"required: the dialect, one of {', '.join(_DIALECTS)}", "/dialect")
        if dialect == "basic":
            self.used.add("basic")
            self.add("/filter", lambda: dialects.basic(value, limits=self._limits))
        elif dialect in _EXPRESSIONS:
            self.used.add(_EXPRESSIONS[dialect])
            self._expression(found, dialect)
        else:
            raise InvalidMember(f"unknown; known are {', '.join(_DIALECTS)}", "/dialect")

    def _expression(self, value: dict[str, Json], dialect: str) -> None:
        read = Members(value, "/filter", self._mistakes)
        read.take("dialect", lambda value: value, None)
        expression = read.require("expression", _expression, None)
        read.finish()
        if expression is None:
            return
        parse = dialects.amqp_sql if dialect == "amqp-sql" else dialects.sql
        self.add("/filter/expression", lambda: parse(expression, limits=self._limits))

    def filters(self, value: Json) -> None:
        """The member `filters` of later drafts: an array of objects with one dialect each."""
        if value != []:
            self.used.add("filters")
        if _has_sql(value):
            self.used.add("sql")
        self.add("/filters", lambda: dialects.draft(value, limits=self._limits))


def _expression(value: Json) -> str:
    if isinstance(value, str) and value:
        return value
    raise InvalidMember("an expression")


def _has_sql(value: Json) -> bool:
    """Whether a draft filter contains the dialect `sql`; the result for a malformed one is arbitrary."""
    if isinstance(value, list):
        return any(map(_has_sql, value))
    if isinstance(value, dict):
        return any(name in ("sql", "cesql") or (name in ("all", "any", "not") and _has_sql(item))
            for name, item in value.items())
    return False
