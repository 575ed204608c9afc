"""The two filters that event streams define themselves: a map of positions, and a small SQL (ES 5.2.1, 5.2.2).

Both become predicates. The SQL filter accepts every expression of the small SQL, with the same meaning.
"""

from __future__ import annotations

from typing import Final

from lark import Token, v_args

from gateway.amqp.codec.types import Long, Symbol, Timestamp, Value
from gateway.errors import INVALID_FIELD, AmqpError, quoted
from gateway.filters.parse.builder import Builder, condition
from gateway.filters.parse.grammar import Language, Part
from gateway.filters.parse.limits import LIMITS, FilterLimits
from gateway.filters.parse.sql import LOG_NAMES, plain
from gateway.filters.position.event_log import OFFSET_FIELD, TIMESTAMP_FIELD, normalised
from gateway.filters.position.event_stream import OFFSET, TIMESTAMP
from gateway.filters.predicate import (
    TRUE,
    Compare,
    Comparison,
    FieldReference,
    Literal,
    MessageSection,
    Predicate,
    conjunction,
)

_RULES: Final = r"""
?start: all_of | all_of (_OR all_of)+ -> disjunction
?all_of: test | test (_AND test)+ -> conjunction
?test: TRUE -> true | FALSE -> false | operand COMPARISON operand -> comparison
?operand: STRING -> text | INTEGER -> integer | field
field: LOG_SECTION _DOT (LOG_FIELD | DELIMITED)
"""


@v_args(inline=True)
class _Subset(Builder):
    """The builder of the small SQL, whose fields are delivery annotations only."""

    def field(self, word: Token, name: Token) -> Part:
        return Part(FieldReference(MessageSection.DELIVERY_ANNOTATIONS, plain(name)), word)


LANGUAGE: Final = Language(_RULES + LOG_NAMES, _Subset())


def parse_event_sql(text: str, *, limits: FilterLimits = LIMITS, seconds: bool = True) -> Predicate:
    """The predicate of `amqp:event-streams-sql-filter` (ES 5.2.2); raises as `sql.parse_sql` does.

    With `seconds`, small constants compared with the timestamp are seconds (ledger A6).
    """
    return normalised(condition(LANGUAGE.parse(text, limits)), seconds=seconds)


def parse_event_map(content: Value) -> Predicate:
    """The predicate of `amqp:event-streams-delivery-annotations-filter`: greater than every entry (ES 5.2.1).

    Raises INVALID_FIELD for anything malformed: without the filter, the consumer would be flooded.
    """
    if not isinstance(content, dict):
        raise _malformed("the value of the event-stream filter must be a map")
    found = [Compare(Comparison.GT, *_entry(key, value)) for key, value in content.items()]
    return normalised(conjunction(tuple(found)), seconds=False) if found else TRUE


def _entry(key: Value, value: Value) -> tuple[FieldReference, Literal]:
    if key == OFFSET:
        if type(value) not in (str, Symbol):
            raise _malformed(f"{OFFSET} must be a symbol")
        return OFFSET_FIELD, Literal(str(value))
    if key == TIMESTAMP:
        if type(value) not in (Timestamp, Long, int):
            raise _malformed(f"{TIMESTAMP} must be a timestamp")
        return TIMESTAMP_FIELD, Literal(Timestamp(value))
    raise _malformed(f"{quoted(str(key))}: only {OFFSET} and {TIMESTAMP} are keys of this filter (ES 5.2.1)")


def _malformed(why: str) -> AmqpError:
    return AmqpError(INVALID_FIELD, why)
