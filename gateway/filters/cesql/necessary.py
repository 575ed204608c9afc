"""Necessary conditions of CESQL expressions: predicates over attributes that are texts.

Whenever the expression is true of an event, so is the predicate, which an index looks up. For the common terms and
their conjunctions it is equivalent to the expression; for all others it is weaker, and the expression has to be
evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.filters.cesql.compile import ESCAPE
from gateway.filters.cesql.nodes import (
    AttributeExpression,
    ComparisonExpression,
    ExistsExpression,
    Expression,
    InExpression,
    LikeExpression,
    LiteralExpression,
    LogicExpression,
    LogicOperator,
)
from gateway.filters.predicate import (
    TRUE,
    And,
    Exists,
    FieldReference,
    In,
    Like,
    Literal,
    Matches,
    Or,
    Predicate,
    ValueExpression,
)

Field = Callable[[str], FieldReference]


class Necessary(NamedTuple):
    """A predicate, and whether it is equivalent to the expression."""

    predicate: Predicate
    sufficient: bool


_NOTHING: Final = Literal(None)
_UNKNOWN: Final = Necessary(TRUE, sufficient=False)


def necessary(expression: Expression, field: Field) -> Necessary:
    """The necessary condition; `field` maps an attribute's name to its field. All attributes have to be texts."""
    if isinstance(expression, LogicExpression):
        return _of_logic(expression, field)
    if isinstance(expression, ExistsExpression):
        return Necessary(Exists(field(expression.name)), sufficient=True)
    predicate = _of_term(expression, field)
    return _UNKNOWN if predicate is None else Necessary(predicate, sufficient=True)


def _of_logic(expression: LogicExpression, field: Field) -> Necessary:
    if expression.operator is LogicOperator.XOR:
        return _UNKNOWN
    left, right = necessary(expression.left, field), necessary(expression.right, field)
    if expression.operator is LogicOperator.AND:
        known = tuple(part.predicate for part in (left, right) if part.predicate != TRUE)
        return Necessary(And(known) if known else TRUE, left.sufficient and right.sufficient)
    if TRUE in (left.predicate, right.predicate):
        return _UNKNOWN
    sure = isinstance(expression.left, ExistsExpression) and right.sufficient  # only EXISTS cannot fail on the left
    return Necessary(Or((left.predicate, right.predicate)), sure)


def _of_term(expression: Expression, field: Field) -> Predicate | None:
    """A term that compares an attribute with texts; it fails where the attribute is missing, so it is not true."""
    if isinstance(expression, ComparisonExpression) and expression.operator == "=":
        return _of_equality(expression.left, expression.right, field) or _of_equality(
            expression.right, expression.left, field
        )
    if not isinstance(expression, InExpression | LikeExpression) or expression.negated:
        return None
    if not isinstance(expression.operand, AttributeExpression):
        return None
    attribute = field(expression.operand.name)
    if isinstance(expression, LikeExpression):
        return like_term(expression, attribute)
    texts = [_text(item) for item in expression.items]
    return None if None in texts else In(attribute, tuple(map(Literal, texts)))


def like_term(expression: LikeExpression, value: ValueExpression = _NOTHING) -> Like:
    """Convert the LIKE of an expression to the LIKE of a predicate."""
    return Like(value, Literal(expression.pattern), Literal(ESCAPE), expression.longest)


def _of_equality(one: Expression, other: Expression, field: Field) -> Predicate | None:
    text = _text(other)
    return None if text is None or not isinstance(one, AttributeExpression) else Matches(field(one.name), text)


def _text(expression: Expression) -> str | None:
    """The text of a string literal; None for any other expression."""
    value = expression.value if isinstance(expression, LiteralExpression) else None
    return value if isinstance(value, str) else None
