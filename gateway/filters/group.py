"""Many filters over one stream of messages: fields are read once, and text is looked up instead of compared.

For each message `compile_group` gives the numbers of the filters that match. What a message costs then depends on the
filters that may match it rather than on all there are: every filter that has some field equal to a text, or in a list
of texts, waits under this text in a dictionary, and the rest of it is evaluated only when a message has it. What was
tried and measured: docs/decisions/0010-filters.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from gateway.filters.access import MALFORMED, Access, Reader
from gateway.filters.closure import compile_filter, conjuncts, extraction, screen_of, truth
from gateway.filters.leaves import Slots, Test
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
    alone = [compile_filter(predicate, access) for predicate in predicates]
    screens = [screen_of(predicate, access) for predicate in predicates]
    if len(alone) == 1 or (len(alone) <= _FEW and None not in screens):
        return lambda source: [number for number, matches in enumerate(alone) if matches(source)]
    slots, read = extraction([field for predicate in predicates for field in fields_of(predicate)], access)
    return _grouped(read, *_arranged(predicates, slots), alone)


Waiting = list[tuple[int, Test]]
"""Numbers of filters, and what is still to be true."""


def _grouped(
    read: Reader[S], indexes: list[tuple[int, dict[str, Waiting]]], others: Waiting, alone: list[Callable[[S], bool]]
) -> Group[S]:
    nothing: Waiting = []

    def matching(source: S) -> list[int]:
        try:
            values = read(source)
            found = [number for number, test in others if test(values)]
            for slot, waiting in indexes:
                value = values[slot]
                if type(value) in TEXTS:
                    found += [number for number, test in waiting.get(value, nothing) if test(values)]
        except MALFORMED:  # perhaps a field that only some of them name
            return [number for number, matches in enumerate(alone) if matches(source)]
        found.sort()
        return found

    return matching


def _arranged(predicates: Sequence[Predicate], slots: Slots) -> tuple[list[tuple[int, dict[str, Waiting]]], Waiting]:
    """The filters with a text, by the field and the text, and all others; equal tests are one function."""
    tests: dict[Predicate, Test] = {}
    indexes: dict[int, dict[str, Waiting]] = {}
    others: Waiting = []
    for number, predicate in enumerate(predicates):
        keyed = _keyed(predicate)
        rest = And(keyed.rest) if keyed else predicate
        test = tests.setdefault(rest, truth(rest, slots))
        if keyed is None:
            others.append((number, test))
            continue
        waiting = indexes.setdefault(slots[keyed.field.section, keyed.field.name], {})
        for text in keyed.texts:
            waiting.setdefault(text, []).append((number, test))
    return list(indexes.items()), others


def _keyed(predicate: Predicate) -> _Keyed | None:
    terms = conjuncts(predicate)
    for term in terms:
        found = _texts(term)
        if found is not None:
            return _Keyed(*found, tuple(other for other in terms if other is not term))
    return None


def _texts(term: Predicate) -> tuple[Field, frozenset[str]] | None:
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
