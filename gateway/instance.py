"""An identifier of this process, different from those of all others, also with the same gateway id."""

from __future__ import annotations

from functools import cache
from secrets import token_hex


@cache
def instance() -> str:
    """16 random hexadecimal digits, drawn at the first call, so that forked processes have their own."""
    return token_hex(8)
