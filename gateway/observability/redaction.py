"""Redacts addresses and texts for logs and the journal: the parts that work like secrets are removed (pure).

The token of a rewritten reply address works like a cookie, and whoever knows the address of a temporary node may use
it. Both are cut where their random part begins, also if the address is not spelled as the gateway spells it: responders
write another separator, another case, or percent-encode it. What looks like a token is cut wherever it is. Clients have
also sent a shared access signature, a connection string or a JSON web token where an address or a name belongs: what
signs or proves something is removed from these.

`gateway/journal/_rows.c` decides which addresses need not be looked at here.
"""

from __future__ import annotations

import re
from typing import Final, overload

MAX_LENGTH: Final = 1024
"""Maximum characters of a redacted text; no address of a policy is longer."""
_DOLLAR: Final = r"(?:\$|%(?:25){0,3}24)"
_SEPARATOR: Final = r"(?:%(?:25){0,3}[0-7][0-9a-f]|[^\w\s'\"%.-])"
_FIRST: Final = rf"(?:{_SEPARATOR}|[._-])"
_PLACE: Final = re.compile(
    rf"({_DOLLAR}(?:replies{_FIRST}[\w.-]+{_SEPARATOR}|temp{_FIRST}))[^\s'\"]+", re.IGNORECASE | re.ASCII
)
_ALL: Final = re.compile(rf"({_DOLLAR}(?:replies\.[^/]+|temp)/).+", re.DOTALL | re.IGNORECASE)
_TOKEN: Final = re.compile(r"A[Q-Xw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][\w-]{37,}", re.ASCII)
"""A cookie or a token as base64url: version 1 or 3, two bytes below 128 (flags, a length, a key id), 27 and more."""
SHORTEST_TOKEN: Final = 40
"""Fewer characters than the shortest token has."""
_CREDENTIAL: Final = re.compile(
    r"((?:\b|%26|%3b)(?:sig|sharedaccesskey|password)(?:=|%3d))[^&;\s'\"]+|(\beyJ[\w-]{8,}\.)[\w.-]+",
    re.IGNORECASE,
)
_HINTS: Final = re.compile(r"sig|key|password|eyj", re.IGNORECASE)


@overload
def redact(text: str) -> str: ...
@overload
def redact(text: None) -> None: ...
def redact(text: str | None) -> str | None:
    """Redact an address, a link's name or a sentence that contains addresses; cut it after 1,024 characters."""
    if text is None:
        return None
    if "$" in text or "%" in text:
        whole = _ALL.match(text)
        text = _PLACE.sub(r"\1…", text if whole is None else f"{whole[1]}…")
    if len(text) >= SHORTEST_TOKEN:
        text = _TOKEN.sub("…", text)
    if _HINTS.search(text) is not None:
        text = _CREDENTIAL.sub(lambda found: f"{found[1] or found[2]}…", text)
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}…"
