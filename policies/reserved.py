"""Addresses that no rule decides: response addresses of the gateway, and temporary nodes (CORE-10; RA 2.4, 2.5)."""

from __future__ import annotations

from typing import Final

TEMPORARY: Final = "$temp/"
"""The prefix of addresses of temporary nodes."""
SENT_ONLY: Final = "this address accepts responses; nothing can be received from it"
"""Why nobody receives from a response address."""
_REPLIES: Final = "$replies"


def replies_address(scope: str) -> str:
    """The response address of `scope`."""
    return f"{_REPLIES}.{scope}"


def response_suffix(scope: str, address: str) -> str | None:
    """What a response address of `scope` has after its name: nothing, or `/` and a token; None: it is not one."""
    own = replies_address(scope)
    suffix = address.removeprefix(own)
    return suffix if address.startswith(own) and suffix[:1] in ("", "/") else None
