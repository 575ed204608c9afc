"""Counts the connections and links that are in memory: more than there are must not stay (`garbage`)."""

from __future__ import annotations

from typing import Final


class AliveCount:
    """How many objects of the classes that count themselves are not freed yet."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


ALIVE: Final = AliveCount()
