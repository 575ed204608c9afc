"""What tells this process from all others, also from those of a gateway with the same id."""

from __future__ import annotations

from functools import cache
from secrets import token_hex


@cache
def instance() -> str:
    """16 random hexadecimal digits, drawn when they are first asked for: who was forked before that has others."""
    return token_hex(8)
