"""Many filters over one stream of messages: fields are read once, and text is looked up instead of compared.

For each message `compile_group` gives the numbers of the filters that match. What a message costs then depends on the
filters that may match it rather than on all there are: every filter that has some field equal to a text, or in a list
of texts, waits under this text in a dictionary, and the rest of it is evaluated only when a message has it. Among the
others a term that several share is evaluated once. What was tried and measured: docs/decisions/0003-filters.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from gateway.filters.access import MALFORMED, Access, Reader
from gateway.filters.closure import compile_filter, conjuncts, extraction, screen_of, truth
from gateway.filters.leaves import Slots, Test, Values
from gateway.filters.predicate import And, Compare, Comparison, Field, In, Literal, Matches, Predicate, fields_of
from gateway.filters.values import TEXTS

S = TypeVar("S")
Group = Callable[[S], list[int]]
"""The numbers of the filters that match a source, in ascending order."""


_FEW: Final = 4
"""Up to so many searches for a text cost less than reading the fields once."""


class _Keyed(NamedTuple):
    """A filter that needs `field` to be one of `texts`, and what else it needs."""

    field: Field
    texts: frozenset[str]
    rest: tuple[Predicate, ...]


def compile_group(predicates: Sequence[Predicate], access: Access[S]) -> Group[S]:
    """Which of `predicates` match a source, by their index; the same answers as `compile_filter` gives each.

    The function never raises.
    """
    numbers: dict[Predicate, list[int]] = {}
    for number, predicate in enumerate(predicates):
        numbers.setdefault(predicate, []).append(number)
    alone = [(equal, compile_filter(predicate, access)) for predicate, equal in numbers.items()]
    screens = [screen_of(predicate, access) for predicate in numbers]
    if len(alone) == 1 or (len(alone) <= _FEW and None not in screens):
        return lambda source: _each(alone, source)
    slots, read = extraction([field for predicate in numbers for field in fields_of(predicate)], access)
    return _grouped(read, *_arranged(numbers, slots), alone)


Waiting = list[tuple[list[int], Test]]
"""Numbers of equal filters, and what is still to be true."""
Index = tuple[int, dict[str, Waiting]]
"""Where the value of a field is, and who waits for what text in it."""
Alone = list[tuple[list[int], Callable[[S], bool]]]


def _each(filters: Alone[S], source: S) -> list[int]:
    found = [number for numbers, matches in filters if matches(source) for number in numbers]
    found.sort()
    return found


def _grouped(read: Reader[S], indexes: list[Index], others: Callable[[Values], list[int]], alone: Alone[S]) -> Group[S]:
    nothing: Waiting = []

    def matching(source: S) -> list[int]:
        try:
            values = read(source)
            found = others(values)
            for slot, waiting in indexes:
                value = values[slot]
                if type(value) in TEXTS:
                    for numbers, test in waiting.get(value, nothing):
                        if test(values):
                            found += numbers
        except MALFORMED:  # perhaps a field that only some of them name
            return _each(alone, source)
        found.sort()
        return found

    return matching


def _arranged(filters: dict[Predicate, list[int]], slots: Slots) -> tuple[list[Index], Callable[[Values], list[int]]]:
    """The filters with a text, by the field and the text, and all others."""
    indexes: dict[int, dict[str, Waiting]] = {}
    others: dict[Predicate, list[int]] = {}
    for predicate, numbers in filters.items():
        keyed = _keyed(predicate)
        if keyed is None:
            others[predicate] = numbers
            continue
        test = truth(And(keyed.rest), slots)
        waiting = indexes.setdefault(slots[keyed.field.section, keyed.field.name], {})
        for text in keyed.texts:
            waiting.setdefault(text, []).append((numbers, test))
    return list(indexes.items()), _others(others, slots)


def _others(filters: dict[Predicate, list[int]], slots: Slots) -> Callable[[Values], list[int]]:
    """The numbers of the filters that match; terms that filters share are evaluated once."""
    terms: dict[Predicate, int] = {}
    wanted = [
        (numbers, [terms.setdefault(term, len(terms)) for term in conjuncts(predicate)])
        for predicate, numbers in filters.items()
    ]
    if len(terms) == sum(len(needs) for _, needs in wanted):
        plain = [(numbers, truth(predicate, slots)) for predicate, numbers in filters.items()]
        return lambda values: [number for numbers, test in plain if test(values) for number in numbers]
    tests = [truth(term, slots) for term in terms]
    blank: list[Any] = [_UNKNOWN] * len(tests)

    def matching(values: Values) -> list[int]:
        known, found = blank.copy(), []
        for numbers, needs in wanted:
            for term in needs:
                result = known[term]
                if result is _UNKNOWN:
                    result = known[term] = tests[term](values)
                if not result:
                    break
            else:
                found += numbers
        return found

    return matching


_UNKNOWN: Final = object()


def _keyed(predicate: Predicate) -> _Keyed | None:
    terms = conjuncts(predicate)
    for term in terms:
        found = texts_of(term)
        if found is not None:
            return _Keyed(*found, tuple(other for other in terms if other is not term))
    return None


def texts_of(term: Predicate) -> tuple[Field, frozenset[str]] | None:
    """A field and the texts it has to be one of for `term` to be true."""
    if isinstance(term, Matches):
        return _pair(term.field, (Literal(term.reference),))
    if isinstance(term, In):
        return _pair(term.value, term.items)
    if isinstance(term, Compare) and term.comparison is Comparison.EQ:
        return _pair(term.left, (term.right,)) or _pair(term.right, (term.left,))
    return None


def _pair(field: object, constants: tuple[Any, ...]) -> tuple[Field, frozenset[str]] | None:
    if not isinstance(field, Field) or field.path:
        return None
    if not all(isinstance(item, Literal) and type(item.value) in TEXTS for item in constants):
        return None
    return field, frozenset(str(item.value) for item in constants)


__all__: Final = ["Group", "compile_group"]
