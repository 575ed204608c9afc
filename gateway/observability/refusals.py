"""The last refusals, for operators: links, messages and logins. Pure; bounded by their number and length."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

MOST: Final = 200
"""Refusals that are kept."""
LONGEST: Final = 4096
"""Characters that are kept of each text of a peer, which may have 128 kB."""


class RecentRefusal(NamedTuple):
    """One refusal; texts of peers are redacted where it is shown."""

    at: float
    """Seconds since 1970."""
    kind: str
    """`link`, `message` or `login`."""
    scope: str
    user: str
    connection: str
    action: str | None
    """`send` or `receive`, as the access rules call what the link does."""
    address: str | None
    condition: str
    description: str


class RecentRefusals:
    """The last `MOST` refusals, numbered from 1."""

    def __init__(self) -> None:
        self._kept: Final[deque[RecentRefusal]] = deque(maxlen=MOST)
        self.total = 0

    def add(self, refusal: RecentRefusal) -> None:
        """Keep a refusal; the oldest is forgotten."""
        address = None if refusal.address is None else refusal.address[:LONGEST]
        self._kept.append(refusal._replace(address=address, description=refusal.description[:LONGEST]))
        self.total += 1

    def newest(self) -> list[tuple[int, RecentRefusal]]:
        """The kept refusals with their numbers, the newest first."""
        return [(self.total - at, each) for at, each in enumerate(reversed(self._kept))]
