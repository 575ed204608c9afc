"""Values of CESQL and their casts (3.2, 3.6): booleans, 32-bit integers and strings; failures are values, too."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from gateway.filters.cesql.nodes import CesqlValue

LARGEST: Final = (1 << 31) - 1
SMALLEST: Final = -(1 << 31)
_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,10})")
_BOOLEANS: Final = {"true": True, "false": False}


class CesqlError(Enum):
    """The errors of evaluation, as the specification's test cases name them (4.1)."""

    MATH = "math"
    CAST = "cast"
    MISSING_ATTRIBUTE = "missingAttribute"
    FUNCTION_EVALUATION = "functionEvaluation"


class Failed(NamedTuple):
    """A failure, and the value that the specification defines for the result of the failed operation."""

    error: CesqlError
    value: CesqlValue


Outcome: TypeAlias = CesqlValue | Failed

_ZEROS: Final[dict[type, CesqlValue]] = {bool: False, int: 0, str: ""}
FAILURES: Final = {kind: {error: Failed(error, zero) for error in CesqlError} for kind, zero in _ZEROS.items()}
"""By type of the result and error: the failure with the zero value of the type."""
AS_FALSE: Final = FAILURES[bool]
AS_ZERO: Final = FAILURES[int]
MISSING: Final = AS_FALSE[CesqlError.MISSING_ATTRIBUTE]


def to_integer(value: CesqlValue) -> int | Failed:
    """Cast to Integer (3.6): a string must be a decimal number of 32 bits."""
    if type(value) is str:
        found = _INTEGER.fullmatch(value)
        number = int(found[1] + found[2]) if found is not None else LARGEST + 1
        return number if SMALLEST <= number <= LARGEST else AS_ZERO[CesqlError.CAST]
    return int(value)


def to_boolean(value: CesqlValue) -> bool | Failed:
    """Cast to Boolean (3.6): a string must be `true` or `false`, ignoring case; an integer is true unless it is 0."""
    if type(value) is str:
        return _BOOLEANS.get(value.lower(), AS_FALSE[CesqlError.CAST])
    return bool(value)


def to_string(value: CesqlValue) -> str:
    """Cast to String (3.6), which never fails."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    return str(value)


CASTS: Final = {bool: to_boolean, int: to_integer, str: to_string}


def in_range(number: int) -> int | Failed:
    """The result of arithmetic; a math error if it does not fit 32 bits (3.4.4)."""
    return number if SMALLEST <= number <= LARGEST else AS_ZERO[CesqlError.MATH]
