"""The functions of CESQL (3.5), with the types of their arguments and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from gateway.filters.cesql.nodes import CesqlValue
from gateway.filters.cesql.values import LARGEST, CesqlError, Failed, Outcome, to_boolean, to_integer

_V = TypeVar("_V")
MANY: Final = 1 << 16
"""The bound for variadic functions: more arguments than any expression has."""


MAX_TEXT: Final = 131_072
"""The maximum length of a function's texts: an expression with nested functions is evaluated for every event."""
_TOO_LONG: Final = Failed(CesqlError.FUNCTION_EVALUATION, "")


class Function(NamedTuple):
    """`arguments`: a type for each, None for any; the last one repeats if the function is `variadic`."""

    run: Callable[..., Outcome]
    arguments: tuple[type | None, ...]
    result: type
    variadic: bool = False
    optional: int = 0
    """The number of trailing arguments that may be left out."""


def arities(name: str) -> range:
    """The numbers of arguments that a function may have."""
    function = FUNCTIONS[name]
    count = len(function.arguments)
    if function.variadic:
        return range(count - 1, MANY)
    return range(count - function.optional, count + 1)


def _abs(number: int) -> Outcome:
    return abs(number) if number >= -LARGEST else Failed(CesqlError.MATH, LARGEST)


def _left(text: str, count: int) -> Outcome:
    return text[:count] if count >= 0 else Failed(CesqlError.FUNCTION_EVALUATION, text)


def _right(text: str, count: int) -> Outcome:
    if count < 0:
        return Failed(CesqlError.FUNCTION_EVALUATION, text)
    return text[max(0, len(text) - count) :]


def _substring(text: str, position: int, length: int = LARGEST) -> Outcome:
    """Positions count from 1, negative ones from the end; the result for position 0 is empty."""
    if not position:
        return ""
    if abs(position) > len(text) or length < 0:
        return Failed(CesqlError.FUNCTION_EVALUATION, "")
    start = position - 1 if position > 0 else len(text) + position
    return text[start : start + length]


def _bounded(run: Callable[..., str]) -> Callable[..., Outcome]:
    """Wrap a function of texts: it fails if they have more than `MAX_TEXT` characters together."""

    def run_within(*texts: str) -> Outcome:
        return _TOO_LONG if sum(map(len, texts)) > MAX_TEXT else run(*texts)

    return run_within


def _joined(between: str, *texts: str) -> Outcome:
    size = len(between) * len(texts) + sum(map(len, texts))
    return _TOO_LONG if size > MAX_TEXT else between.join(texts)


def _castable(cast: Callable[[CesqlValue], Outcome]) -> Callable[[CesqlValue], bool]:
    return lambda value: type(cast(value)) is not Failed


def _same(value: _V) -> _V:
    return value


FUNCTIONS: Final[dict[str, Function]] = {
    "INT": Function(_same, (int,), int),
    "BOOL": Function(_same, (bool,), bool),
    "STRING": Function(_same, (str,), str),
    "IS_BOOL": Function(_castable(to_boolean), (None,), bool),
    "IS_INT": Function(_castable(to_integer), (None,), bool),
    "ABS": Function(_abs, (int,), int),
    "LENGTH": Function(len, (str,), int),
    "CONCAT": Function(_bounded(lambda *texts: "".join(texts)), (str,), str, variadic=True),
    "CONCAT_WS": Function(_joined, (str, str), str, variadic=True),
    "LOWER": Function(_bounded(str.lower), (str,), str),
    "UPPER": Function(_bounded(str.upper), (str,), str),
    "TRIM": Function(_bounded(str.strip), (str,), str),
    "LEFT": Function(_left, (str, int), str),
    "RIGHT": Function(_right, (str, int), str),
    "SUBSTRING": Function(_substring, (str, int, int), str, optional=1),
}
