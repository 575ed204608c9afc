"""The access entries of a scope: which of them allows a user to do something at an address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from policies.model.scopes.access import Action
from policies.text.diagnostics import PolicyLine
from policies.values.pattern_index import PatternIndex
from policies.values.patterns import Pattern

_LINKS: Final = frozenset(("send", "receive"))


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


class _Alike(NamedTuple):
    """Entries that allow the same users the same actions, as an index of their patterns."""

    may: frozenset[str]
    patterns: PatternIndex

    def permit(self, action: Action) -> bool:
        """Whether they allow an action somewhere."""
        # Producers and consumers may obtain information about the log (ES 6).
        return action in self.may or (action == "info" and not self.may.isdisjoint(_LINKS))


class AccessEntries:
    """The access entries of a scope in their order, found by user, action and address."""

    __slots__ = ("_alike", "_entries", "_positions")

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
            group = _Alike(may, PatternIndex(patterns))
            for user in _users(who):
                self._alike.setdefault(user, []).append(group)

    def grant(self, user: str, action: Action, address: str) -> Grant:
        """Whether some entry allows this user to do this at a `routable` address, and the first that does."""
        groups = (*self._alike.get(None, ()), *self._alike.get(user, ()))
        found = [group.patterns.first(address) for group in groups if group.permit(action)]
        at = min((position for position in found if position is not None), default=None)
        return Grant(False) if at is None else Grant(True, self._entries[at].where)

    def positions(self, user: str) -> tuple[int, ...]:
        """The positions of the entries that name this user, or everybody."""
        return tuple(sorted((*self._positions.get(None, ()), *self._positions.get(user, ()))))

    def named(self, user: str) -> list[CompiledAccess]:
        """The entries that name this user, or everybody."""
        return [self._entries[at] for at in self.positions(user)]


def _users(who: frozenset[str] | None) -> Iterable[str | None]:
    """The keys of users; None is everybody."""
    return (None,) if who is None else who
