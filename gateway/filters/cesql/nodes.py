"""Expressions of CESQL as immutable, hashable nodes, which are compared by value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import Enum

CesqlValue = bool | int | str


class LogicOperator(Enum):
    """Operators of two booleans (3.4.2)."""

    AND = "AND"
    OR = "OR"
    XOR = "XOR"


@dataclass(frozen=True, slots=True)
class LiteralExpression:
    """A constant; unlike in Python, 1 and TRUE differ."""

    value: CesqlValue

    def __eq__(self, other: object) -> bool:
        return type(other) is LiteralExpression and (type(self.value), self.value) == (type(other.value), other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class AttributeExpression:
    """The value of an attribute, whose name is in lower case."""

    name: str


@dataclass(frozen=True, slots=True)
class ExistsExpression:
    """Whether the event has the attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class NegativeExpression:
    """Unary minus."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class NotExpression:
    """Unary NOT."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class MathExpression:
    """`+ - * / %`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class ComparisonExpression:
    """`= != < <= > >=`; `<>` is `!=`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class LogicExpression:
    """AND, OR, XOR."""

    operator: LogicOperator
    left: Expression
    right: Expression
    mixed: bool = field(default=False, compare=False)
    """Whether `left` is another operator without parentheses: other languages would bind AND more closely."""


@dataclass(frozen=True, slots=True)
class LikeExpression:
    """LIKE and NOT LIKE; `pattern` has the syntax of `gateway.filters.like`, with `\\` as its escape."""

    operand: Expression
    pattern: str
    negated: bool
    longest: int | None = None
    """The maximum length of a text in characters; a longer one is a failure (`limited_cesql`). None: no limit."""


@dataclass(frozen=True, slots=True)
class InExpression:
    """IN and NOT IN."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class CallExpression:
    """A function, its name in upper case."""

    name: str
    arguments: tuple[Expression, ...]


Expression = (
    LiteralExpression
    | AttributeExpression
    | ExistsExpression
    | NegativeExpression
    | NotExpression
    | MathExpression
    | ComparisonExpression
    | LogicExpression
    | LikeExpression
    | InExpression
    | CallExpression
)


def walk_expression(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        for each in fields(node):
            value = getattr(node, each.name)
            stack.extend(item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, NODES))


def attributes_of(expression: Expression) -> frozenset[str]:
    """The names of the attributes that the expression reads."""
    asking = (AttributeExpression, ExistsExpression)
    return frozenset(node.name for node in walk_expression(expression) if isinstance(node, asking))


def has_mixed_logic(expression: Expression) -> bool:
    """Whether the expression mixes AND, OR and XOR without parentheses."""
    return any(isinstance(node, LogicExpression) and node.mixed for node in walk_expression(expression))


NODES = (
    LiteralExpression, AttributeExpression, ExistsExpression, NegativeExpression, NotExpression, MathExpression,
    ComparisonExpression, LogicExpression, LikeExpression, InExpression, CallExpression,
)  # fmt: skip
