"""Compiles CESQL expressions to Python closures, once for a subscription; they are called for each of its events.

A closure takes the attributes of an event and returns a value or a `Failed`; it never raises. Evaluation stops at the
first failure; AND and OR also stop at the left operand if it decides the result (3.4.2).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final

from gateway.filters import like
from gateway.filters.cesql.functions import FUNCTIONS
from gateway.filters.cesql.nodes import (
    AttributeExpression,
    CallExpression,
    CesqlValue,
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
from gateway.filters.cesql.values import (
    AS_FALSE,
    AS_ZERO,
    CASTS,
    FAILURES,
    MISSING,
    CesqlError,
    Failed,
    Outcome,
    in_range,
    to_boolean,
    to_integer,
    to_string,
)

Attributes = Mapping[str, CesqlValue]
Evaluate = Callable[[Attributes], Outcome]
ESCAPE: Final = "\\"
"""The escape in the pattern of a `LikeExpression`."""


def compile_cesql(expression: Expression) -> Evaluate:
    """The function that evaluates an expression; it never raises."""
    return _COMPILERS[type(expression)](expression)


def compile_condition(expression: Expression) -> Callable[[Attributes], bool]:
    """A test whether the result is TRUE as a Boolean; an error counts as false (Subscriptions API draft, `sql`)."""
    evaluate = _boolean(expression)
    return lambda attributes: evaluate(attributes) is True


# -- atoms


def _literal(node: LiteralExpression) -> Evaluate:
    value = node.value
    return lambda attributes: value


def _attribute(node: AttributeExpression) -> Evaluate:
    name = node.name
    return lambda attributes: attributes.get(name, MISSING)


def _exists(node: ExistsExpression) -> Evaluate:
    name = node.name
    return lambda attributes: name in attributes


# -- unary operators


def _negative(node: NegativeExpression) -> Evaluate:
    evaluate = _integer(node.operand)

    def run(attributes: Attributes) -> Outcome:
        value = evaluate(attributes)
        return value if type(value) is Failed else in_range(-value)  # type: ignore[operator]

    return run


def _not(node: NotExpression) -> Evaluate:
    evaluate = _boolean(node.operand)

    def run(attributes: Attributes) -> Outcome:
        value = evaluate(attributes)
        return value if type(value) is Failed else not value

    return run


def _integer(expression: Expression) -> Evaluate:
    """The expression cast to Integer; a failure has the value 0."""
    evaluate = compile_cesql(expression)

    def run(attributes: Attributes) -> Outcome:
        value = evaluate(attributes)
        if type(value) is int:
            return value
        return AS_ZERO[value.error] if isinstance(value, Failed) else to_integer(value)

    return run


def _boolean(expression: Expression) -> Evaluate:
    """The expression cast to Boolean; a failure has the value FALSE."""
    evaluate = compile_cesql(expression)

    def run(attributes: Attributes) -> Outcome:
        value = evaluate(attributes)
        if type(value) is bool:
            return value
        return AS_FALSE[value.error] if isinstance(value, Failed) else to_boolean(value)

    return run


# -- binary operators


def _quotient(left: int, right: int) -> Outcome:
    """The quotient, truncated towards zero."""
    if not right:
        return AS_ZERO[CesqlError.MATH]
    size = abs(left) // abs(right)
    return in_range(size if (left < 0) == (right < 0) else -size)


def _remainder(left: int, right: int) -> Outcome:
    """The remainder, with the sign of the dividend."""
    if not right:
        return AS_ZERO[CesqlError.MATH]
    size = abs(left) % abs(right)
    return size if left >= 0 else -size


_MATH: Final[dict[str, Callable[[int, int], Outcome]]] = {
    "+": lambda left, right: in_range(left + right),
    "-": lambda left, right: in_range(left - right),
    "*": lambda left, right: in_range(left * right),
    "/": _quotient,
    "%": _remainder,
}
_ORDER: Final[dict[str, Callable[[int, int], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _math(node: MathExpression) -> Evaluate:
    return _of_integers(node, _MATH[node.operator], AS_ZERO)


def _comparison(node: ComparisonExpression) -> Evaluate:
    if node.operator in _ORDER:
        return _of_integers(node, _ORDER[node.operator], AS_FALSE)
    return _equality(node, equal=node.operator == "=")


def _of_integers(
    node: MathExpression | ComparisonExpression,
    compute: Callable[[int, int], Outcome],
    failures: Mapping[CesqlError, Failed],
) -> Evaluate:
    """Both operands are evaluated before either is cast, so that a missing attribute fails before a cast does (TCK)."""
    get_left, get_right = compile_cesql(node.left), compile_cesql(node.right)

    def run(attributes: Attributes) -> Outcome:
        left = get_left(attributes)
        if isinstance(left, Failed):
            return failures[left.error]
        right = get_right(attributes)
        if isinstance(right, Failed):
            return failures[right.error]
        first, second = to_integer(left), to_integer(right)
        if isinstance(first, Failed) or isinstance(second, Failed):
            return failures[CesqlError.CAST]
        return compute(first, second)

    return run


def _equality(node: ComparisonExpression, *, equal: bool) -> Evaluate:
    """The left operand is cast to the type of the right one (TCK)."""
    get_left, get_right = compile_cesql(node.left), compile_cesql(node.right)

    def run(attributes: Attributes) -> Outcome:
        left = get_left(attributes)
        if isinstance(left, Failed):
            return AS_FALSE[left.error]
        right = get_right(attributes)
        if isinstance(right, Failed):
            return AS_FALSE[right.error]
        if type(left) is not type(right):
            cast = CASTS[type(right)](left)
            if isinstance(cast, Failed):
                return AS_FALSE[cast.error]
            left = cast
        return (left == right) is equal

    return run


def _logic(node: LogicExpression) -> Evaluate:
    left, right = _boolean(node.left), _boolean(node.right)
    if node.operator is LogicOperator.XOR:
        return _xor(left, right)
    decided = node.operator is LogicOperator.OR

    def run(attributes: Attributes) -> Outcome:
        value = left(attributes)
        return value if value is decided or type(value) is Failed else right(attributes)

    return run


def _xor(left: Evaluate, right: Evaluate) -> Evaluate:
    def run(attributes: Attributes) -> Outcome:
        first = left(attributes)
        if type(first) is Failed:
            return first
        second = right(attributes)
        return second if type(second) is Failed else first is not second

    return run


# -- LIKE, IN and functions


def _like(node: LikeExpression) -> Evaluate:
    evaluate, matches, negated = compile_cesql(node.operand), like.compiled(node.pattern, ESCAPE), node.negated
    assert matches is not None, "the grammar accepts no pattern that ends with its escape"
    longest = node.longest

    def run(attributes: Attributes) -> Outcome:
        value = evaluate(attributes)
        if isinstance(value, Failed):
            return AS_FALSE[value.error]
        text = to_string(value)
        if longest is not None and len(text) > longest:
            return AS_FALSE[CesqlError.FUNCTION_EVALUATION]
        return matches(text) is not negated

    return run


def _in(node: InExpression) -> Evaluate:
    """The items are cast to the type of the operand (TCK), in turn, until one is equal."""
    evaluate, negated = compile_cesql(node.operand), node.negated
    texts = frozenset(item.value for item in node.items if isinstance(item, LiteralExpression))
    items = [compile_cesql(item) for item in node.items]
    simple = len(node.items) == sum(_is_text(item) for item in node.items)

    def run(attributes: Attributes) -> Outcome:
        value = evaluate(attributes)
        if isinstance(value, Failed):
            return AS_FALSE[value.error]
        if simple and type(value) is str:
            return (value in texts) is not negated
        found = _among(value, items, attributes)
        return found if isinstance(found, Failed) else found is not negated

    return run


def _is_text(item: Expression) -> bool:
    return isinstance(item, LiteralExpression) and type(item.value) is str


def _among(value: CesqlValue, items: list[Evaluate], attributes: Attributes) -> bool | Failed:
    cast = CASTS[type(value)]
    for item in items:
        found = item(attributes)
        if not isinstance(found, Failed):
            found = cast(found)
        if isinstance(found, Failed):
            return AS_FALSE[found.error]
        if found == value:
            return True
    return False


def _call(node: CallExpression) -> Evaluate:
    function = FUNCTIONS[node.name]
    kinds = [function.arguments[min(place, len(function.arguments) - 1)] for place in range(len(node.arguments))]
    casts = [to_itself if kind is None else CASTS[kind] for kind in kinds]
    arguments = list(zip(map(compile_cesql, node.arguments), casts, strict=True))
    run_function, failures = function.run, FAILURES[function.result]

    def run(attributes: Attributes) -> Outcome:
        given = []
        for evaluate, cast in arguments:
            value = evaluate(attributes)
            if not isinstance(value, Failed):
                value = cast(value)
            if isinstance(value, Failed):
                return failures[value.error]
            given.append(value)
        return run_function(*given)

    return run


def to_itself(value: CesqlValue) -> Outcome:
    """No cast."""
    return value


_COMPILERS: Final[dict[type, Callable[..., Evaluate]]] = {
    LiteralExpression: _literal,
    AttributeExpression: _attribute,
    ExistsExpression: _exists,
    NegativeExpression: _negative,
    NotExpression: _not,
    MathExpression: _math,
    ComparisonExpression: _comparison,
    LogicExpression: _logic,
    LikeExpression: _like,
    InExpression: _in,
    CallExpression: _call,
}
