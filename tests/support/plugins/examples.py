"""How many examples a property draws, from which constants: the profile alone decides (tests/conftest.py)."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

FAST: Final = 100
"""Examples that a property draws at most in the profile `fast`."""


def examples(count: int) -> int:
    """How many a property draws whose weight is `count`: `deep` draws a hundred times as many, `fast` 100 at most."""
    most = settings.get_profile(settings.get_current_profile_name()).max_examples
    share = max(1, count * most // FAST)
    return min(share, most) if most <= FAST else share


def draw_examples(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """That many examples, for a test of all of them at once, or for several tests of the same ones."""
    found: list[Any] = []

    @settings(max_examples=count, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


def draw_no_constants() -> None:
    """Draw nothing from the source of modules that are loaded.

    Hypothesis collects the constants of all local modules, so examples would depend on which tests came before.
    """
    providers._get_local_constants = lambda: _NONE  # type: ignore[attr-defined]


_NONE: Final = Constants()
