"""Compiles predicates to Python closures, which are built when a link attaches and called for every message (FX-2-1).

`compile_filter` takes a predicate and the `Access` to one kind of source, and returns a function that tests whether a
source matches. The function never raises, whatever the source contains, and reads only the fields of the predicate.

A predicate is compiled to two tests, "is it true" and "is it false"; if neither holds, it is unknown. So no
three-valued arithmetic is needed, and both tests stop at the first operand that decides the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from gateway.amqp.codec.types import Value
from gateway.filters.evaluate.access import MALFORMED, Access, Reader
from gateway.filters.evaluate.prefilter import required_bytes
from gateway.filters.evaluate.terms import Slots, Test, Values, leaf
from gateway.filters.predicate import And, FieldReference, IsTrue, MessageSection, Not, Or, Predicate, fields_of

S = TypeVar("S")


def compile_filter(predicate: Predicate, access: Access[S]) -> Callable[[S], bool]:
    """A function that tests whether a source matches, that is, whether the predicate is true (FX-2-1). It never raises.

    A source does not match if one of the named fields cannot be decoded, whatever the filter says about that field.
    """
    prefilter = prefilter_of(predicate, access)
    matches = _stepwise([_stage(part, access) for part in _stages(conjuncts(predicate))])
    if prefilter is None:
        return matches
    return lambda source: prefilter(source) and matches(source)


def _stepwise(stages: list[tuple[Reader[S], Test]]) -> Callable[[S], bool]:
    if len(stages) == 1:
        return _single(*stages[0])

    def matches(source: S) -> bool:
        try:
            for read, test in stages:
                if not test(read(source)):
                    return False
        except MALFORMED:
            return False
        return True

    return matches


def _single(read: Reader[S], test: Test) -> Callable[[S], bool]:
    def matches(source: S) -> bool:
        try:
            return True if test(read(source)) else False  # noqa: SIM210  # bool() is a call
        except MALFORMED:
            return False

    return matches


def prefilter_of(predicate: Predicate, access: Access[S]) -> Callable[[S], bool] | None:
    """A test for the longest text that every matching source contains; `None`: no such text is known."""
    known = [found for found in map(required_bytes, conjuncts(predicate)) if found is not None]
    known.sort(key=lambda found: min(map(len, found[1])) / len(found[1]), reverse=True)
    return next((test for test in (access.prefilter(*found) for found in known) if test is not None), None)


def sections_of(predicate: Predicate) -> frozenset[MessageSection]:
    """The sections that a predicate reads."""
    return frozenset(field.section for field in fields_of(predicate))


def _stage(predicate: Predicate, access: Access[S]) -> tuple[Reader[S], Test]:
    slots, read = extraction(fields_of(predicate), access)
    return read, truth(predicate, slots)


def _stages(terms: list[Predicate]) -> list[Predicate]:
    """Group the terms for evaluation in turn: one group for each section, then the terms that read several sections."""
    parts: dict[MessageSection | None, list[Predicate]] = {}
    for item in terms:
        sections = sections_of(item)
        parts.setdefault(next(iter(sections)) if len(sections) == 1 else None, []).append(item)
    shared = parts.pop(None, [])
    return [And(tuple(items)) for items in (*parts.values(), shared) if items] or [And(())]


def conjuncts(predicate: Predicate) -> list[Predicate]:
    """The predicates that must all be true for `predicate` to be true."""
    if isinstance(predicate, IsTrue):
        return conjuncts(predicate.item)
    if isinstance(predicate, And):
        return [term for item in predicate.items for term in conjuncts(item)]
    return [predicate]


# -- fields


def extraction(fields: Sequence[FieldReference], access: Access[S]) -> tuple[Slots, Reader[S]]:
    """The slot of each entry, and one function that reads the values of all slots."""
    names: dict[MessageSection, dict[str, None]] = {}
    for field in fields:
        names.setdefault(field.section, {})[field.name] = None
    entries = [(section, name) for section, found in names.items() for name in found]
    readers = [access.reader(section, tuple(found)) for section, found in names.items()]
    return {entry: slot for slot, entry in enumerate(entries)}, _joined(readers)


def _joined(readers: list[Reader[S]]) -> Reader[S]:
    if len(readers) == 1:
        return readers[0]

    def read(source: S) -> Sequence[Value]:
        values: list[Value] = []
        for reader in readers:
            values += reader(source)
        return values

    return read


# -- truth and falsity


def truth(predicate: Predicate, slots: Slots) -> Test:
    """Test whether a predicate is true; for false and unknown the result is falsy, not always `False`."""
    if isinstance(predicate, And):
        return _every([truth(item, slots) for item in predicate.items])
    if isinstance(predicate, Or):
        return _some([truth(item, slots) for item in predicate.items])
    if isinstance(predicate, Not):
        return falsity(predicate.item, slots)
    if isinstance(predicate, IsTrue):
        return truth(predicate.item, slots)
    return leaf(predicate, slots)


def falsity(predicate: Predicate, slots: Slots) -> Test:
    """Test whether a predicate is false."""
    if isinstance(predicate, And):
        return _some([falsity(item, slots) for item in predicate.items])
    if isinstance(predicate, Or):
        return _every([falsity(item, slots) for item in predicate.items])
    if isinstance(predicate, Not):
        return truth(predicate.item, slots)
    test = truth(predicate, slots)
    if isinstance(predicate, IsTrue):
        return lambda values: not test(values)
    return lambda values: test(values) is False


def verdict(predicate: Predicate, slots: Slots) -> Test:
    """The three-valued result of a predicate: true, false, or `None` for unknown."""
    holds, fails = truth(predicate, slots), falsity(predicate, slots)
    return lambda values: True if holds(values) else False if fails(values) else None


def _every(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda values: first(values) and second(values)

    def test(values: Values) -> bool:
        for each in tests:  # noqa: SIM110  # a generator for each message costs more than the loop
            if not each(values):
                return False
        return True

    return test


def _some(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda values: first(values) or second(values)

    def test(values: Values) -> bool:
        for each in tests:  # noqa: SIM110
            if each(values):
                return True
        return False

    return test
