"""The builder that expression languages share: checks conditions and values, and computes constants."""

from __future__ import annotations

from typing import Final

from lark import Token, Transformer, v_args

from gateway.filters.parse import constants
from gateway.filters.parse.grammar import Part, fault
from gateway.filters.parse.limits import NESTING, exceeded
from gateway.filters.predicate import (
    And,
    Arithmetic,
    Compare,
    Comparison,
    Constant,
    FieldReference,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Node,
    Not,
    Operator,
    Or,
    Positive,
    Predicate,
    Truth,
    ValueExpression,
)

RULES: Final = r"""
?start: any_of
?any_of: all_of | all_of (_OR all_of)+ -> disjunction
?all_of: no | no (_AND no)+ -> conjunction
?no: NOT no -> negation | test
?test: sum
    | sum COMPARISON sum -> comparison
    | sum IS [NOT] _NULL -> null
    | sum [NOT] IN _OPEN sum (_COMMA sum)* _CLOSE -> one_of
    | sum [NOT] LIKE sum [_ESCAPE sum] -> like
    | special
?sum: product | sum (PLUS | MINUS) product -> arithmetic
?product: sign | product (STAR | SLASH | PERCENT) sign -> arithmetic
?sign: primary | (PLUS | MINUS) sign -> signed
?primary: STRING -> text
    | INTEGER -> integer
    | DECIMAL -> decimal
    | APPROXIMATE -> approximate
    | TRUE -> true
    | FALSE -> false
    | other
    | _OPEN any_of _CLOSE
"""
"""Shared by the SQL filter and selectors, which add `special` tests and `other` values, references first."""

_OPERATORS: Final = {item.value: item for item in Operator}
_COMPARISONS: Final = {item.value: item for item in Comparison} | {"!=": Comparison.NE}


def condition(part: Part) -> Predicate:
    """`part` as a condition; a bare boolean is one, too (FX-5-15). Raises AmqpError for any other value."""
    node = part.node
    if isinstance(node, Literal) and isinstance(node.value, bool):
        return Constant(node.value)
    if isinstance(node, FieldReference):
        return Truth(node)
    if isinstance(node, ValueExpression):
        raise fault(part.at, "found a value instead of a condition, such as a comparison")
    return node


def value(part: Part) -> ValueExpression:
    """`part` as a value to compare or to compute with. Raises AmqpError for a condition."""
    if not isinstance(part.node, ValueExpression):
        raise fault(part.at, "found a condition instead of a value")
    return part.node


def over(node: Node, at: Token, *parts: Part) -> Part:
    """The part for `node`, whose operands are `parts`."""
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > NESTING:
        raise exceeded(f"line {at.line}, column {at.column}: the expression is nested too deeply", NESTING)
    return Part(node, at, depth)


@v_args(inline=True)
class Builder(Transformer[Token, Part]):
    """A method for each rule of `RULES`; all errors that they raise are AmqpError."""

    def disjunction(self, *parts: Part) -> Part:
        return over(Or(tuple(condition(part) for part in parts)), parts[0].at, *parts)

    def conjunction(self, *parts: Part) -> Part:
        return over(And(tuple(condition(part) for part in parts)), parts[0].at, *parts)

    def negation(self, word: Token, part: Part) -> Part:
        return over(Not(condition(part)), word, part)

    def comparison(self, left: Part, sign: Token, right: Part) -> Part:
        node = self.compared(_COMPARISONS[sign], left, right)
        return over(node, left.at, left, right)

    def compared(self, how: Comparison, left: Part, right: Part) -> Predicate:
        """A comparison of two values; languages with names of their own override it."""
        return Compare(how, value(left), value(right))

    def null(self, part: Part, _is: Token, no: Token | None) -> Part:
        if not isinstance(part.node, FieldReference):
            raise fault(part.at, "IS NULL needs a property, not a computed value")
        return over(_negated(no, IsNull(part.node)), part.at, part)

    def one_of(self, part: Part, no: Token | None, _in: Token, *items: Part) -> Part:
        return over(_negated(no, self.among(part, items)), part.at, part, *items)

    def among(self, part: Part, items: tuple[Part, ...]) -> Predicate:
        """IN; languages with names of their own override it."""
        return In(value(part), tuple(value(item) for item in items))

    def like(self, part: Part, no: Token | None, _like: Token, pattern: Part, escape: Part | None) -> Part:
        _text(pattern, "a pattern must be a text")
        if escape is not None:
            _text(escape, "ESCAPE needs a text of one character", size=1)
        node = Like(value(part), value(pattern), None if escape is None else value(escape))
        parts = (part, pattern) if escape is None else (part, pattern, escape)
        return over(_negated(no, node), part.at, *parts)

    def arithmetic(self, left: Part, sign: Token, right: Part) -> Part:
        how, one, two = _OPERATORS[sign], value(left), value(right)
        if isinstance(one, Literal) and isinstance(two, Literal):
            return Part(Literal(constants.computed(how, one.value, two.value)), left.at)
        return over(Arithmetic(how, one, two), left.at, left, right)

    def signed(self, sign: Token, part: Part) -> Part:
        what = value(part)
        if isinstance(what, Literal):
            known = constants.is_number(what.value)
            result = what.value if known and sign == "+" else constants.negative(what.value)
            return Part(Literal(result), sign)
        if sign == "-":
            return over(Negative(what), sign, part)
        return over(Positive(what), sign, part) if isinstance(what, FieldReference) else Part(what, sign, part.depth)

    def text(self, token: Token) -> Part:
        return Part(Literal(token[1:-1].replace("''", "'")), token)

    def integer(self, token: Token) -> Part:
        return number(token, constants.integer(token))

    def decimal(self, token: Token) -> Part:
        return number(token, constants.decimal(token))

    def approximate(self, token: Token) -> Part:
        return number(token, constants.approximate(token))

    def true(self, token: Token) -> Part:
        return Part(Literal(True), token)

    def false(self, token: Token) -> Part:
        return Part(Literal(False), token)


def _negated(no: Token | None, node: Predicate) -> Predicate:
    return node if no is None else Not(node)


def _text(part: Part, text: str, size: int | None = None) -> None:
    """Refuse a constant that is not text, or not of that size, at the attach."""
    if isinstance(part.node, Literal):
        found = part.node.value
        if not isinstance(found, str) or (size is not None and len(found) != size):
            raise fault(part.at, text)


def number(token: Token, result: constants.Number | None) -> Part:
    """The part for a numeric constant. Raises AmqpError for None, a number that does not fit."""
    if result is None:
        limit = f"at most {constants.DIGITS} digits, {constants.PLACES} of them after the point, or a double's exponent"
        raise fault(token, f"a number may have {limit}")
    return Part(Literal(result), token)
