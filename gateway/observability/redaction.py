"""Addresses and texts as logs and the journal have them: without what is as good as a secret (pure).

The token of a rewritten reply address works like a cookie, and knowing the address of a temporary node is the
permission to use it. Both are cut where their random part begins.
"""

from __future__ import annotations

import re
from typing import Final, overload

MOST: Final = 1024
"""Characters that are shown; a longer address is none of any policy."""
_TOKEN: Final = re.compile(r"(\$replies\.[^/\s'\"]+/|\$temp/)[^\s'\"]+")
_ALL: Final = re.compile(r"(\$replies\.[^/]+/|\$temp/).+", re.DOTALL)


@overload
def shown(text: str) -> str: ...
@overload
def shown(text: None) -> None: ...
def shown(text: str | None) -> str | None:
    """An address, a link's name or a sentence that may hold some, cut after 1,024 characters; None stays None."""
    if text is None:
        return None
    if "$" in text:
        text = _ALL.sub(r"\1…", text) if text.startswith("$") else _TOKEN.sub(r"\1…", text)
    return text if len(text) <= MOST else f"{text[:MOST]}…"
