"""CESQL as its text says it, node by node and with exceptions: the second opinion of the property tests.

Also writes expressions as text, and makes random ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from gateway.filters.cesql import nodes as n
from gateway.filters.cesql.functions import FUNCTIONS
from gateway.filters.cesql.values import LARGEST, SMALLEST

TEXTS = ("", "x", "X", "ab", "a%b", "7", "-1", "true", "FALSE", "2147483648", "it's", 'a"b', "a\\b", "ü")
PATTERNS = ("", "%", "x%", "%x", "a_b", r"a\%b", "%a%b%", "_", r"\_", r"a\b", "x")
NAMES = ("a", "b", "c9", "missing")


class Wrong(Exception):
    """Evaluation failed."""


def evaluate(node: n.Expression, event: Mapping[str, Any]) -> Any:
    """The value of an expression; raises Wrong for any error."""
    if isinstance(node, n.LiteralExpression):
        return node.value
    if isinstance(node, n.AttributeExpression):
        if node.name not in event:
            raise Wrong
        return event[node.name]
    if isinstance(node, n.ExistsExpression):
        return node.name in event
    if isinstance(node, n.NegativeExpression):
        return checked(-integer(evaluate(node.operand, event)))
    if isinstance(node, n.NotExpression):
        return not boolean(evaluate(node.operand, event))
    if isinstance(node, n.LikeExpression):
        return bool(pattern(node).fullmatch(text(evaluate(node.operand, event)))) != node.negated
    if isinstance(node, n.InExpression):
        return among(node, event) != node.negated
    if isinstance(node, n.CallExpression):
        return called(node.name, [evaluate(argument, event) for argument in node.arguments])
    if isinstance(node, n.LogicExpression):
        return logic(node, event)
    return computed(node.operator, evaluate(node.left, event), evaluate(node.right, event))


def logic(node: n.LogicExpression, event: Mapping[str, Any]) -> bool:
    left = boolean(evaluate(node.left, event))
    if node.operator is n.LogicOperator.AND:
        return left and boolean(evaluate(node.right, event))
    if node.operator is n.LogicOperator.OR:
        return left or boolean(evaluate(node.right, event))
    return left != boolean(evaluate(node.right, event))


def among(node: n.InExpression, event: Mapping[str, Any]) -> bool:
    value = evaluate(node.operand, event)
    return any(cast(evaluate(item, event), type(value)) == value for item in node.items)


def computed(operator: str, left: Any, right: Any) -> Any:
    if operator in ("=", "!="):
        return (cast(left, type(right)) == right) == (operator == "=")
    left, right = integer(left), integer(right)
    if operator in ("<", "<=", ">", ">="):
        return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]
    if operator in "+-*":
        return checked({"+": left + right, "-": left - right, "*": left * right}[operator])
    if right == 0:
        raise Wrong
    quotient = checked(int(left / right))  # exact: both have 32 bits
    return quotient if operator == "/" else left - right * int(left / right)


def called(name: str, given: list[Any]) -> Any:
    if name in ("IS_INT", "IS_BOOL"):
        try:
            cast(given[0], int if name == "IS_INT" else bool)
        except Wrong:
            return False
        return True
    kinds = FUNCTIONS[name].arguments
    values = [cast(value, kinds[min(at, len(kinds) - 1)] or str) for at, value in enumerate(given)]
    if name in ("INT", "BOOL", "STRING"):
        return values[0]
    if name == "ABS":
        return checked(abs(values[0]))
    if name in ("LEFT", "RIGHT"):
        return ends(name, *values)
    if name == "SUBSTRING":
        return substring(*values)
    simple = {"LENGTH": len, "LOWER": str.lower, "UPPER": str.upper, "TRIM": str.strip}
    if name in simple:
        return simple[name](values[0])
    return "".join(values) if name == "CONCAT" else values[0].join(values[1:])


def ends(name: str, value: str, count: int) -> str:
    if count < 0:
        raise Wrong
    return "".join(list(value)[:count] if name == "LEFT" else list(value)[::-1][:count][::-1])


def substring(value: str, position: int, length: int = LARGEST) -> str:
    if position == 0:
        return ""
    if abs(position) > len(value) or length < 0:
        raise Wrong
    first = position if position > 0 else len(value) + position + 1
    return "".join(each for at, each in enumerate(value, 1) if first <= at < first + length)


def cast(value: Any, kind: type) -> Any:
    return {bool: boolean, int: integer, str: text}[kind](value)


def integer(value: Any) -> int:
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?[0-9]+", value) or not SMALLEST <= int(value) <= LARGEST:
            raise Wrong
        return int(value)
    return int(value)


def boolean(value: Any) -> bool:
    if isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise Wrong
        return value.lower() == "true"
    return bool(value)


def text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def checked(value: int) -> int:
    if not SMALLEST <= value <= LARGEST:
        raise Wrong
    return value


def pattern(node: n.LikeExpression) -> re.Pattern[str]:
    parts = re.findall(r"\\(.)|(.)", node.pattern, re.DOTALL)
    return re.compile("".join(re.escape(one) if one else {"%": ".*", "_": "."}.get(other, re.escape(other))
                              for one, other in parts), re.DOTALL)  # fmt: skip


# -- as text


def written(node: n.Expression) -> str:
    """The expression in CESQL, every operand in parentheses."""
    if isinstance(node, n.LiteralExpression):
        return quoted(node.value) if isinstance(node.value, str) else text(node.value)
    if isinstance(node, n.AttributeExpression):
        return node.name.upper()
    if isinstance(node, n.ExistsExpression):
        return f"exists {node.name}"
    if isinstance(node, n.NegativeExpression):
        return f"- ({written(node.operand)})"
    if isinstance(node, n.NotExpression):
        return f"NOT ({written(node.operand)})"
    no = " NOT" if getattr(node, "negated", False) else ""
    if isinstance(node, n.LikeExpression):
        return f"({written(node.operand)}){no} LIKE {quoted(node.pattern.replace(DOUBLED, BACKSLASH))}"
    if isinstance(node, n.InExpression):
        return f"({written(node.operand)}){no} IN ({', '.join(map(written, node.items))})"
    if isinstance(node, n.CallExpression):
        return f"{node.name.lower()} ({', '.join(map(written, node.arguments))})"
    sign = node.operator.value.lower() if isinstance(node, n.LogicExpression) else node.operator
    return f"({written(node.left)}) {sign} ({written(node.right)})"


BACKSLASH, DOUBLED = "\\", "\\\\"


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# -- at random


def expressions(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[n.Expression]:
    """Random expressions over these attributes."""
    integers = st.sampled_from((0, 1, -1, 7, LARGEST, SMALLEST))
    atoms = st.one_of(
        st.builds(n.LiteralExpression, st.booleans() | integers | st.sampled_from(TEXTS)),
        st.builds(n.AttributeExpression, st.sampled_from(names)),
        st.builds(n.ExistsExpression, st.sampled_from(names)),
        terms(names),
    )
    return st.recursive(atoms, _larger, max_leaves=8)


def terms(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[n.Expression]:
    """Terms that an index can look up."""
    attributes, texts = st.builds(n.AttributeExpression, st.sampled_from(names)), st.sampled_from(TEXTS)
    constants = st.builds(n.LiteralExpression, texts)
    return st.one_of(
        st.builds(n.ComparisonExpression, st.just("="), attributes, constants),
        st.builds(n.ComparisonExpression, st.just("="), constants, attributes),
        st.builds(n.InExpression, attributes, st.lists(constants, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(n.LikeExpression, attributes, patterns(), st.booleans()),
    )


def patterns() -> st.SearchStrategy[str]:
    return st.sampled_from(PATTERNS).map(lambda given: re.sub(r"\\(?![_%])", r"\\\\", given))


def _larger(inner: st.SearchStrategy[n.Expression]) -> st.SearchStrategy[n.Expression]:
    return st.one_of(
        st.builds(n.LogicExpression, st.sampled_from(n.LogicOperator), inner, inner),
        st.builds(n.ComparisonExpression, st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), inner, inner),
        st.builds(n.MathExpression, st.sampled_from("+-*/%"), inner, inner),
        st.builds(n.NotExpression, inner),
        st.builds(n.NegativeExpression, inner),
        st.builds(n.LikeExpression, inner, patterns(), st.booleans()),
        st.builds(n.InExpression, inner, st.lists(inner, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.sampled_from(sorted(FUNCTIONS)).flatmap(lambda name: _calls(name, inner)),
    )


def _calls(name: str, inner: st.SearchStrategy[n.Expression]) -> st.SearchStrategy[n.Expression]:
    least = len(FUNCTIONS[name].arguments) - FUNCTIONS[name].optional - FUNCTIONS[name].variadic
    most = least + FUNCTIONS[name].optional + 2 * FUNCTIONS[name].variadic
    arguments = st.lists(inner, min_size=least, max_size=most).map(tuple)
    return st.builds(n.CallExpression, st.just(name), arguments)
