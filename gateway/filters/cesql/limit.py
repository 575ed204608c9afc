"""The longest text that LIKE searches in a CESQL expression, which bounds the work for one event."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Final

from gateway.filters.cesql.necessary import like_term
from gateway.filters.cesql.nodes import NODES, Expression, LikeExpression, walk_expression
from gateway.filters.evaluate.search_limit import cost_of

WORK: Final = 1 << 20
"""The maximum cost of all LIKE operators of an expression for one event, in nanoseconds, roughly."""


def limited_cesql(expression: Expression, work: int = WORK) -> Expression:
    """The expression with a limit for the texts of each LIKE that searches."""
    cost = sum(_cost(node) for node in walk_expression(expression) if isinstance(node, LikeExpression))
    return _limited(expression, work // cost) if cost else expression


def _limited(node: Expression, longest: int) -> Expression:
    changed: dict[str, object] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, NODES):
            changed[field.name] = _limited(value, longest)
        elif isinstance(value, tuple):
            changed[field.name] = tuple(_limited(item, longest) for item in value)
    if isinstance(node, LikeExpression) and _cost(node):
        changed["longest"] = longest
    return replace(node, **changed)  # type: ignore[arg-type]


def _cost(node: LikeExpression) -> int:
    return cost_of(like_term(node))
