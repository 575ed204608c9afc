"""JMS message selectors, as JMS clients attach with them: `parse_selector("JMSPriority > 6 AND color = 'red'")`.

The grammar is that of JMS 2.0, 3.8.1: bare names, BETWEEN, no sections; constants as Java writes them. Names of the
JMS header are mapped to the fields of the AMQP JMS mapping, and constants to values of these.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final

from lark import Token, v_args

from gateway.filters.parse import constants
from gateway.filters.parse.builder import RULES, Builder, condition, number, over, value
from gateway.filters.parse.grammar import Language, Part, fault
from gateway.filters.parse.limits import LIMITS, FilterLimits
from gateway.filters.predicate import (
    FALSE,
    And,
    Arithmetic,
    Compare,
    Comparison,
    Constant,
    FieldReference,
    In,
    IsNull,
    IsTrue,
    Literal,
    MessageSection,
    Node,
    Not,
    Operator,
    Or,
    Predicate,
    ValueExpression,
)

_SELECTOR: Final = r"""
special: sum [NOT] BETWEEN sum _AND sum -> between
?other: NAME -> name
    | LONG -> integer
    | HEX -> hexadecimal
LONG.3: /[0-9]+l/i
HEX.4: /0x[0-9a-f]+l?/i
NAME: /(?!(?:and|or|not|in|is|like|escape|null|true|false|between)\b)[^\W\d][\w$]*|\$[\w$]*/i
"""


def _ulong(text: str) -> int:
    number = int(text)
    if not 0 <= number < 1 << 64:
        raise ValueError("no ulong")
    return number


_Identifier = str | uuid.UUID | int | bytes
_PREFIX: Final = "ID:"
_FORMS: Final[dict[str, Callable[[str], _Identifier]]] = {
    "AMQP_NO_PREFIX:": str,
    "AMQP_STRING:": str,
    "AMQP_UUID:": uuid.UUID,
    "AMQP_ULONG:": _ulong,
    "AMQP_BINARY:": bytes.fromhex,
}
"""How JMS clients write ids of other types than text (AMQP JMS mapping, 3.2.1.1)."""
_MODES: Final = {"PERSISTENT": True, "NON_PERSISTENT": False}


def _properties(name: str) -> FieldReference:
    return FieldReference(MessageSection.PROPERTIES, name)


_MODE: Final = FieldReference(MessageSection.HEADER, "durable")
_IDS: Final = (_properties("message-id"), _properties("correlation-id"))
_USER: Final = _properties("user-id")
_JMS: Final[dict[str, ValueExpression]] = {
    "JMSDeliveryMode": _MODE,
    "JMSPriority": FieldReference(MessageSection.HEADER, "priority"),
    "JMSMessageID": _IDS[0],
    "JMSCorrelationID": _IDS[1],
    "JMSType": _properties("subject"),
    "JMSTimestamp": _properties("creation-time"),
    "JMSXUserID": _USER,
    "JMSXGroupID": _properties("group-id"),
    "JMSXGroupSeq": _properties("group-sequence"),
    "JMSXDeliveryCount": Arithmetic(Operator.ADD, FieldReference(MessageSection.HEADER, "delivery-count"), Literal(1)),
}
_UNSELECTABLE: Final = frozenset({"JMSDestination", "JMSReplyTo", "JMSExpiration", "JMSRedelivered", "JMSDeliveryTime"})


@v_args(inline=True)
class _Selector(Builder):
    """The builder of selectors, with the names of JMS and the constants of Java."""

    def name(self, token: Token) -> Part:
        if token in _UNSELECTABLE:
            raise fault(token, f"JMS does not permit {token} in selectors; permitted are {', '.join(_JMS)}")
        return Part(_JMS.get(token, FieldReference(MessageSection.APPLICATION_PROPERTIES, str(token))), token)

    def integer(self, token: Token) -> Part:
        digits = token.rstrip("lL")
        octal = digits.startswith("0") and not digits.strip("01234567")
        return number(token, constants.integer(digits, 8 if octal else 10))

    def hexadecimal(self, token: Token) -> Part:
        return number(token, constants.integer(token[2:].rstrip("lL"), 16))

    def decimal(self, token: Token) -> Part:
        return self.approximate(token)

    def between(self, part: Part, no: Token | None, _between: Token, low: Part, high: Part) -> Part:
        ends = (self.compared(Comparison.GE, part, low), self.compared(Comparison.LE, part, high))
        node: Predicate = And(ends)
        return over(node if no is None else Not(node), part.at, part, low, high)

    def compared(self, how: Comparison, left: Part, right: Part) -> Predicate:
        field, constant = (left, right) if isinstance(right.node, Literal) else (right, left)
        if field.node == _MODE:
            return _durable(how, field, constant)
        return Compare(how, _meant(left, right.node), _meant(right, left.node))

    def among(self, part: Part, items: tuple[Part, ...]) -> Predicate:
        if part.node == _MODE:
            return Or(tuple(_durable(Comparison.EQ, part, item) for item in items))
        return In(value(part), tuple(_meant(item, part.node) for item in items))


def _durable(how: Comparison, field: Part, constant: Part) -> Predicate:
    """JMSDeliveryMode is a name in JMS and a boolean in AMQP (JMS 2.0, 3.8.1.3)."""
    mode = constant.node.value if isinstance(constant.node, Literal) else None
    if not isinstance(mode, str) or how not in (Comparison.EQ, Comparison.NE):
        raise fault(field.at, "JMSDeliveryMode can only be compared by = or <> with 'PERSISTENT' or 'NON_PERSISTENT'")
    if mode not in _MODES:
        return FALSE if how is Comparison.EQ else Not(FALSE)
    return Compare(how, value(field), Literal(_MODES[mode]))


def _meant(part: Part, other: Node) -> ValueExpression:
    """A constant in the form of the field it is compared with."""
    node = value(part)
    if not (isinstance(node, Literal) and isinstance(node.value, str)):
        return node
    if other in _IDS:
        return Literal(_identifier(part, node.value))
    return Literal(node.value.encode("utf-8", "surrogatepass")) if other == _USER else node


def _identifier(part: Part, text: str) -> _Identifier:
    if not text.startswith(_PREFIX):
        return text
    for form, read in _FORMS.items():
        if text.startswith(form, len(_PREFIX)):
            try:
                return read(text[len(_PREFIX) + len(form) :])
            except ValueError:
                raise fault(part.at, f"not an id of the form {_PREFIX}{form}…") from None
    return text


LANGUAGE: Final = Language(RULES + _SELECTOR, _Selector())


def parse_selector(text: str, *, limits: FilterLimits = LIMITS) -> Predicate:
    """The predicate of a JMS message selector.

    Raises AmqpError: INVALID_FIELD with line, column and what was expected, or RESOURCE_LIMIT_EXCEEDED.
    """
    return _false_where_unlike(condition(LANGUAGE.parse(text, limits)), negated=False)


def _false_where_unlike(node: Predicate, *, negated: bool) -> Predicate:
    """A comparison of unlike types is false in JMS (2.0, 3.8.1.2), unknown here; this matters only below NOT."""
    if isinstance(node, Not):
        return Not(_false_where_unlike(node.item, negated=True))
    if isinstance(node, And | Or):
        return type(node)(tuple(_false_where_unlike(item, negated=negated) for item in node.items))
    if not negated or not isinstance(node, Compare):
        return node
    nulls = [IsNull(side) for side in (node.left, node.right) if not isinstance(side, Literal)]
    return Or((IsTrue(node), And((Or(tuple(nulls)), Constant(None))))) if nulls else node
