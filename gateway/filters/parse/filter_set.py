"""A source's filter set as one predicate, the filters in force, and the position at which an event log begins.

All filters of a set must hold (AMQP 3.5.1); groups of filters are filters (FX 3). The descriptor gives the type of a
filter, as symbol or as number; the keys of the set are the client's own names. A filter of an unknown type is left out,
or refused if the policy demands it (CORE-3); a malformed one of a known type is always refused, because without the
filter the consumer would be flooded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from gateway.amqp.codec.types import Described, Symbol, Value, ValueMap
from gateway.errors import INVALID_FIELD, NOT_IMPLEMENTED, AmqpError, quoted
from gateway.filters.evaluate.search_limit import limited
from gateway.filters.parse.limits import LIMITS, FilterLimits, exceeded
from gateway.filters.parse.properties import parse_properties
from gateway.filters.position.event_log import beyond_position, hint, mentions_log
from gateway.filters.position.event_stream import FILTER_CODE, FILTER_NAME, LogPosition, Start
from gateway.filters.predicate import TRUE, And, In, IsTrue, MessageSection, Not, Or, Predicate, conjunction, walk

CAPABILITIES: Final = ("AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0")
"""The capabilities that an open offers and a source announces (FX-2-6)."""
SELECTOR: Final = "apache.org:selector-filter:string"
EVENT_SQL: Final = "amqp:event-streams-sql-filter"
SQL: Final = "amqp:sql-filter"
ALL: Final = "amqp:all-filter"
ANY: Final = "amqp:any-filter"
NOT: Final = "amqp:not-filter"
CODES: Final[dict[int, str]] = {
    0x120: SQL,
    0x173: "amqp:properties-filter",
    0x174: "amqp:application-properties-filter",
    FILTER_CODE: FILTER_NAME,
    0x201: EVENT_SQL,
    0x0000_468C_0000_0004: SELECTOR,
}
"""Numeric descriptors. 0xFEFEFEFE, which the draft gives to all its types, identifies none of them (ledger A14)."""
_SECTIONS: Final = (
    MessageSection.HEADER,
    MessageSection.DELIVERY_ANNOTATIONS,
    MessageSection.MESSAGE_ANNOTATIONS,
    MessageSection.PROPERTIES,
    MessageSection.APPLICATION_PROPERTIES,
    MessageSection.FOOTER,
)
_NAME: Final = 100
_EXPRESSIONS: Final = 2
"""The limit for the total length of a set's expressions, as a multiple of the limit for one."""


class Rules(NamedTuple):
    """The settings of the policy's `filters` that apply when filters are read."""

    limits: FilterLimits = LIMITS
    refuse_unknown: bool = False
    """Refuse filters of unknown types rather than leave them out."""
    seconds: bool = True
    """Small constants compared with the timestamp of events are seconds (ledger A6)."""
    earliest: bool = False
    """Filters without a position start an event log at its earliest event, not at its latest (ledger A4)."""


RULES: Final = Rules()
"""The rules of a policy without `filters`."""


class FilterSet(NamedTuple):
    """The filters of a source."""

    predicate: Predicate
    """Of the whole set; `TRUE` for an empty one. May contain `Latest`, which `predicate.bind` replaces."""
    in_force: ValueMap
    """The set for the answering attach: the filters that were understood, unchanged (CORE-3)."""
    position: LogPosition
    """Bounds within which all matches lie, and whether to begin at the end of the log."""
    left_out: tuple[str, ...] = ()
    """Names of the filters of unknown types."""
    places: frozenset[Value] = frozenset()
    """Names of filters in force that give a position and no other condition."""

    def without_position(self) -> ValueMap:
        """The set for the answering attach if the link does not begin at the position in the filters."""
        return {name: value for name, value in self.in_force.items() if name not in self.places}


NOTHING: Final = FilterSet(TRUE, {}, LogPosition(Start.LATEST))
"""A source without filters."""


class _FilterSetReader:
    """Reads one set; counts its terms."""

    def __init__(self, rules: Rules) -> None:
        self.rules: Final = rules
        self.positioned = False
        """Whether there is a filter that event streams define (ES-5.2-4)."""
        self._terms = 0
        self._characters = 0

    def filter(self, value: Described, depth: int = 0) -> Predicate | None:
        """The predicate of one filter; None if its type is unknown."""
        kind = kind_of(value.descriptor)
        if kind is not None and kind in _GROUPS:
            return self._group(kind, value.value, depth + 1)
        read = _READERS.get(kind or "")
        if read is None:
            return None
        self._spend_text(value.value)
        self.positioned |= kind in (FILTER_NAME, EVENT_SQL)
        predicate = read(value.value, self.rules)
        self._spend_terms(predicate)
        return predicate

    def _spend_text(self, content: Value) -> None:
        """Reading takes time for each character, so the expressions of a set are bounded together."""
        limit = _EXPRESSIONS * self.rules.limits.length
        content = content.value if isinstance(content, Described) else content
        self._characters += len(content) if isinstance(content, str) else 0
        if self._characters > limit:
            raise exceeded("the expressions of the filter set are too long in total", limit)

    def _spend_term(self) -> None:
        self._terms += 1
        if self._terms > self.rules.limits.nodes:
            raise exceeded("the filters have too many terms in total", self.rules.limits.nodes)

    def _spend_terms(self, predicate: Predicate) -> None:
        limits = self.rules.limits
        for node in walk(predicate):
            self._spend_term()
            if isinstance(node, In) and len(node.items) > limits.items:
                raise exceeded(f"IN has {len(node.items)} values", limits.items)

    def _group(self, kind: str, content: Value, depth: int) -> Predicate:
        limits = self.rules.limits
        if depth > limits.depth:
            raise exceeded("groups of filters are nested too deeply", limits.depth)
        if not isinstance(content, list):
            raise AmqpError(INVALID_FIELD, f"the value of {kind} must be a list of filters (FX 3)")
        if len(content) > limits.items:
            raise exceeded(f"{kind} has {len(content)} members", limits.items)
        if not content:
            raise AmqpError(INVALID_FIELD, f"{kind} has no members: a group needs at least one filter (FX 3)")
        self._spend_term()
        return _GROUPS[kind](tuple(IsTrue(self._member(kind, item, depth)) for item in content))

    def _member(self, kind: str, item: Value, depth: int) -> Predicate:
        """The error for a member that a group cannot leave out: its result would change."""
        if not isinstance(item, Described):
            text = f"a member of {kind} is not a filter: a filter must be a described value (FX 3)"
            raise AmqpError(INVALID_FIELD, text)
        found = self.filter(item, depth)
        if found is None:
            text = f"{kind} has a member of the unknown filter type {_shown(item.descriptor)}"
            raise AmqpError(NOT_IMPLEMENTED, text)
        return found


def prepare() -> None:
    """Build the parsers, in any thread: this takes 0.1 s, and no attach should wait for it."""
    from gateway.filters.parse import event_filters, selector, sql

    for language in (sql.LANGUAGE, selector.LANGUAGE, event_filters.LANGUAGE):
        language.prepare()


def read(filters: Mapping[Value, Value], rules: Rules = RULES, scope: str | None = None) -> FilterSet:
    """The filter set of a source of a peer in `scope`.

    Raises AmqpError with `filter` in its info, the name of the entry: INVALID_FIELD for a malformed one,
    NOT_IMPLEMENTED for an unknown one that is refused, RESOURCE_LIMIT_EXCEEDED for one that is too large. It quotes the
    peer's own filters, so that it is of `scope`, wherever the node is.
    """
    try:
        return _read(filters, rules)
    except AmqpError as error:
        raise error.of(scope) from None


def _read(filters: Mapping[Value, Value], rules: Rules) -> FilterSet:
    if len(filters) > rules.limits.items:
        raise exceeded(f"the filter set has {len(filters)} filters", rules.limits.items)
    reader = _FilterSetReader(rules)
    found: dict[Value, Predicate] = {}
    left_out = []
    for name, value in filters.items():
        if value is None:
            continue
        predicate = _entry(reader, name, value)
        if predicate is None:
            left_out.append(_text(name))
        else:
            found[name] = predicate
    whole = limited(conjunction(tuple(found.values()))) if found else TRUE
    in_force = {name: filters[name] for name in found}
    positioned = reader.positioned or (rules.earliest and bool(found))
    places = frozenset(name for name, each in found.items() if each != TRUE and not beyond_position(each))
    return FilterSet(whole, in_force, _position(whole, positioned), tuple(left_out), places)


def kind_of(descriptor: object) -> str | None:
    """The name of a filter's type, from a symbol or a number; None for an unknown number."""
    if isinstance(descriptor, str):
        return descriptor.strip()  # the draft prints some names with a trailing space (FX-3.1-2)
    return CODES.get(descriptor) if isinstance(descriptor, int) and not isinstance(descriptor, bool) else None


def _entry(reader: _FilterSetReader, name: object, value: object) -> Predicate | None:
    try:
        if not isinstance(value, Described):
            raise AmqpError(INVALID_FIELD, "a filter must be a described value (AMQP 3.5.8)")
        predicate = reader.filter(value)
        if predicate is None and reader.rules.refuse_unknown:
            raise AmqpError(NOT_IMPLEMENTED, f"unknown filter type {_shown(value.descriptor)}")
    except AmqpError as error:
        text = f"filter {_text(name)!r}: {error.description}"
        raise AmqpError(error.condition, text, info={"filter": _text(name)}) from None
    return predicate


def _position(predicate: Predicate, positioned: bool) -> LogPosition:
    """Where to begin: an event log starts at its end unless the filters name a position (ledger A4)."""
    position = hint(predicate)
    if positioned or mentions_log(predicate):
        return position
    return position._replace(start=Start.LATEST)


def _text(name: object) -> str:
    return str(name)[:_NAME]


def _shown(descriptor: object) -> str:
    return hex(descriptor) if isinstance(descriptor, int) else quoted(str(descriptor))


# -- the content of filters


def _string(kind: str, content: Value) -> str:
    """The text of a filter whose value is a string, which may be described once more (ES-5.2.2-1)."""
    if isinstance(content, Described) and kind_of(content.descriptor) == SQL:
        content = content.value
    if type(content) not in (str, Symbol):
        raise AmqpError(INVALID_FIELD, f"the value of {kind} must be a string")
    return str(content)


# Their modules are imported with lark by `prepare`, when the gateway already serves, or by the first filter.


def _sql(content: Value, rules: Rules) -> Predicate:
    from gateway.filters.parse.sql import parse_sql

    return parse_sql(_string(SQL, content), limits=rules.limits, seconds=rules.seconds)


def _event_sql(content: Value, rules: Rules) -> Predicate:
    from gateway.filters.parse.event_filters import parse_event_sql

    return parse_event_sql(_string(EVENT_SQL, content), limits=rules.limits, seconds=rules.seconds)


def _selector(content: Value, rules: Rules) -> Predicate:
    from gateway.filters.parse.selector import parse_selector

    return parse_selector(_string(SELECTOR, content), limits=rules.limits)


def _event_map(content: Value, rules: Rules) -> Predicate:
    from gateway.filters.parse.event_filters import parse_event_map

    return parse_event_map(content)


def _properties(section: MessageSection, content: Value, rules: Rules) -> Predicate:
    return parse_properties(section, content, rules.limits)


_READERS: Final[dict[str, Callable[[Value, Rules], Predicate]]] = {
    SQL: _sql,
    SELECTOR: _selector,
    FILTER_NAME: _event_map,
    EVENT_SQL: _event_sql,
    **{f"amqp:{section.value}-filter": partial(_properties, section) for section in _SECTIONS},
}
_GROUPS: Final[dict[str | None, Callable[[tuple[Predicate, ...]], Predicate]]] = {
    ALL: And,
    ANY: Or,
    NOT: lambda members: Not(Or(members)),
}
