"""The right of a requester to be answered at an address, checked before the address becomes a cookie or a token."""

from __future__ import annotations

from collections.abc import Callable

Permit = Callable[[str], bool]
"""Raises AmqpError where the requester has no right to be answered at an address.

True: the answer is the same for all requesters of one `Annotator`, `Rewriter` or `CorrelationRewriter`.
"""


def anywhere(_: str) -> bool:
    """No limit: for one requester that may do everything."""
    return True
