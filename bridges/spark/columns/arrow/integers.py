"""Exact division of integers in Arrow arrays, rounded towards zero; longs and larger ulongs (docs/filters.md).

Computed with magnitude and sign in numpy's unsigned integers, because Arrow has no remainder, and its division of wide
decimals loses digits (26.0: 18446744073709551615 / 2).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridges.spark.columns.arrow.datum import Datum
from gateway.filters.predicate import Operator
from gateway.filters.values import LONG_MAX, calculator

_ULONG: Final = 1 << 64


def digits(decimals: Datum) -> Datum:
    """Whole decimals as text without decimal places: Arrow writes 7 as 7.000000000000000000, and 0 as 0E-18."""
    return pc.replace_substring_regex(pc.cast(decimals, pa.string()), "(\\.0*|E-[0-9]+)$", "")


def divided(operator: Operator, left: Datum, right: Datum) -> pa.Array:
    """Quotient or remainder as longs; null if it is not a long, and for a division by zero."""
    if any(
        isinstance(side, pa.Scalar) and side.is_valid and abs(int(side.as_py())) >= _ULONG for side in (left, right)
    ):
        return _by_row(operator, left, right)
    one, other = _Magnitudes(left), _Magnitudes(right)
    missing = one.missing | other.missing | (other.sizes == 0)
    divisors = np.where(missing, np.uint64(1), other.sizes)
    if operator is Operator.MOD:
        sizes, negative = one.sizes % divisors, one.negative
    else:
        sizes, negative = one.sizes // divisors, one.negative ^ other.negative
    missing = missing | (sizes > np.where(negative, np.uint64(LONG_MAX + 1), np.uint64(LONG_MAX)))
    with np.errstate(over="ignore"):
        found = np.where(negative, ~sizes + np.uint64(1), sizes).astype(np.int64)
    return pa.array(found, mask=missing)


class _Magnitudes:
    """Magnitudes and signs of integers, for numpy; one value for a scalar."""

    def __init__(self, item: Datum) -> None:
        array = pa.array([item.as_py()], item.type) if isinstance(item, pa.Scalar) else item
        self.missing = np.asarray(pc.is_null(array))
        if pa.types.is_integer(array.type):
            values = np.asarray(pc.fill_null(array, 0))
            self.negative = values < 0
            sizes = values.astype(np.uint64)
            self.sizes = np.where(self.negative, ~sizes + np.uint64(1), sizes)
        else:
            text = digits(array)
            self.negative = np.asarray(pc.fill_null(pc.starts_with(text, "-"), False))
            sizes = pc.cast(pc.replace_substring(text, "-", ""), pa.uint64())
            self.sizes = np.asarray(pc.fill_null(sizes, 0))


def _by_row(operator: Operator, left: Datum, right: Datum) -> pa.Array:
    """Row by row in Python, for a constant that no AMQP integer can hold."""
    rows = next(len(side) for side in (left, right) if not isinstance(side, pa.Scalar))
    sides = [[side.as_py()] * rows if isinstance(side, pa.Scalar) else side.to_pylist() for side in (left, right)]
    calculate = calculator(operator)
    pairs = zip(*([None if value is None else int(value) for value in side] for side in sides), strict=True)
    return pa.array([calculate(*pair) for pair in pairs], pa.int64())
