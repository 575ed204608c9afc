"""Constants of an expression, and arithmetic between them, which is exact (FX-5-10 to -14).

`values` does arithmetic with fields; only here a point makes a number decimal rather than approximate, so that
`0.1 + 0.2 = 0.3`. Bounds are those of `docs/filters.md`: 38 digits, 18 of them after the point.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final, TypeGuard

from gateway.filters.predicate import Operator

DIGITS: Final = 38
PLACES: Final = 18
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
_CONTEXT: Final = Context(prec=4 * DIGITS, rounding=ROUND_HALF_EVEN, traps=[])
_STEP: Final = Decimal(1).scaleb(-PLACES)
_BOUND: Final = Decimal(10) ** (DIGITS - PLACES)

Number = int | Decimal | float


def integer(text: str, base: int = 10) -> int | None:
    """The value of digits; None if there are too many."""
    digits = text.lstrip("0") or "0"
    return int(digits, base) if len(digits) <= DIGITS else None


def decimal(text: str) -> Decimal | None:
    """The exact value of digits with a point; None if it does not fit a decimal column."""
    if len(text) > 4 * DIGITS:
        text = text.lstrip("0").rstrip("0")
    return _bounded(Decimal(text)) if len(text) <= 2 * DIGITS and _exact(Decimal(text)) else None


def approximate(text: str) -> float | None:
    """The double nearest to a number in scientific notation; None: beyond all doubles."""
    value = float(text)
    return value if math.isfinite(value) else None


def negative(value: object) -> Number | None:
    """Unary minus; None (unknown) for anything but a number."""
    if isinstance(value, Decimal):
        return value.copy_negate()
    return -value if is_number(value) else None


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a constant is a number."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def computed(how: Operator, left: object, right: object) -> Number | None:
    """`left how right`; None (unknown) for anything but numbers, division by zero, and overflow of long or decimal."""
    if not (is_number(left) and is_number(right)):
        return None
    if how in (Operator.DIV, Operator.MOD) and right == 0:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return _approximate(how, left, right)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return _bounded(_DECIMAL[how](Decimal(left), Decimal(right)))
    result = _INTEGER[how](left, right)
    return result if _LEAST <= result <= _MOST else None


def _approximate(how: Operator, left: Number, right: Number) -> float | None:
    try:
        result = _DOUBLE[how](float(left), float(right))
    except (OverflowError, ZeroDivisionError):
        return None
    return result if math.isfinite(result) else None


def _exact(value: Decimal) -> bool:
    return -int(value.normalize(_CONTEXT).as_tuple().exponent) <= PLACES


def _bounded(value: Decimal) -> Decimal | None:
    """The value rounded to the scale of a column; None if it is too large for one."""
    if not value.is_finite() or abs(value) >= _BOUND:
        return None
    return value.quantize(_STEP, context=_CONTEXT).normalize(_CONTEXT)


def _quotient(left: int, right: int) -> int:
    """The quotient, truncated towards zero (SQL-92)."""
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


def _remainder(left: int, right: int) -> int:
    """The remainder, with the sign of the left operand."""
    size = abs(left) % abs(right)
    return size if left >= 0 else -size


_INTEGER: Final[dict[Operator, Callable[[int, int], int]]] = {
    Operator.ADD: operator.add,
    Operator.SUB: operator.sub,
    Operator.MUL: operator.mul,
    Operator.DIV: _quotient,
    Operator.MOD: _remainder,
}
_DECIMAL: Final[dict[Operator, Callable[[Decimal, Decimal], Decimal]]] = {
    Operator.ADD: _CONTEXT.add,
    Operator.SUB: _CONTEXT.subtract,
    Operator.MUL: _CONTEXT.multiply,
    Operator.DIV: _CONTEXT.divide,
    Operator.MOD: _CONTEXT.remainder,
}
_DOUBLE: Final[dict[Operator, Callable[[float, float], float]]] = {
    Operator.ADD: operator.add,
    Operator.SUB: operator.sub,
    Operator.MUL: operator.mul,
    Operator.DIV: operator.truediv,
    Operator.MOD: math.fmod,
}
