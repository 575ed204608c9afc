"""The predicate index: its entries, the fields that they read, and the search for the predicates of a message."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from gateway.filters.evaluate.access import MALFORMED, Access, Entries, Slotted
from gateway.filters.evaluate.compile import compile_filter, conjuncts, prefilter_of, truth
from gateway.filters.evaluate.terms import Test, Values, value
from gateway.filters.index.key_sets import KeySet, with_key, without_key
from gateway.filters.index.keys import How, LookupKey, keys_of
from gateway.filters.index.lookup import Slot
from gateway.filters.predicate import FieldReference, MessageSection, Predicate, fields_of

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")

_FEW: Final = 4
"""Up to this number of predicates, running their prefilters costs less than reading the fields once."""
_SHORT: Final = 8
"""A prefix or suffix with fewer characters is assumed to fit more messages."""


class PredicateIndex(Generic[K, S]):
    """Finds which of many predicates match a source, with the same results as `compile_filter` for each.

    `K` is the caller's key of a predicate; several keys may have the same predicate.
    """

    def __init__(self, access: Access[S]) -> None:
        self._access: Final = access
        self._fields: Final = _Fields(access)
        self._entries: Final[dict[Predicate, _IndexEntry[K, S]]] = {}
        self._entry_of: Final[dict[K, _IndexEntry[K, S]]] = {}
        self._slots: Final[dict[int, Slot[_IndexEntry[K, S]]]] = {}
        self._scanned: Final[dict[_IndexEntry[K, S], None]] = {}
        self._terms: Final[dict[Predicate, _Term]] = {}
        self._without_prefilter = 0
        self._message = 0

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._entry_of)

    @property
    def scanned(self) -> int:
        """The number of distinct predicates without a lookup key, which are evaluated for every message."""
        return len(self._scanned)

    # -- adding and removing predicates

    def add(self, key: K, predicate: Predicate) -> None:
        """Add `predicate` under `key`; raises ValueError if the key has a predicate already."""
        if key in self._entry_of:
            raise ValueError("this key has a predicate already")
        entry = self._entries.get(predicate)
        if entry is None:
            entry = self._entries[predicate] = self._made(predicate)
        entry.keys = with_key(entry.keys, key)
        self._entry_of[key] = entry

    def remove(self, key: K) -> None:
        """Remove the predicate of `key`; raises KeyError for an unknown key."""
        entry = self._entry_of.pop(key)
        entry.keys = without_key(entry.keys, key)
        if not entry.keys:
            del self._entries[entry.predicate]
            self._forget(entry)

    def _made(self, predicate: Predicate) -> _IndexEntry[K, S]:
        entry: _IndexEntry[K, S] = _IndexEntry(predicate, self._access, self._fields.use(predicate))
        self._without_prefilter += entry.prefilter is None
        waits_under = keys_of(predicate, self._weight)
        if waits_under is None:
            self._scanned[entry] = None
            entry.terms = [self._term(term) for term in conjuncts(predicate)]
            return entry
        entry.waits_under, entry.test = waits_under, truth(predicate, self._fields.slots)
        for key in waits_under:
            slot = self._fields.slot(key.field)
            if slot not in self._slots:
                self._slots[slot] = Slot()
                self._fields.look_up(key.field.section, 1)
            self._slots[slot].add(key, entry, value(key.field, self._fields.slots))
        return entry

    def _forget(self, entry: _IndexEntry[K, S]) -> None:
        self._without_prefilter -= entry.prefilter is None
        self._scanned.pop(entry, None)
        for term in entry.terms:
            term.users -= 1
            if not term.users:
                del self._terms[term.predicate]
        for key in entry.waits_under:
            slot = self._fields.slot(key.field)
            self._slots[slot].remove(key, entry)
            if not self._slots[slot]:
                del self._slots[slot]
                self._fields.look_up(key.field.section, -1)
        self._fields.release(entry.predicate)

    def _term(self, predicate: Predicate) -> _Term:
        term = self._terms.get(predicate)
        if term is None:
            term = self._terms[predicate] = _Term(predicate, truth(predicate, self._fields.slots))
        term.users += 1
        return term

    def _weight(self, key: LookupKey) -> int:
        """The estimated cost of a key: a value that many filters name is assumed to occur in many messages."""
        slot = self._slots.get(self._fields.slot(key.field))
        broad = 0 if key.how is How.EQUAL else max(1, _SHORT - len(key.operand))
        return 1 + broad + (0 if slot is None else slot.waiting(key)) + _SHORT * (type(key.operand) is bool)

    # -- messages

    def matching(self, source: S) -> list[K]:
        """The keys of all predicates that match, each once, in no particular order; never raises."""
        if len(self._entries) <= _FEW and not self._without_prefilter:
            return list(self._each(source))
        try:
            return self._found(source)
        except MALFORMED:
            return self._salvaged(source)

    def _each(self, source: S) -> Iterator[K]:
        for entry in self._entries.values():
            if entry.matches(source):
                yield from entry.keys

    def _salvaged(self, source: S) -> list[K]:
        """The keys that match a malformed message: predicates that name an undecodable field do not match."""
        values, bad = Slotted(), set[int]()
        for section in self._fields.sections:
            bad |= section.entries.salvage(source, values)
        hits: list[_IndexEntry[K, S]] = []
        for slot, each in values.items():
            if slot in self._slots:
                self._slots[slot].find(each, values, hits)
        found: list[K] = []
        for entry in dict.fromkeys([*hits, *self._scanned]):
            if bad.isdisjoint(self._fields.slots_of(entry)) and entry.holds(values):
                found += entry.keys
        return found

    def _found(self, source: S) -> list[K]:
        self._message = message = self._message + 1
        values = Slotted()
        hits: list[_IndexEntry[K, S]] = []
        found: list[K] = []
        for read in self._fields.always:
            read(source, values)
        slots = self._slots
        for slot, each in values.items():
            if slot in slots:
                slots[slot].find(each, values, hits)
        for entry in hits:
            if entry.message != message:
                entry.message = message
                self._read(entry, message, source, values)
                if entry.test(values):
                    found += entry.keys
        if self._scanned:
            self._scan(message, source, values, found)
        return found

    def _read(self, entry: _IndexEntry[K, S], message: int, source: S, values: Slotted) -> None:
        """Read the sections of an entry that were not yet read for this message."""
        for section in entry.sections:
            if not section.looked_up and section.message != message:
                section.message = message
                section.read(source, values)

    def _scan(self, message: int, source: S, values: Slotted, found: list[K]) -> None:
        for entry in self._scanned:
            prefilter = entry.prefilter
            if prefilter is not None and not prefilter(source):
                continue
            for section in entry.sections:  # inlined from `_read`: a call costs as much as a term
                if section.message != message and not section.looked_up:
                    section.message = message
                    section.read(source, values)
            for term in entry.terms:
                if term.message == message:
                    if not term.holds:
                        break
                    continue
                term.message = message
                term.holds = holds = term.test(values)
                if not holds:
                    break
            else:
                found += entry.keys


def _never(values: Values) -> bool:
    return False


class _IndexEntry(Generic[K, S]):
    """A predicate and the keys under which it was added."""

    __slots__ = (
        "_access",
        "_alone",
        "keys",
        "message",
        "predicate",
        "prefilter",
        "sections",
        "slots",
        "terms",
        "test",
        "waits_under",
    )  # fmt: skip

    def __init__(self, predicate: Predicate, access: Access[S], sections: list[_SectionReader[S]]) -> None:
        self.predicate: Final = predicate
        self.keys: KeySet[K] = ()
        self.sections: Final = sections
        self.prefilter: Final = prefilter_of(predicate, access)
        self.test: Test = _never
        self.terms: Sequence[_Term] = ()
        self.waits_under: tuple[LookupKey, ...] = ()
        self.message = 0
        """The number of the last message for which it was evaluated."""
        self.slots: frozenset[int] | None = None
        """The slots of its fields; None: not yet computed."""
        self._access: Final = access
        self._alone: Callable[[S], bool] | None = None

    def matches(self, source: S) -> bool:
        """Whether the predicate matches, evaluated without the index."""
        if self._alone is None:
            self._alone = compile_filter(self.predicate, self._access)
        return self._alone(source)

    def holds(self, values: Values) -> bool:
        """Whether the predicate is true for these values of its fields."""
        return bool(self.test(values)) if self.waits_under else all(term.test(values) for term in self.terms)


class _Term:
    """A term of predicates without lookup keys: evaluated once per message, however many predicates share it."""

    __slots__ = ("holds", "message", "predicate", "test", "users")

    def __init__(self, predicate: Predicate, test: Test) -> None:
        self.predicate: Final = predicate
        self.test: Final = test
        self.users = 0
        self.message = 0
        self.holds: bool | None = None


class _SectionReader(Generic[S]):
    """Reads some fields of one section."""

    __slots__ = ("entries", "looked_up", "message", "read")

    def __init__(self, entries: Entries[S]) -> None:
        self.entries: Final = entries
        self.read: Final = entries.read
        self.looked_up = 0
        """The number of its fields that have lookup keys; if not 0, the section is read for every message."""
        self.message = 0
        """The number of the last message for which it was read, if it is not read for every message."""


class _Fields(Generic[S]):
    """The fields that the predicates name, each with its own slot in the values of a message."""

    def __init__(self, access: Access[S]) -> None:
        self._access: Final = access
        self._sections: Final[dict[MessageSection, _SectionReader[S]]] = {}
        self._users: Final[dict[tuple[MessageSection, str], int]] = {}
        self._last = 0
        self.slots: Final[dict[tuple[MessageSection, str], int]] = {}
        self.always: tuple[Callable[[S, Slotted], None], ...] = ()
        """The readers of the sections that are read for every message."""

    def use(self, predicate: Predicate) -> list[_SectionReader[S]]:
        """Add the fields of a predicate; returns the readers of their sections."""
        names = _names(predicate)
        for section, name in names:
            self._users[section, name] = self._users.get((section, name), 0) + 1
            if self._users[section, name] == 1:
                self._last += 1
                self.slots[section, name] = self._last
                self._section(section).entries.add(name, self._last)
        return [self._sections[section] for section in dict.fromkeys(section for section, _ in names)]

    def _section(self, section: MessageSection) -> _SectionReader[S]:
        if section not in self._sections:
            self._sections[section] = _SectionReader(self._access.entries(section))
        return self._sections[section]

    def release(self, predicate: Predicate) -> None:
        """Remove the fields of a predicate that no other predicate names."""
        for section, name in _names(predicate):
            self._users[section, name] -= 1
            if not self._users[section, name]:
                del self._users[section, name], self.slots[section, name]
                self._sections[section].entries.remove(name)

    @property
    def sections(self) -> Iterable[_SectionReader[S]]:
        """The readers of all sections with fields that are read."""
        return self._sections.values()

    def slots_of(self, entry: _IndexEntry[K, S]) -> frozenset[int]:
        """The slots of the fields that an entry names."""
        if entry.slots is None:
            entry.slots = frozenset(self.slots[name] for name in _names(entry.predicate))
        return entry.slots

    def slot(self, field: FieldReference) -> int:
        """The slot of the section entry that contains a field."""
        return self.slots[field.section, field.name]

    def look_up(self, section: MessageSection, change: int) -> None:
        """Count the fields of a section with lookup keys: `change` is 1 or -1."""
        self._sections[section].looked_up += change
        self.always = tuple(section.read for section in self._sections.values() if section.looked_up)


def _names(predicate: Predicate) -> list[tuple[MessageSection, str]]:
    return list(dict.fromkeys((field.section, field.name) for field in fields_of(predicate)))
