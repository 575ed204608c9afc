"""AMQP decimals as numbers: IEEE 754-2008 in Binary Integer Decimal encoding (AMQP 1.0 part 1, 1.6.13 to 1.6.15).

The codec leaves them as bytes, which is all a relay needs; filters need numbers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

DIGITS: Final = 38
"""The maximum number of digits of a decimal in a filter, and of decimal places: the limits of Arrow and Spark."""
SCALE: Final = 18


class _Format(NamedTuple):
    exponent_bits: int
    coefficient_bits: int
    bias: int
    digits: int


_FORMATS: Final = {4: _Format(8, 23, 101, 7), 8: _Format(10, 53, 398, 16), 16: _Format(14, 113, 6176, 34)}


def decimal_value(value: Decimal | bytes) -> Decimal | None:
    """The exact value of a decimal; `None` for NaN, infinity and more than 38 digits."""
    number = value if isinstance(value, Decimal) else decoded(value)
    if number is None or not number.is_finite():
        return None
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if exponent < -SCALE:
        number = _shortened(number, digits, exponent, sign)
        if number is None:
            return None
    if not number:
        return Decimal(0)  # with any exponent, which Arrow would count as digits
    return number if number.adjusted() < DIGITS - SCALE else None


def _shortened(number: Decimal, digits: tuple[int, ...], exponent: int, sign: int) -> Decimal | None:
    """The same number with at most 18 decimal places, if the others are zeros."""
    if not number:
        return Decimal(0)
    cut = -SCALE - exponent
    if cut >= len(digits) or any(digits[-cut:]):
        return None
    return Decimal((sign, digits[:-cut], -SCALE))


def decoded(raw: bytes) -> Decimal | None:
    """The number of 4, 8 or 16 encoded bytes; `None` for infinities and NaNs."""
    form = _FORMATS[len(raw)]
    bits = int.from_bytes(raw, "big")
    width = len(raw) * 8
    sign = bits >> (width - 1)
    if bits >> (width - 5) & 0xF == 0xF:
        return None
    if bits >> (width - 3) & 3 == 3:  # the coefficient begins with an implied 100
        low_bits = form.coefficient_bits - 2
        exponent = bits >> low_bits & (1 << form.exponent_bits) - 1
        coefficient = 4 << low_bits | bits & (1 << low_bits) - 1
    else:
        exponent = bits >> form.coefficient_bits & (1 << form.exponent_bits) - 1
        coefficient = bits & (1 << form.coefficient_bits) - 1
    if coefficient >= 10**form.digits:  # not canonical: zero (IEEE 754-2008, 3.5.2)
        coefficient = 0
    return Decimal((sign, tuple(map(int, str(coefficient))), exponent - form.bias))


def encoded(number: Decimal, width: int) -> bytes:
    """The bytes of a finite number in a decimal of `width` bytes; ValueError if its digits do not fit."""
    form = _FORMATS[width]
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return _SPECIAL[exponent][sign].ljust(width, b"\0")
    coefficient, biased = int("".join(map(str, digits))), exponent + form.bias
    if coefficient >= 10**form.digits or not 0 <= biased < 3 << (form.exponent_bits - 2):
        raise ValueError(f"a decimal of {width * 8} bits has {form.digits} digits and no room for {number}")
    low_bits, word = form.coefficient_bits, sign << (width * 8 - 1)
    if coefficient >> low_bits:
        low_bits -= 2
        word |= 3 << (width * 8 - 3)
    return (word | biased << low_bits | coefficient & (1 << low_bits) - 1).to_bytes(width, "big")


_SPECIAL: Final = {"F": (b"\x78", b"\xf8"), "n": (b"\x7c", b"\xfc"), "N": (b"\x7e", b"\xfe")}
