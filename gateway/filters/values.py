"""The rules for values in filters: families, SQL comparison, arithmetic, strict match (FX 4, FX 5; docs/filters.md).

Every evaluation of a predicate in Python uses them. Values are as the codec decodes them: their Python type determines
the AMQP type. None of these functions raises, whatever value they get.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Hashable
from decimal import Decimal
from enum import Enum
from typing import Final, NamedTuple

from gateway.amqp.codec import types as t
from gateway.amqp.codec.types import Value
from gateway.filters.decimals import decimal_value
from gateway.filters.predicate import Comparison, Operator


class Family(Enum):
    """Types that are compared by one rule."""

    INTEGER = "integer"
    APPROXIMATE = "approximate"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    TEXT = "text"
    BINARY = "binary"
    TIME = "time"
    UUID = "uuid"
    CHAR = "char"
    LIST = "list"
    MAP = "map"
    ARRAY = "array"
    DESCRIBED = "described"


class Frozen(NamedTuple):
    """A list, map, array or described value in a hashable form, for references; its `items` are frozen, too.

    The items of a map are pairs of key and value; those of a described value are its descriptor and its value.
    """

    family: Family
    items: tuple[Value, ...]


INTEGERS: Final = frozenset((int, t.Ubyte, t.Ushort, t.Uint, t.Ulong, t.Byte, t.Short, t.Int, t.Long))
APPROXIMATES: Final = frozenset((float, t.Float))
DECIMALS: Final = frozenset((Decimal, t.Decimal32, t.Decimal64, t.Decimal128))
TEXTS: Final = frozenset((str, t.Symbol))

_FAMILIES: Final[dict[type, Family]] = {
    **dict.fromkeys(INTEGERS, Family.INTEGER),
    **dict.fromkeys(APPROXIMATES, Family.APPROXIMATE),
    **dict.fromkeys(DECIMALS, Family.DECIMAL),
    **dict.fromkeys(TEXTS, Family.TEXT),
    bool: Family.BOOLEAN,
    bytes: Family.BINARY,
    t.Timestamp: Family.TIME,
    uuid.UUID: Family.UUID,
    t.Char: Family.CHAR,
    list: Family.LIST,
    dict: Family.MAP,
    t.Array: Family.ARRAY,
    t.Described: Family.DESCRIBED,
}

LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1


def family(value: object) -> Family | None:
    """The family of a value; None for null, for an absent field, and for an object that is not an AMQP value."""
    return value.family if type(value) is Frozen else _FAMILIES.get(type(value))


# -- SQL: comparison (FX-5-4)

Compared = Callable[[Value, Value], bool | None]

_TESTS: Final[dict[Comparison, Callable[[Value, Value], bool]]] = {
    Comparison.EQ: lambda left, right: left == right,
    Comparison.NE: lambda left, right: left != right,
    Comparison.LT: lambda left, right: left < right,
    Comparison.LE: lambda left, right: left <= right,
    Comparison.GT: lambda left, right: left > right,
    Comparison.GE: lambda left, right: left >= right,
}
_EQUALITY: Final = frozenset((Comparison.EQ, Comparison.NE))
_UNORDERED: Final = frozenset((Family.BOOLEAN, Family.UUID))
_ORDERED: Final = frozenset((Family.INTEGER, Family.DECIMAL, Family.TEXT, Family.BINARY, Family.TIME))
_NUMBERS: Final = frozenset((Family.INTEGER, Family.APPROXIMATE, Family.DECIMAL))
_EXACT_PAIRS: Final = frozenset(
    ((Family.INTEGER, Family.DECIMAL), (Family.DECIMAL, Family.INTEGER), (Family.TIME, Family.INTEGER),
     (Family.INTEGER, Family.TIME))
)  # fmt: skip


def comparer(comparison: Comparison) -> Compared:
    """The comparison of two values: true, false, or `None` (unknown) if the rules define no result."""
    test, ordering = _TESTS[comparison], comparison not in _EQUALITY

    def compare(left: Value, right: Value) -> bool | None:
        pair = _comparable(left, right, ordering)
        return None if pair is None else test(*pair)

    return compare


def _comparable(left: Value, right: Value, ordering: bool) -> tuple[Value, Value] | None:
    """Both values in a form that Python compares exactly; `None` if they cannot be compared."""
    one, other = family(left), family(right)
    if one is None or other is None:
        return None
    if one is other:
        comparable = one in _ORDERED or (one in _UNORDERED and not ordering) or one is Family.APPROXIMATE
        pair = (exact(left), exact(right)) if comparable else None
    elif (one, other) in _EXACT_PAIRS:
        pair = exact(left), exact(right)
    elif one in _NUMBERS and other in _NUMBERS:
        pair = double(left), double(right)
    else:
        pair = None
    return None if pair is None or None in _without_nan(pair) else pair


def _without_nan(pair: tuple[Value, Value]) -> tuple[Value, ...]:
    return tuple(None if value is None or value != value else value for value in pair)


def exact(value: Value) -> Value:
    """A decimal as `Decimal`, or `None` if it is out of range; any other value unchanged."""
    return decimal_value(value) if type(value) in DECIMALS else value


def double(value: Value) -> float | None:
    """Any number as IEEE double, correctly rounded; `None` for a decimal out of range."""
    number = exact(value)
    if number is None:
        return None
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# -- SQL: arithmetic (FX-5-10)


def _quotient(left: int, right: int) -> int:
    result = abs(left) // abs(right)
    return result if (left < 0) == (right < 0) else -result


_INTEGER: Final[dict[Operator, Callable[[int, int], int]]] = {
    Operator.ADD: lambda left, right: left + right,
    Operator.SUB: lambda left, right: left - right,
    Operator.MUL: lambda left, right: left * right,
    Operator.DIV: _quotient,
    Operator.MOD: lambda left, right: left - right * _quotient(left, right),
}
_DOUBLE: Final[dict[Operator, Callable[[float, float], float]]] = {
    Operator.ADD: lambda left, right: left + right,
    Operator.SUB: lambda left, right: left - right,
    Operator.MUL: lambda left, right: left * right,
    Operator.DIV: lambda left, right: left / right,
    Operator.MOD: math.fmod,
}


def calculator(operator: Operator) -> Callable[[Value, Value], int | float | None]:
    """The operation on two values; its result is an `int`, a `float`, or None if it is not a number."""
    whole, approximate = _INTEGER[operator], _DOUBLE[operator]

    def calculate(left: Value, right: Value) -> int | float | None:
        if type(left) in INTEGERS and type(right) in INTEGERS:
            return None if right == 0 and operator in _DIVISIONS else in_long(whole(int(left), int(right)))
        if family(left) not in _NUMBERS or family(right) not in _NUMBERS:
            return None
        one, other = double(left), double(right)
        if one is None or other is None or (other == 0 and operator in _DIVISIONS) or not _moduli(operator, one):
            return None
        result = approximate(one, other)
        return None if result != result else result

    return calculate


_DIVISIONS: Final = frozenset((Operator.DIV, Operator.MOD))


def _moduli(operator: Operator, left: float) -> bool:
    """Whether `fmod` accepts this left operand: an infinite one has no remainder."""
    return operator is not Operator.MOD or not math.isinf(left)


def negative(value: Value) -> Value:
    """Unary minus, in the family of its operand."""
    if type(value) in INTEGERS:
        return in_long(-int(value))
    if type(value) in APPROXIMATES:
        return -float(value)
    number = decimal_value(value) if type(value) in DECIMALS else None
    return None if number is None else number.copy_negate()


def positive(value: Value) -> Value:
    """Unary plus: returns a number unchanged, `None` for anything else."""
    return value if family(value) in _NUMBERS else None


def in_long(value: int) -> int | None:
    """The integer if it fits a long, else `None`."""
    return value if LONG_MIN <= value <= LONG_MAX else None


# -- property filters: strict match (FX-4-5 to -10, -19, -20)


def frozen(value: Value) -> Value:
    """A value of the codec in a hashable form: lists, maps, arrays and described values become `Frozen`."""
    kind = _FAMILIES.get(type(value))
    if kind is Family.LIST:
        return Frozen(kind, tuple(map(frozen, value)))
    if kind is Family.MAP:
        return Frozen(kind, tuple((frozen(key), frozen(item)) for key, item in value.items()))
    if kind is Family.ARRAY:
        return Frozen(kind, tuple(_described(value.descriptors, frozen(item)) for item in value.items))
    if kind is Family.DESCRIBED:
        return Frozen(kind, (frozen(value.descriptor), frozen(value.value)))
    return frozen(value.value) if type(value) is t.MapKey else value


def _described(descriptors: tuple[Value, ...], item: Value) -> Value:
    """An array's item with the descriptors that all its items share, outermost first."""
    for descriptor in reversed(descriptors):
        item = Frozen(Family.DESCRIBED, (frozen(descriptor), item))
    return item


def matcher(reference: Value) -> Callable[[Value], bool]:
    """Whether a message's value matches a reference (a value of the codec or `frozen`)."""
    wanted = frozen(reference)
    if type(wanted) is Frozen:
        return lambda value: _composite_matches(wanted, value)
    identity = _identity(wanted)
    return lambda value: _identity(value) == identity


def _identity(value: Value) -> tuple[Family | None, Hashable]:
    """A key that is equal, with an equal hash, for values that match and for no others."""
    kind = family(value)
    if type(value) is Frozen:
        return kind, tuple(map(_identity, value.items))
    if kind is None or kind in _COMPOSITES:
        return kind, None if value is None else object()
    single = exact(value)
    return kind, object() if single is None or single != single else single


_COMPOSITES: Final = frozenset((Family.LIST, Family.MAP, Family.ARRAY, Family.DESCRIBED))


def _composite_matches(reference: Frozen, value: Value) -> bool:
    found = value if type(value) is Frozen else frozen(value)
    if type(found) is not Frozen or found.family is not reference.family:
        return False
    if reference.family is Family.MAP:
        return _map_matches(reference, found)
    if len(reference.items) > len(found.items):
        return False
    return all(_item_matches(one, other) for one, other in zip(reference.items, found.items, strict=False))


def _map_matches(reference: Frozen, found: Frozen) -> bool:
    entries: dict[Hashable, Value] = {}
    for key, item in found.items:
        identity = _identity(key)
        if identity not in entries or type(key) is str:
            entries[identity] = item
    for key, item in reference.items:
        identity = _identity(key)
        if identity not in entries or not _item_matches(item, entries[identity]):
            return False
    return True


def _item_matches(reference: Value, value: Value) -> bool:
    if reference is None:  # requires only that there is an entry
        return True
    if type(reference) is Frozen:
        return _composite_matches(reference, value)
    return _identity(reference) == _identity(value)


# -- text


def folded(text: str) -> str:
    """Unicode's simple case folding, character by character: as long as `text` (FX-4-13)."""
    if text.isascii():
        return text.lower()
    full = text.casefold()  # equals the simple folding if it expands no character
    return full if len(full) == len(text) else "".join(map(_simple, text))


def _simple(character: str) -> str:
    """The folding of CaseFolding.txt, status C, else S; a character without either (\u00df, \u0130) stays."""
    full = character.casefold()
    if len(full) == 1:
        return full
    lower = character.lower()
    return lower if len(lower) == 1 else character
