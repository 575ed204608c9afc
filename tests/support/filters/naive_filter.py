"""A deliberately naive evaluator of filter predicates: the rules of docs/filters.md, one after the other.

It decodes whole sections, compares through fractions, tries LIKE with a table of all prefixes and evaluates every
operand. It shares neither values, nor closures, nor decimal decoding with the gateway, so that an agreement of the two
is not the same mistake made twice.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gateway.amqp.codec import codec
from gateway.filters import predicate as p
from tests.support.filters.naive_message import MISSING, Fields, entries, message_fields

__all__ = ["MISSING", "Fields", "compared", "delivered", "evaluate", "like", "lowered", "message_fields", "strict"]

_INTEGER = (codec.Ubyte, codec.Ushort, codec.Uint, codec.Ulong, codec.Byte, codec.Short, codec.Int, codec.Long)
_DECIMALS = {codec.Decimal32: (8, 101, 7), codec.Decimal64: (10, 398, 16), codec.Decimal128: (14, 6176, 34)}


def delivered(predicate: p.Predicate, fields: Fields) -> bool:
    """Whether a filter lets a message through."""
    return evaluate(predicate, fields) is True


# -- predicates


def evaluate(node: p.Predicate, fields: Fields) -> bool | None:
    """True, false or unknown."""
    return globals()[f"_{type(node).__name__.lower()}"](node, fields)


def _constant(node: p.Constant, fields: Fields) -> bool | None:
    return node.value


def _and(node: p.And, fields: Fields) -> bool | None:
    results = [evaluate(item, fields) for item in node.items]
    return False if False in results else None if None in results else True


def _or(node: p.Or, fields: Fields) -> bool | None:
    results = [evaluate(item, fields) for item in node.items]
    return True if True in results else None if None in results else False


def _not(node: p.Not, fields: Fields) -> bool | None:
    result = evaluate(node.item, fields)
    return None if result is None else not result


def _istrue(node: p.IsTrue, fields: Fields) -> bool:
    return evaluate(node.item, fields) is True


def _truth(node: p.Truth, fields: Fields) -> bool | None:
    value = worth(node.value, fields)
    return value if isinstance(value, bool) else None


def _compare(node: p.Compare, fields: Fields) -> bool | None:
    return compared(node.comparison, worth(node.left, fields), worth(node.right, fields))


def _isnull(node: p.IsNull, fields: Fields) -> bool:
    return worth(node.value, fields) in (None, MISSING)


def _exists(node: p.Exists, fields: Fields) -> bool:
    return worth(node.field, fields) is not MISSING


def _in(node: p.In, fields: Fields) -> bool | None:
    value = worth(node.value, fields)
    results = [compared(p.Comparison.EQ, value, worth(item, fields)) for item in node.items]
    return True if True in results else None if None in results else False


def _like(node: p.Like, fields: Fields) -> bool | None:
    text, pattern = worth(node.value, fields), worth(node.pattern, fields)
    escape = "" if node.escape is None else worth(node.escape, fields)
    if not (is_text(text) and is_text(pattern) and is_text(escape)):
        return None
    if node.escape is not None and len(escape) != 1:
        return None
    if node.longest is not None and len(text) > node.longest:
        return None
    if not isinstance(node.pattern, p.Literal) and len(pattern) > 4096:
        return None
    return like(text, pattern, escape)


def like(text: str, pattern: str, escape: str) -> bool | None:
    """By dynamic programming: which prefixes of the text are like the pattern so far."""
    reached = [True] + [False] * len(text)
    index = 0
    while index < len(pattern):
        character, literal = pattern[index], False
        if character == escape:
            index += 1
            if index == len(pattern):
                return None
            character, literal = pattern[index], True
        if character == "%" and not literal:
            reached = [any(reached[: end + 1]) for end in range(len(text) + 1)]
        else:
            anything = character == "_" and not literal
            reached = [False] + [reached[end] and (anything or text[end] == character) for end in range(len(text))]
        index += 1
    return reached[-1]


def _matches(node: p.Matches, fields: Fields) -> bool:
    return strict(node.reference, worth(node.field, fields))


def _text(node: p.Text, fields: Fields) -> bool:
    value, operand = worth(node.field, fields), node.operand
    if not is_text(value):
        return False
    if node.fold:
        value, operand = lowered(value), lowered(operand)
    if node.affix is p.Affix.WHOLE:
        return value == operand
    part = value[: len(operand)] if node.affix is p.Affix.PREFIX else value[max(0, len(value) - len(operand)) :]
    return part == operand


def lowered(text: str) -> str:
    """Simple case folding, character by character: what casefold makes into several has an entry S here, or stays."""
    return "".join(_simple(character) for character in text)


def _simple(character: str) -> str:
    full = character.casefold()
    return full if len(full) == 1 else chr(_STATUS_S.get(ord(character), ord(character)))


_STATUS_S = {
    0x1E9E: 0xDF,
    **{first + step: first - 8 + step for first in (0x1F88, 0x1F98, 0x1FA8) for step in range(8)},
    0x1FBC: 0x1FB3, 0x1FCC: 0x1FC3, 0x1FFC: 0x1FF3,
}
"""From CaseFolding.txt of Unicode 14: entries that have a simple and a full folding."""


# -- values


def worth(node: p.ValueExpression, fields: Fields) -> Any:
    """What a value is in a message."""
    if isinstance(node, p.Literal):
        return node.value
    if isinstance(node, p.FieldReference):
        return _field(node, fields)
    if isinstance(node, p.Negative):
        return _negative(worth(node.value, fields))
    if isinstance(node, p.Positive):
        value = worth(node.value, fields)
        return value if is_integer(value) or is_float(value) or is_decimal(value) else None
    return _calculated(node.operator, worth(node.left, fields), worth(node.right, fields))


def _field(node: p.FieldReference, fields: Fields) -> Any:
    number = p.number_in(node.name)
    if number is None:
        found = _named(fields[node.section], node.name, (str, codec.Symbol))
    else:
        found = _named(fields[node.section], number, (codec.Ulong,))
    for step in node.path:
        if isinstance(step, str):
            inside = entries(found) if isinstance(found, dict) else []
            found = _named(inside, step, (str,))
            if found is MISSING:
                found = _named(inside, step, (codec.Symbol,))
        else:
            found = _item(found, worth(step, fields))
    return found


def _named(found: Iterable[tuple[Any, Any]], name: object, types: tuple[type, ...]) -> Any:
    for key, value in found:
        if type(key) in types and key == name:
            return value
    return MISSING


def _item(found: Any, index: Any) -> Any:
    items = list(found.items) if isinstance(found, codec.Array) else found
    if not isinstance(items, list) or not is_integer(index) or not 0 <= index < len(items):
        return MISSING
    return items[index]


def is_text(value: Any) -> bool:
    return type(value) in (str, codec.Symbol)


def is_integer(value: Any) -> bool:
    return type(value) is int or type(value) in _INTEGER


def is_float(value: Any) -> bool:
    return type(value) in (float, codec.Float)


def is_decimal(value: Any) -> bool:
    return type(value) is Decimal or type(value) in _DECIMALS


def number(value: Any) -> Fraction | float | None:
    """Exact numbers as fractions, approximate ones as floats, `None` for what is no number or NaN."""
    if is_integer(value):
        return Fraction(int(value))
    if is_float(value):
        return None if math.isnan(value) else float(value)
    if is_decimal(value):
        exact = fraction(value)
        if exact is None or abs(exact) >= 10**20 or (exact * 10**18).denominator != 1:
            return None
        return exact
    return None


def fraction(value: Any) -> Fraction | None:
    """A decimal's value, read from its bits as a string (binary integer decimal, IEEE 754-2008 3.5.2)."""
    if isinstance(value, Decimal):
        return Fraction(value) if value.is_finite() else None
    exponent_width, bias, digits = _DECIMALS[type(value)]
    bits = "".join(f"{octet:08b}" for octet in value)
    sign, rest = bits[0], bits[1:]
    if rest.startswith("1111"):
        return None
    if rest.startswith("11"):
        exponent, coefficient = rest[2 : 2 + exponent_width], "100" + rest[2 + exponent_width :]
    else:
        exponent, coefficient = rest[:exponent_width], rest[exponent_width:]
    whole = int(coefficient, 2)
    if whole > 10**digits - 1:
        whole = 0
    return Fraction(whole) * Fraction(10) ** (int(exponent, 2) - bias) * (-1 if sign == "1" else 1)


def approximated(value: Fraction | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def compared(comparison: p.Comparison, left: Any, right: Any) -> bool | None:
    """SQL comparison by the rules of docs/filters.md."""
    ordered = True
    one, other = number(left), number(right)
    if one is not None and other is not None:
        if isinstance(one, float) or isinstance(other, float):
            one, other = approximated(one), approximated(other)
    elif is_text(left) and is_text(right):
        one, other = [ord(c) for c in left], [ord(c) for c in right]
    elif type(left) is bytes and type(right) is bytes:
        one, other = list(left), list(right)
    elif codec.Timestamp in (type(left), type(right)):
        times = [value for value in (left, right) if type(value) is codec.Timestamp or is_integer(value)]
        if len(times) < 2:
            return None
        one, other = int(left), int(right)
    elif type(left) is type(right) and type(left) in (bool, uuid.UUID):
        one, other, ordered = left, right, False
    else:
        return None
    symbol = comparison.value
    if symbol in ("=", "<>"):
        return (one == other) == (symbol == "=")
    if not ordered:
        return None
    less, equal = one < other, one == other
    return {"<": less, "<=": less or equal, ">": not less and not equal, ">=": not less}[symbol]


def _negative(value: Any) -> Any:
    if is_integer(value):
        return _fitting(-int(value))
    if is_float(value):
        return -float(value)
    exact = number(value)
    if exact is None or isinstance(exact, float):
        return None
    return _decimal(-exact)


def _decimal(value: Fraction) -> Decimal:
    """Exact: at most 18 places."""
    scaled = int(value * 10**18)
    return Decimal((int(scaled < 0), tuple(map(int, str(abs(scaled)))), -18))


def _fitting(value: int) -> int | None:
    return value if -(2**63) <= value < 2**63 else None


def _calculated(operator: p.Operator, left: Any, right: Any) -> Any:
    symbol = operator.value
    if is_integer(left) and is_integer(right):
        return _whole(symbol, int(left), int(right))
    if not all(is_integer(value) or is_float(value) or is_decimal(value) for value in (left, right)):
        return None
    one, other = number(left), number(right)
    if one is None or other is None:
        return None
    one, other = approximated(one), approximated(other)
    if symbol in "/%" and other == 0:
        return None
    result = _approximate(symbol, one, other)
    return None if math.isnan(result) else result


def _whole(symbol: str, left: int, right: int) -> int | None:
    if symbol in "/%" and right == 0:
        return None
    if symbol == "/":
        return _fitting(math.trunc(Fraction(left, right)))
    if symbol == "%":
        return _fitting(left - right * math.trunc(Fraction(left, right)))
    return _fitting({"+": left + right, "-": left - right, "*": left * right}[symbol])


def _approximate(symbol: str, left: float, right: float) -> float:
    if symbol == "%":
        return math.nan if math.isinf(left) else math.fmod(left, right)
    if symbol == "/":
        return left / right
    return {"+": left + right, "-": left - right, "*": left * right}[symbol]


# -- property filters


def strict(reference: Any, value: Any) -> bool:
    """Whether a value matches a reference by FX 4; `reference` may be frozen or a value of the codec."""
    kind, items = composite(reference)
    if kind:
        found_kind, found = composite(value)
        return kind == found_kind and _all_there(kind, items, found)
    if is_integer(reference):
        return is_integer(value) and int(reference) == int(value)
    if is_float(reference):
        return is_float(value) and float(reference) == float(value)
    if is_decimal(reference):
        return is_decimal(value) and number(reference) is not None and number(reference) == number(value)
    if is_text(reference):
        return is_text(value) and str(reference) == str(value)
    return type(reference) is type(value) and bool(reference == value)


def composite(value: Any) -> tuple[str, list[Any]]:
    """What kind of compound a value is ("" for none), and what is in it."""
    if type(value).__name__ == "Frozen":
        return value.family.value, list(value.items)
    if isinstance(value, dict):
        return "map", entries(value)
    if isinstance(value, codec.Array):
        return "array", [_described(value.descriptors, item) for item in value.items]
    if isinstance(value, codec.Described):
        return "described", [value.descriptor, value.value]
    return ("list", value) if isinstance(value, list) else ("", [])


def _all_there(kind: str, wanted: list[Any], found: list[Any]) -> bool:
    if kind == "map":
        return all(_entry_there(key, item, found) for key, item in wanted)
    if len(found) < len(wanted):
        return False
    return all(item is None or strict(item, value) for item, value in zip(wanted, found, strict=False))


def _described(descriptors: tuple[Any, ...], item: Any) -> Any:
    for descriptor in descriptors[::-1]:
        item = codec.Described(descriptor, item)
    return item


def _entry_there(key: Any, wanted: Any, found: list[Any]) -> bool:
    """The first entry with this key counts, a string before a symbol."""
    same = [(name, value) for name, value in found if same_key(key, name)]
    same.sort(key=lambda entry: type(entry[0]) is not str)
    return bool(same) and (wanted is None or strict(wanted, same[0][1]))


def same_key(one: Any, other: Any) -> bool:
    return (one is None and other is None) or (strict(one, other) and strict(other, one))
