"""LIKE takes time linear in the text, whatever the pattern: the worst that 4,096 characters can ask of 64 kB."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from gateway.amqp.codec.codec import Described, Symbol
from gateway.amqp.message import sections
from gateway.filters.evaluate.access import MessageAccess
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.evaluate.terms import UNSEARCHED
from gateway.filters.like import compiled
from gateway.filters.parse.filter_set import read
from gateway.filters.predicate import FieldReference, Like, MessageSection

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
    """Processor time of one call."""
    start = time.process_time_ns()
    assert not matches(text)
    return (time.process_time_ns() - start) / 1e6


@pytest.mark.row("FX-5-25")
@pytest.mark.parametrize("name", WORST)
def test_worst_patterns_take_time_linear_in_the_text(name: str) -> None:
    pattern, text = WORST[name]
    assert len(pattern) <= 4096
    matches = compiled(pattern)
    assert matches is not None
    # in turns: the machine may be twice as fast a moment later
    found = [(milliseconds(matches, text(SMALL)), milliseconds(matches, text(LARGE))) for _ in range(7)]
    # four times the text: quadratic growth would be sixteen times the time; half a millisecond is lost in noise
    assert any(large < 8 * small + 0.5 for small, large in found), found
    assert min(large for _, large in found) < 500


@pytest.mark.parametrize("size", [4096, 4097])
def test_a_pattern_from_a_message_has_a_limit(size: int) -> None:
    section = sections.section(sections.APPLICATION_PROPERTIES, {"text": "a" * size, "pattern": "a" * size})
    text, pattern = (FieldReference(MessageSection.APPLICATION_PROPERTIES, name) for name in ("text", "pattern"))
    matches = compile_filter(Like(text, pattern), MessageAccess())
    assert matches((section, sections.walk(section))) is (size == 4096)


def matches(text: str, subject: str) -> bool:
    """What a link with this SQL filter says of a message."""
    predicate = read({Symbol("f"): Described(Symbol("amqp:sql-filter"), text)}).predicate
    data = sections.section(sections.APPLICATION_PROPERTIES, {"s": subject})
    return compile_filter(predicate, MessageAccess())((data, sections.walk(data)))


@pytest.mark.row("FX-5-25")
@pytest.mark.parametrize(
    ("terms", "longest"),
    [
        ("s LIKE '%a_b%'", 524_288),
        ("s LIKE '%!a_b%' ESCAPE '!'", 524_288),
        ("s LIKE '%b%'", 8_388_608),
        (" OR ".join(["s LIKE '%a_b%'"] * 48), 10_922),
        (f"s LIKE '%a{'_' * 512}b%'", 262_144),
        ("s LIKE pattern OR s LIKE '%a%b'", 57_852),
        ("s LIKE 'x%b' OR s LIKE '%x' OR s LIKE '%a_b%'", 524_288),
    ],
)
def test_a_text_beyond_what_the_likes_of_a_link_may_cost_is_unknown(terms: str, longest: int) -> None:
    fits = "a" + "é" * (longest - 515) + "a" * 513 + "b"
    before = UNSEARCHED.texts
    assert matches(terms, fits)
    assert UNSEARCHED.texts == before
    assert not matches(terms, fits + "b")
    assert not matches(f"NOT ({terms})", fits + "b")
    assert UNSEARCHED.texts > before


@pytest.mark.row("FX-5-25")
@pytest.mark.parametrize("size", [1 << 20, 10_922])
def test_no_message_keeps_the_gateway_busy_for_long(size: int) -> None:
    """Two and a half seconds for a megabyte before there was a limit."""
    terms = " OR ".join(f"s LIKE '%a_{chr(98 + number % 20)}_b%'" for number in range(48))
    start = time.thread_time()
    assert not matches(terms, "é" + "axbxc" * (size // 5))
    assert time.thread_time() - start < 1


def test_what_is_at_the_ends_of_a_text_has_no_limit() -> None:
    assert matches("s LIKE 'a%b' AND NOT (s LIKE 'b%' OR s LIKE '%a')", "a" * (1 << 20) + "b")
    assert matches("s LIKE 'a%b' OR s LIKE '%a_b%'", "a" * (1 << 20) + "b")
