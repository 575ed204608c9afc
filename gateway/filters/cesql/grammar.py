"""Parses CESQL expressions to nodes; errors have line and column.

AND, OR and XOR share one precedence and bind to the left, as the specification says (3.4.2, 3.7); its reference
grammar binds them to the right. A sign is part of an integer only where an operand may begin, so that `4-1` is a
subtraction.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lark import Token, Transformer, v_args

from gateway.errors import quoted
from gateway.filters.cesql.functions import FUNCTIONS, arities
from gateway.filters.cesql.nodes import (
    AttributeExpression,
    CallExpression,
    ComparisonExpression,
    ExistsExpression,
    Expression,
    InExpression,
    LikeExpression,
    LiteralExpression,
    LogicExpression,
    LogicOperator,
    MathExpression,
    NegativeExpression,
    NotExpression,
)
from gateway.filters.cesql.values import LARGEST, SMALLEST
from gateway.filters.parse.grammar import SIGNS, Language, fault
from gateway.filters.parse.limits import LIMITS, NESTING, FilterLimits, exceeded

_RULES: Final = r"""
?start: logic
?logic: comparison | logic LOGIC comparison -> logical
?comparison: sum | comparison COMPARISON sum -> compared
?sum: product | sum (PLUS | MINUS) product -> computed
?product: tested | product (STAR | SLASH | PERCENT) tested -> computed
?tested: unary
    | tested [NOT] LIKE STRING -> like
    | tested [NOT] IN _OPEN logic (_COMMA logic)* _CLOSE -> one_of
?unary: NOT unary -> negation | MINUS unary -> negative | primary
?primary: _EXISTS ATTRIBUTE -> exists
    | FUNCTION _OPEN [logic (_COMMA logic)*] _CLOSE -> call
    | STRING -> text
    | INTEGER -> integer
    | TRUE -> true
    | FALSE -> false
    | ATTRIBUTE -> attribute
    | _OPEN logic _CLOSE -> inner
"""
_TERMINALS: Final = SIGNS + r"""
LOGIC.3: /(?:and|or|xor)\b/i
NOT.3: /not\b/i
IN.3: /in\b/i
LIKE.3: /like\b/i
_EXISTS.3: /exists\b/i
TRUE.3: /true\b/i
FALSE.3: /false\b/i
COMPARISON: "=" | "!=" | "<>" | ">=" | ">" | "<=" | "<"
STRING: /'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*"/s
INTEGER.2: /[+-]?[0-9]+(?![A-Za-z0-9_])/
FUNCTION.2: /(?!(?:and|or|xor|not|in|like|exists|true|false)\b)[A-Za-z][A-Za-z_]*(?=[ \t\r\n]*\()/i
ATTRIBUTE: /(?!(?:and|or|xor|not|in|like|exists|true|false)\b)[A-Za-z0-9]+(?![A-Za-z0-9_])/i
%ignore /[ \t\r\n]+/
"""
_HINTS: Final = {
    '"': "the text that begins here has no closing quote",
    "'": "the text that begins here has no closing quote",
    ";": "the expression ends too early",
    ".": "attribute names have only letters and digits",
}
_PAIR: Final = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
"""In a string: a backslash and what it escapes, or a doubled quote."""
_BACKSLASH: Final = re.compile(r"\\(?![_%])")


class CesqlPart(NamedTuple):
    """A part of the result during parsing: its node, its position and its nesting depth."""

    node: Expression
    at: Token
    depth: int = 1
    bare: LogicOperator | None = None
    """The operator of a logic expression without parentheses; None for all others."""


def _over(node: Expression, at: Token, *parts: CesqlPart) -> CesqlPart:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > _DEEPEST:
        raise exceeded(f"line {at.line}, column {at.column}: the expression is nested too deeply", _DEEPEST)
    return CesqlPart(node, at, depth)


_DEEPEST: Final = 2 * NESTING
"""The maximum nesting of operators; a chain of one operator counts as nested, too."""


@v_args(inline=True)
class _CesqlBuilder(Transformer[Token, CesqlPart]):
    """A method for each rule; all errors that they raise are AmqpError."""

    def logical(self, left: CesqlPart, sign: Token, right: CesqlPart) -> CesqlPart:
        operator = LogicOperator(sign.upper())
        mixed = left.bare not in (None, operator)
        part = _over(LogicExpression(operator, left.node, right.node, mixed), left.at, left, right)
        return part._replace(bare=operator)

    def compared(self, left: CesqlPart, sign: Token, right: CesqlPart) -> CesqlPart:
        operator = "!=" if sign == "<>" else str(sign)
        return _over(ComparisonExpression(operator, left.node, right.node), left.at, left, right)

    def computed(self, left: CesqlPart, sign: Token, right: CesqlPart) -> CesqlPart:
        return _over(MathExpression(str(sign), left.node, right.node), left.at, left, right)

    def like(self, part: CesqlPart, no: Token | None, _like: Token, text: Token) -> CesqlPart:
        pattern = _BACKSLASH.sub(r"\\\\", _unquoted(text))
        return _over(LikeExpression(part.node, pattern, no is not None), part.at, part)

    def one_of(self, part: CesqlPart, no: Token | None, _in: Token, *items: CesqlPart) -> CesqlPart:
        node = InExpression(part.node, tuple(item.node for item in items), no is not None)
        return _over(node, part.at, part, *items)

    def negation(self, word: Token, part: CesqlPart) -> CesqlPart:
        return _over(NotExpression(part.node), word, part)

    def negative(self, sign: Token, part: CesqlPart) -> CesqlPart:
        return _over(NegativeExpression(part.node), sign, part)

    def exists(self, name: Token) -> CesqlPart:
        return CesqlPart(ExistsExpression(name.lower()), name)

    def call(self, name: Token, *given: CesqlPart | None) -> CesqlPart:
        arguments = [part for part in given if part is not None]
        called, count = name.upper(), len(arguments)
        if called not in FUNCTIONS:
            raise fault(name, f"there is no function {quoted(str(name))} (allowed: {', '.join(FUNCTIONS)})")
        if count not in arities(called):
            raise fault(name, f"{called} takes {_counts(called)}, not {count}")
        return _over(CallExpression(called, tuple(part.node for part in arguments)), name, *arguments)

    def text(self, token: Token) -> CesqlPart:
        return CesqlPart(LiteralExpression(_unquoted(token)), token)

    def integer(self, token: Token) -> CesqlPart:
        number = int(token) if len(token) <= _DIGITS else LARGEST + 1
        if not SMALLEST <= number <= LARGEST:
            raise fault(token, f"an integer must be between {SMALLEST} and {LARGEST}")
        return CesqlPart(LiteralExpression(number), token)

    def true(self, token: Token) -> CesqlPart:
        return CesqlPart(LiteralExpression(True), token)

    def false(self, token: Token) -> CesqlPart:
        return CesqlPart(LiteralExpression(False), token)

    def attribute(self, token: Token) -> CesqlPart:
        return CesqlPart(AttributeExpression(token.lower()), token)

    def inner(self, part: CesqlPart) -> CesqlPart:
        return _over(part.node, part.at, part)


_DIGITS: Final = 1000
"""The maximum number of digits that are converted; Python refuses more than 4300."""


def _unquoted(token: Token) -> str:
    quote = token[0]
    return _PAIR.sub(lambda pair: quote if pair[0] in (quote * 2, "\\" + quote) else pair[0], token[1:-1])


def _counts(name: str) -> str:
    counts = arities(name)
    if counts.stop > len(FUNCTIONS[name].arguments) + 1:
        return f"at least {counts.start} arguments"
    return " or ".join(map(str, counts)) + (" argument" if list(counts) == [1] else " arguments")


LANGUAGE: Final = Language(_RULES, _CesqlBuilder(), terminals=_TERMINALS, hints=_HINTS)


def parse_cesql(text: str, *, limits: FilterLimits = LIMITS) -> Expression:
    """The expression in `text`.

    Raises AmqpError: INVALID_FIELD with line, column and what was expected, or RESOURCE_LIMIT_EXCEEDED.
    """
    return LANGUAGE.parse(text, limits).node
