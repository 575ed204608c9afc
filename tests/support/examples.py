"""How many examples a property draws: a count for the profile `fast`, and in proportion for any other."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

FAST: Final = 100
"""Examples of a property that names no count, in the profile `fast` (tests/conftest.py)."""


def examples(count: int) -> int:
    """`count` in the profile `fast`; `deep` draws a hundred times as many."""
    return max(1, count * settings.get_profile(settings.get_current_profile_name()).max_examples // FAST)
