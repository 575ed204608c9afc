"""Items stored under lookup keys: for each field a hash table of values, and trees of prefixes and suffixes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar
from uuid import UUID

from gateway.amqp.codec.types import Timestamp, Value
from gateway.filters.evaluate.terms import Get, Values
from gateway.filters.index.key_sets import KeySet, with_key, without_key
from gateway.filters.index.keys import How, LookupKey
from gateway.filters.index.tree import PrefixTree
from gateway.filters.predicate import FieldReference
from gateway.filters.values import APPROXIMATES, DECIMALS, INTEGERS, TEXTS, exact, folded

T = TypeVar("T", bound=Hashable)

LOOKED_UP: Final = TEXTS | INTEGERS | APPROXIMATES | DECIMALS | {bool, bytes, UUID, Timestamp}
"""The types of values that may equal the operand of a key."""
Find = Callable[[Value, list[T]], None]
"""Adds the items whose keys a value fits to a list, possibly some of them twice."""


class _Table(Generic[T]):
    """Items stored under the value that the field must equal."""

    def __init__(self) -> None:
        self.waiting: Final[dict[Value, KeySet[T]]] = {}

    def add(self, operand: Value, item: T) -> None:
        self.waiting[operand] = with_key(self.waiting.get(operand, ()), item)

    def remove(self, operand: Value, item: T) -> None:
        waiting = without_key(self.waiting[operand], item)
        if waiting:
            self.waiting[operand] = waiting
        else:
            del self.waiting[operand]

    def count(self, operand: Value) -> int:
        return len(self.waiting.get(operand, ()))

    def find_folded(self, value: Value, found: list[T]) -> None:
        if type(value) in TEXTS and (waiting := self.waiting.get(folded(value))) is not None:
            found += waiting

    def find_decimal(self, value: Value, found: list[T]) -> None:
        if type(value) in DECIMALS and (waiting := self.waiting.get(exact(value))) is not None:
            found += waiting

    def __bool__(self) -> bool:
        return bool(self.waiting)


class _Ends(Generic[T]):
    """Items stored under prefixes, or under suffixes; `fold` is applied to the text of a message first."""

    def __init__(self, how: How, fold: Callable[[str], str]) -> None:
        self._tree: Final = PrefixTree[T]()
        self._backwards: Final = how is How.SUFFIX
        self._fold: Final = fold
        self._longest = 1
        """The length of the longest operand: only that many characters of a text have to be compared."""

    def add(self, operand: str, item: T) -> None:
        self._longest = max(self._longest, len(operand))
        self._tree.add(self._inwards(operand), item)

    def remove(self, operand: str, item: T) -> None:
        self._tree.remove(self._inwards(operand), item)

    def count(self, operand: str) -> int:
        return self._tree.waiting(self._inwards(operand))

    def find(self, value: Value, found: list[T]) -> None:
        if type(value) in TEXTS:
            part = value[-self._longest :][::-1] if self._backwards else value[: self._longest]
            self._tree.find(self._fold(part), found)

    def _inwards(self, operand: str) -> str:
        """The operand, reversed for suffixes: a suffix is a prefix of the reversed text."""
        return operand[::-1] if self._backwards else operand

    def __bool__(self) -> bool:
        return bool(self._tree)


class Lookup(Generic[T]):
    """The items stored under keys of one field."""

    __slots__ = ("_ends", "_folded", "_numbers", "equal", "more")

    def __init__(self) -> None:
        self.equal: Final = _Table[T]()
        self._folded: Final = _Table[T]()
        self._ends: Final = {
            (how, fold): _Ends[T](how, folded if fold else str)
            for how in (How.PREFIX, How.SUFFIX)
            for fold in (False, True)
        }
        self._numbers = 0
        self.more: tuple[Find[T], ...] = ()
        """The lookups that are needed besides that of the value in `equal`."""

    def add(self, key: LookupKey, item: T) -> None:
        """Store `item` under `key`."""
        self._of(key).add(key.operand, item)
        self._numbers += type(key.operand) is int
        self._choose()

    def remove(self, key: LookupKey, item: T) -> None:
        """Remove `item` from `key`."""
        self._of(key).remove(key.operand, item)
        self._numbers -= type(key.operand) is int
        self._choose()

    def waiting(self, key: LookupKey) -> int:
        """The number of items under exactly this key."""
        return self._of(key).count(key.operand)

    def find(self, value: Value, found: list[T]) -> None:
        """Add the items whose keys the `value` of a message fits to `found`."""
        if type(value) in LOOKED_UP:
            waiting = self.equal.waiting.get(value)
            if waiting is not None:
                found += waiting
            for find in self.more:
                find(value, found)

    def _of(self, key: LookupKey) -> _Table[T] | _Ends[T]:
        if key.how is How.EQUAL:
            return self._folded if key.fold else self.equal
        return self._ends[key.how, key.fold]

    def _choose(self) -> None:
        more: list[Find[T]] = [ends.find for ends in self._ends.values() if ends]
        if self._folded:
            more.append(self._folded.find_folded)
        if self._numbers:
            more.append(self.equal.find_decimal)
        self.more = tuple(more)

    def __bool__(self) -> bool:
        return bool(self.equal or self._folded or any(self._ends.values()))


class Slot(Generic[T]):
    """The items stored under keys of one entry of a section, and of the fields nested in it."""

    __slots__ = ("_below", "here")

    def __init__(self) -> None:
        self.here: Final = Lookup[T]()
        self._below: Final[dict[FieldReference, tuple[Get, Lookup[T]]]] = {}

    def add(self, key: LookupKey, item: T, get: Get) -> None:
        """Store `item` under `key`; `get` reads the field of the key from the values of a message."""
        if not key.field.path:
            self.here.add(key, item)
        else:
            self._below.setdefault(key.field, (get, Lookup[T]()))[1].add(key, item)

    def remove(self, key: LookupKey, item: T) -> None:
        """Remove `item` from `key`."""
        if not key.field.path:
            self.here.remove(key, item)
            return
        lookup = self._below[key.field][1]
        lookup.remove(key, item)
        if not lookup:
            del self._below[key.field]

    def waiting(self, key: LookupKey) -> int:
        """The number of items under exactly this key."""
        if not key.field.path:
            return self.here.waiting(key)
        found = self._below.get(key.field)
        return 0 if found is None else found[1].waiting(key)

    def find(self, value: Value, values: Values, found: list[T]) -> None:
        """Add the items whose keys a message fits to `found`; `value` is the entry of the message."""
        self.here.find(value, found)
        for get, lookup in self._below.values():
            lookup.find(get(values), found)

    def __bool__(self) -> bool:
        """Whether any item is stored."""
        return bool(self.here or self._below)
