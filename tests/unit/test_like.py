"""LIKE takes time linear in the text, whatever the pattern: the worst that 4,096 characters can ask of 64 kB."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from gateway.amqp import sections
from gateway.filters.access import MessageAccess
from gateway.filters.closure import compile_filter
from gateway.filters.like import compiled
from gateway.filters.predicate import Field, Like, Section

SMALL, LARGE = 16_384, 65_536
WORST: dict[str, tuple[str, Callable[[int], str]]] = {
    "one part with blanks, nearly there everywhere": ("%" + "aa_" * 1364 + "b%", lambda size: "a" * size),
    "one part with blanks, two characters in turn": ("%" + "ab_" * 1364 + "c%", lambda size: "ab" * (size // 2)),
    "one part with blanks, not ASCII": ("%" + "éé_" * 1364 + "b%", lambda size: "é" * size),
    "one part with blanks, many characters": (
        "%" + "".join(chr(0x4E00 + n) + "_" for n in range(2046)) + "b%",
        lambda size: ("".join(chr(0x4E00 + n) + "_" for n in range(2046)) * 20)[:size],
    ),
    "a short part with blanks": ("%a_b%", lambda size: "a" * size),
    "many parts": ("%a" * 2046 + "%b%", lambda size: "a" * size),
    "many parts with blanks": ("%a_b" * 1022 + "%c_d%", lambda size: "aab" * (size // 3)),
    "a long part": ("%" + "a" * 4092 + "b%", lambda size: "a" * size),
    "a part that repeats itself": (
        "%" + "a" * 2000 + "b" + "a" * 2000 + "%",
        lambda size: ("a" * 1999 + "b") * (size // 2000),
    ),
}
"""Patterns and texts that do not match; made to start over as late and as often as can be."""


def milliseconds(matches: Callable[[str], bool], text: str) -> float:
    """Processor time, the best of several: what else runs can only make one slower."""
    best = float("inf")
    for _ in range(7):
        start = time.process_time_ns()
        assert not matches(text)
        best = min(best, time.process_time_ns() - start)
    return best / 1e6


@pytest.mark.row("FX-5-25")
@pytest.mark.parametrize("name", WORST)
def test_worst_patterns_take_time_linear_in_the_text(name: str) -> None:
    pattern, text = WORST[name]
    assert len(pattern) <= 4096
    matches = compiled(pattern)
    assert matches is not None
    small, large = milliseconds(matches, text(SMALL)), milliseconds(matches, text(LARGE))
    # four times the text: quadratic growth would be sixteen times the time; half a millisecond is lost in noise
    assert large < 8 * small + 0.5
    assert large < 500


@pytest.mark.parametrize("size", [4096, 4097])
def test_a_pattern_from_a_message_has_a_limit(size: int) -> None:
    section = sections.section(sections.APPLICATION_PROPERTIES, {"text": "a" * size, "pattern": "a" * size})
    text, pattern = (Field(Section.APPLICATION_PROPERTIES, name) for name in ("text", "pattern"))
    matches = compile_filter(Like(text, pattern), MessageAccess())
    assert matches((section, sections.walk(section))) is (size == 4096)
