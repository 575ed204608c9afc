"""Redacts addresses and texts for logs and the journal: the parts that work like secrets are removed (pure).

The token of a rewritten reply address works like a cookie, and whoever knows the address of a temporary node may use
it. Both are cut where their random part begins. Clients have also sent a shared access signature, a connection string
or a JSON web token where an address or a name belongs: what signs or proves something is removed from these.
"""

from __future__ import annotations

import re
from typing import Final, overload

MAX_LENGTH: Final = 1024
"""Maximum characters of a redacted text; no address of a policy is longer."""
_TOKEN: Final = re.compile(r"(\$replies\.[^/\s'\"]+/|\$temp/)[^\s'\"]+")
_CREDENTIAL: Final = re.compile(
    r"((?:\b|%26|%3b)(?:sig|sharedaccesskey|password)(?:=|%3d))[^&;\s'\"]+|(\beyJ[\w-]{8,}\.)[\w.-]+",
    re.IGNORECASE,
)
_HINTS: Final = re.compile(r"sig|key|password|eyj", re.IGNORECASE)
_ALL: Final = re.compile(r"(\$replies\.[^/]+/|\$temp/).+", re.DOTALL)


@overload
def redact(text: str) -> str: ...
@overload
def redact(text: None) -> None: ...
def redact(text: str | None) -> str | None:
    """Redact an address, a link's name or a sentence that contains addresses; cut it after 1,024 characters."""
    if text is None:
        return None
    if "$" in text:
        text = _ALL.sub(r"\1…", text) if text.startswith("$") else _TOKEN.sub(r"\1…", text)
    if _HINTS.search(text) is not None:
        text = _CREDENTIAL.sub(lambda found: f"{found[1] or found[2]}…", text)
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}…"
