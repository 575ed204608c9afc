"""The access entries of a scope: which of them allows a user to do something at an address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from policies.model.scopes.access import Action
from policies.text.diagnostics import PolicyLine
from policies.values.pattern_index import PatternIndex
from policies.values.patterns import Pattern, PatternShape, Segment

_LINKS: Final = frozenset(("send", "receive"))
_FEW: Final = 16
"""The number of different groups of entries of a user that are searched one after the other."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Whether access is granted, and by which line; a denial has no line."""

    allowed: bool
    where: PolicyLine | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CompiledAccess:
    """One access entry; `who` None is everybody."""

    who: frozenset[str] | None
    may: frozenset[str]
    on: tuple[Pattern, ...]
    where: PolicyLine

    def allows(self, user: str, action: Action) -> bool:
        """Whether a user may do this somewhere."""
        return (self.who is None or user in self.who) and action in _allowed(self.may)


def _allowed(may: frozenset[str]) -> frozenset[str]:
    """What an entry allows: producers and consumers may obtain information about the log (ES 6)."""
    return may if may.isdisjoint(_LINKS) else may | {"info"}


class _Alike(NamedTuple):
    """Entries that allow the same users the same actions, as an index of their patterns."""

    may: frozenset[str]
    patterns: PatternIndex


class _AtAddresses:
    """All entries, found by the address first: for users who are named beside ever other ones."""

    __slots__ = ("_entries", "_index", "_positions")

    def __init__(self, entries: Sequence[CompiledAccess]) -> None:
        self._entries = entries
        numbers: dict[PatternShape, int] = {}
        distinct: list[tuple[int, Pattern]] = []
        self._positions: list[list[int]] = []
        for at, entry in enumerate(entries):
            for pattern in entry.on:
                number = numbers.setdefault(_unnamed(pattern), len(numbers))
                if number == len(distinct):
                    distinct.append((number, pattern))
                    self._positions.append([])
                self._positions[number].append(at)
        self._index = PatternIndex(distinct)

    def first(self, user: str, action: Action, address: str) -> int | None:
        """The position of the first entry that allows this user to do this there."""
        there = PatternShape(tuple(map(Segment, address.split("/"))))
        found = (self._allowing(self._positions[number], user, action) for number in self._index.meeting(there))
        return min((position for position in found if position is not None), default=None)

    def _allowing(self, positions: Iterable[int], user: str, action: Action) -> int | None:
        return next((at for at in positions if self._entries[at].allows(user, action)), None)


def _unnamed(pattern: Pattern) -> PatternShape:
    """What a pattern matches, whatever its captures are called."""
    segments = (Segment(each.before, each.wild, after=each.after) for each in pattern.segments)
    return PatternShape(tuple(segments), pattern.rest)


class AccessEntries:
    """The access entries of a scope in their order, found by user, action and address."""

    __slots__ = ("_alike", "_at_addresses", "_entries", "_positions")

    def __init__(self, entries: Sequence[CompiledAccess]) -> None:
        self._entries = entries
        self._alike: dict[str | None, list[_Alike]] = {}
        self._positions: dict[str | None, list[int]] = {}
        alike: dict[tuple[frozenset[str] | None, frozenset[str]], list[tuple[int, Pattern]]] = {}
        for at, entry in enumerate(entries):
            alike.setdefault((entry.who, entry.may), []).extend((at, pattern) for pattern in entry.on)
            for user in _users(entry.who):
                self._positions.setdefault(user, []).append(at)
        for (who, may), patterns in alike.items():
            group = _Alike(_allowed(may), PatternIndex(patterns))
            for user in _users(who):
                self._alike.setdefault(user, []).append(group)
        many = any(len(groups) > _FEW for groups in self._alike.values())
        self._at_addresses = _AtAddresses(entries) if many else None

    def grant(self, user: str, action: Action, address: str) -> Grant:
        """Whether some entry allows this user to do this at a `routable` address, and the first that does."""
        at = self._first(user, action, address)
        return Grant(False) if at is None else Grant(True, self._entries[at].where)

    def _first(self, user: str, action: Action, address: str) -> int | None:
        own = self._alike.get(user, ())
        if len(own) > _FEW and self._at_addresses is not None:
            return self._at_addresses.first(user, action, address)
        groups = (*self._alike.get(None, ()), *own)
        found = [group.patterns.first(address) for group in groups if action in group.may]
        return min((position for position in found if position is not None), default=None)

    def positions(self, user: str) -> tuple[int, ...]:
        """The positions of the entries that name this user, or everybody."""
        return tuple(sorted((*self._positions.get(None, ()), *self._positions.get(user, ()))))

    def named(self, user: str) -> list[CompiledAccess]:
        """The entries that name this user, or everybody."""
        return [self._entries[at] for at in self.positions(user)]


def _users(who: frozenset[str] | None) -> Iterable[str | None]:
    """The keys of users; None is everybody."""
    return (None,) if who is None else who
