"""The SQL filter of Filter Expressions (FX 5): `parse_sql("a.color = 'red' AND h.priority > 4")`.

Where the draft leaves something open, the interpretation is in rows FX-5-1 to FX-5-25 of docs/conformance.md.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from lark import Token, v_args

from gateway.errors import quoted
from gateway.filters.parse.builder import RULES, Builder, condition, over, value
from gateway.filters.parse.grammar import Language, Part, fault
from gateway.filters.parse.limits import LIMITS, FilterLimits
from gateway.filters.parse.sections import FIXED, SHORT, section
from gateway.filters.position.event_log import normalised
from gateway.filters.predicate import Exists, FieldReference, Literal, MessageSection, Predicate, ValueExpression

LOG_NAMES: Final = r"""
LOG_SECTION.4: /(?:delivery[_-]annotations|d)(?=\s*\.)/i
LOG_FIELD: /[^\W\d_][\w-]*/
"""
"""Names in the delivery annotations, which may contain hyphens."""
_SECTION: Final = "|".join(
    f"{short}|{long.value.replace('-', '[_-]')}" for short, long in SHORT.items() if short != "d"
)
_NEAR: Final = 0.75
"""Similarity from which a word counts as a misspelt section."""
_SHOWN: Final = 100
"""Characters of a name that an error repeats."""
_SQL: Final = r"""
special: _EXISTS _OPEN _reference _CLOSE -> exists
?other: _reference | NULL -> nothing
_reference: named | logged | unnamed
named: SECTION _DOT _name _step*
logged: LOG_SECTION _DOT (LOG_FIELD | DELIMITED) _step*
unnamed: (NAME | DELIMITED) _step*
_name: FIELD | DELIMITED
_step: _DOT _name | index
index: _INDEX sum _END_INDEX
SECTION.4: /(?:%s)(?=\s*\.)/i
NAME: /(?!(?:and|or|not|in|is|like|escape|null|true|false|exists|between)\b)[^\W\d_]\w*/i
FIELD: /[^\W\d_]\w*/
"""


@v_args(inline=True)
class _Sql(Builder):
    """The builder of the SQL filter, with sections and paths in references."""

    def exists(self, part: Part) -> Part:
        assert isinstance(part.node, FieldReference)
        return over(Exists(part.node), part.at, part)

    def nothing(self, token: Token) -> Part:
        return Part(Literal(None), token)

    def named(self, word: Token, name: Token, *path: Token | Part) -> Part:
        return _field(word, section(word), name, path)

    def logged(self, word: Token, name: Token, *path: Token | Part) -> Part:
        return _field(word, MessageSection.DELIVERY_ANNOTATIONS, name, path)

    def unnamed(self, name: Token, *path: Token | Part) -> Part:
        if name.type == "NAME" and name.lower() == "data" and path and isinstance(path[0], Token):
            raise fault(name, "the content of data sections cannot be filtered on (FX 2)")
        if path and isinstance(path[0], Token):
            raise fault(name, _no_section(plain(name), plain(path[0])))
        return _field(name, MessageSection.APPLICATION_PROPERTIES, name, path)

    def index(self, part: Part) -> Part:
        return Part(value(part), part.at, part.depth)


def _field(at: Token, where: MessageSection, name: Token, path: tuple[Token | Part, ...]) -> Part:
    steps: list[str | ValueExpression] = [plain(step) if isinstance(step, Token) else value(step) for step in path]
    parts = [step for step in path if isinstance(step, Part)]
    return over(FieldReference(where, _known(where, name), tuple(steps)), at, *parts)


def _no_section(name: str, below: str) -> str:
    """Why a name without a section can have no path: an application property is of a simple type (AMQP 3.2.5)."""
    word = name.lower().replace("-", "_")
    known = [section.value.replace("-", "_") for section in MessageSection]
    near = get_close_matches(word, known, 1, _NEAR) or [each for each in reversed(known) if word in each.split("_")]
    if near:
        return f"there is no section {quoted(name)}; did you mean {near[0]}.{_shown(below)}?"
    whole = _shown(f"{name}.{below}")
    return (
        f"{quoted(name)} is not a section, and application properties have no entries: for a property named "
        f"{quoted(f'{name}.{below}')} write [{whole}], for the body's map v.{whole}"
    )


def _shown(name: str) -> str:
    """A name for a suggestion in an error: only the beginning of a long one."""
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"


def _known(where: MessageSection, token: Token) -> str:
    """The name of the field in the section: in the header and the properties `_` may replace `-`."""
    name = plain(token)
    if where not in FIXED:
        return name
    found = name.replace("_", "-")
    if found not in FIXED[where]:
        fields = ", ".join(item.replace("-", "_") for item in FIXED[where])
        raise fault(token, f"the {where.value} section has {fields}")
    return found


def plain(token: Token) -> str:
    """A name without its brackets; doubled brackets inside mean one."""
    return token[1:-1].replace("[[", "[").replace("]]", "]") if token.type == "DELIMITED" else str(token)


LANGUAGE: Final = Language(RULES + _SQL % _SECTION + LOG_NAMES, _Sql())


def parse_sql(text: str, *, limits: FilterLimits = LIMITS, seconds: bool = True) -> Predicate:
    """The predicate of an SQL filter (FX 5); with `seconds`, as in the small SQL of event streams (ledger A6).

    Raises AmqpError: INVALID_FIELD with line, column and what was expected, or RESOURCE_LIMIT_EXCEEDED.
    """
    return normalised(condition(LANGUAGE.parse(text, limits)), seconds=seconds)
