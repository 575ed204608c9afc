"""The open connections in the order in which they came, with the numbers by which operators name them. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
_DEAD: Final = 1000
"""Numbers of items that have left and are kept at most, beside as many as there are items."""


class Entry(NamedTuple, Generic[T]):
    """An item, its number in this process, and the time at which it came, in seconds since 1970."""

    number: int
    item: T
    since: float


class Roster(Generic[T]):
    """Items by number, which ascend from 1; adding takes constant time, and so does removing on average.

    To find where a page begins takes O(log n); the items after it are read one by one.
    """

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._entries: Final[dict[int, Entry[T]]] = {}
        self._number_of: Final[dict[T, int]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, item: T, now: float) -> int:
        """Add an item; returns its number."""
        if (number := self._number_of.get(item)) is None:
            self._last = number = self._last + 1
            self._numbers.append(number)
            self._entries[number] = Entry(number, item, now)
            self._number_of[item] = number
        return number

    def remove(self, item: T) -> int | None:
        """Remove an item; returns the number that it had, or None if it is not here."""
        number = self._number_of.pop(item, None)
        if number is not None:
            del self._entries[number]
            if len(self._numbers) > 2 * len(self._entries) + _DEAD:
                self._numbers = list(self._entries)
        return number

    def get(self, number: int) -> Entry[T] | None:
        """The entry with this number, if it is still here."""
        return self._entries.get(number)

    def numbers(self) -> Iterator[int]:
        """The numbers of all items, ascending."""
        return iter(self._entries)

    def number(self, item: T) -> int | None:
        """The number of an item, if it is here."""
        return self._number_of.get(item)

    def since(self, item: T) -> float | None:
        """The time at which an item came, if it is here."""
        number = self._number_of.get(item)
        return None if number is None else self._entries[number].since

    def after(self, number: int) -> Iterator[Entry[T]]:
        """The entries with higher numbers, ascending. Nothing may be added or removed between two of them."""
        numbers, entries = self._numbers, self._entries
        for at in range(bisect_right(numbers, number), len(numbers)):
            if (entry := entries.get(numbers[at])) is not None:
                yield entry
