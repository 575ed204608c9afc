"""How many examples a property draws, from which constants: the profile alone decides (tests/conftest.py)."""

from __future__ import annotations

from typing import Final

from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

FAST: Final = 100
"""Examples that a property draws at most in the profile `fast`."""


def examples(count: int) -> int:
    """How many a property draws whose weight is `count`: `deep` draws a hundred times as many, `fast` 100 at most."""
    most = settings.get_profile(settings.get_current_profile_name()).max_examples
    share = max(1, count * most // FAST)
    return min(share, most) if most <= FAST else share


def draw_no_constants() -> None:
    """Draw nothing from the source of modules that are loaded.

    Hypothesis collects the constants of all local modules, so examples would depend on which tests came before.
    """
    providers._get_local_constants = lambda: _NONE  # type: ignore[attr-defined]


_NONE: Final = Constants()
