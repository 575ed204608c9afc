"""Random values of messages, as the codec would decode them: what one draw can say takes one draw.

Hypothesis pays for each draw, however small. So finite kinds are lists that are ready, and containers hold few things.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

from hypothesis import strategies as st

from gateway.amqp.codec import codec

# few names and few values, so that they meet
NAMES = ("a", "b", "n", "ab", "é")
TEXTS = ("", "a", "A", "ab", "a%b", "x_y", "é", "ΑΣ", "ας", "İi", "&a", "abcabcabd")
UUIDS = (uuid.UUID(int=0), uuid.UUID(int=7))
WHOLE = (0, 1, 2, 5, 6, 7, 127, 255)


def evenly(*groups: Sequence[Any]) -> st.SearchStrategy[Any]:
    """A single draw from several groups, from each as often."""
    most = max(map(len, groups))
    every = [each for group in groups for each in islice(cycle(group), most)]
    drawn = st.sampled_from(every)
    drawn.force_repr = f"{len(every)} values"  # type: ignore[attr-defined]  # Hypothesis writes it at each retry
    return drawn


def named(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The same strategy with a short repr; `one_of` takes it for one of its own, whatever it is made of."""

    @st.composite
    def values(draw: st.DrawFn) -> Any:
        return draw(strategy)

    return values()


def again(strategy: st.SearchStrategy[Any], times: int) -> list[st.SearchStrategy[Any]]:
    """The strategy that many times: what is given twice to `one_of` counts once."""
    return [named(strategy) for _ in range(times)]


def bid(width: int, coefficient: int, exponent: int) -> bytes:
    """A decimal's bytes: binary integer decimal, the coefficient in the form its size asks for."""
    exponent_bits, bits, bias = {4: (8, 23, 101), 8: (10, 53, 398), 16: (14, 113, 6176)}[width]
    sign, magnitude = int(coefficient < 0), abs(coefficient)
    biased = exponent + bias
    assert 0 <= biased < 3 << (exponent_bits - 2)
    if magnitude < 1 << bits:
        word = sign << (exponent_bits + bits) | biased << bits | magnitude
    else:
        low = bits - 2
        assert magnitude >> low == 4
        word = sign << (exponent_bits + bits) | 3 << (exponent_bits + bits - 2) | biased << low
        word |= magnitude & (1 << low) - 1
    return word.to_bytes(width, "big")


_DECIMALS = ((codec.Decimal32, 4), (codec.Decimal64, 8), (codec.Decimal128, 16))
_COEFFICIENTS = (0, 1, -1, 5, 50, 15, 127, 9_999_999)
NUMBERS = [kind(bid(width, c, e)) for kind, width in _DECIMALS for c in _COEFFICIENTS for e in range(-20, 21)]
ODD = st.binary(min_size=16, max_size=16).map(lambda raw: _DECIMALS[raw[0] % 3][0](raw[: _DECIMALS[raw[0] % 3][1]]))
"""Decimals of any bytes."""

_KINDS = (
    (codec.Ubyte, 0, 2**8 - 1), (codec.Ushort, 0, 2**16 - 1), (codec.Uint, 0, 2**32 - 1), (codec.Ulong, 0, 2**64 - 1),
    (codec.Byte, -(2**7), 2**7 - 1), (codec.Short, -(2**15), 2**15 - 1), (codec.Int, -(2**31), 2**31 - 1),
    (codec.Long, -(2**63), 2**63 - 1),
)  # fmt: skip
_INTEGERS = {
    kind: [kind(number) for number in (low, high, -1, -7, *WHOLE) if low <= number <= high]
    for kind, low, high in _KINDS
}
INTEGERS = [each for known in _INTEGERS.values() for each in known]

_FLOATS = (0.0, -0.0, 0.5, 1.0, 5.0, -7.5, 1e300, float("inf"), float("-inf"), float("nan"), 2.0**63)
_GROUPS: tuple[Sequence[Any], ...] = (
    INTEGERS,
    INTEGERS,
    _FLOATS,
    [codec.Float(number) for number in (0.5, 5.0, -7.5, float("nan"), float("inf"))],
    random.Random(7).sample(NUMBERS, 80),
    (False, True),
    TEXTS,
    [codec.Symbol(text) for text in TEXTS if text.isascii()],
    (b"", b"a", b"\xff"),
    [codec.Timestamp(number) for number in (0, 1, 5, -7, 2**62)],
    UUIDS,
    (codec.Char("a"), codec.Char("é")),
    (None,),
)
SCALARS = evenly(*_GROUPS)
_ARRAYS = (
    st.lists(st.sampled_from(_INTEGERS[codec.Int]), max_size=3).map(lambda items: codec.Array("int", tuple(items))),
    st.lists(st.sampled_from(TEXTS), max_size=3).map(lambda items: codec.Array("string", tuple(items))),
)
KEYS = evenly(NAMES, [codec.Symbol(name) for name in NAMES if name.isascii()], (codec.Char("a"),))


def entries(values: st.SearchStrategy[Any], most: int = 5) -> st.SearchStrategy[dict[Any, Any]]:
    """Maps as the codec would decode them: a key that Python calls equal to an earlier one is wrapped."""
    pairs = st.lists(st.tuples(KEYS, values), max_size=most)

    @st.composite
    def maps(draw: st.DrawFn) -> dict[Any, Any]:
        return _decoded(draw(pairs))

    return maps()


def _decoded(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in pairs:
        wrapped = codec.MapKey(key, codec.encode(key)) if key in result else key
        if wrapped not in result and not any(type(known) is type(key) and known == key for known in result):
            result[wrapped] = value
    return result


def _wider(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A scalar in half of the draws, else an array, odd bytes, or something made of values."""
    scalars = (evenly(*_GROUPS) for _ in range(6))  # six of them, for what is given twice counts once
    described = st.builds(codec.Described, st.just(codec.Symbol("x")), values)
    return st.one_of(*scalars, *_ARRAYS, ODD, st.lists(values, max_size=3), entries(values, 3), described)


VALUES = named(_wider(_wider(_wider(SCALARS))))
