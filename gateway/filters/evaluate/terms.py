"""Compiles the terms of a predicate to functions of the fields' values that return true, false or `None` for unknown.

The functions never raise. Constants are analyzed at compile time, so that the common terms (a field against a constant)
cost one type check and one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from gateway.amqp.codec.codec import Array, MapKey, Value, ValueMap, encode
from gateway.filters import like
from gateway.filters.evaluate.access import ABSENT, Slotted
from gateway.filters.predicate import (
    Affix,
    Compare,
    Comparison,
    Constant,
    Exists,
    FieldReference,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    MessageSection,
    Negative,
    Positive,
    Predicate,
    Text,
    Truth,
    ValueExpression,
)
from gateway.filters.values import (
    INTEGERS,
    TEXTS,
    Compared,
    calculator,
    comparer,
    folded,
    frozen,
    matcher,
    negative,
    positive,
)

Values = Sequence[Value] | Slotted
Test = Callable[[Values], bool | None]
Get = Callable[[Values], Value]
Slots = Mapping[tuple[MessageSection, str], int]
"""The index in `Values` of each entry of a section."""

LONGEST_PATTERN: Final = 4096
"""The maximum length of a pattern that is a field of a message: compiling it takes time for each message."""
_MIRRORED: Final = {
    Comparison.EQ: Comparison.EQ,
    Comparison.NE: Comparison.NE,
    Comparison.LT: Comparison.GT,
    Comparison.LE: Comparison.GE,
    Comparison.GT: Comparison.LT,
    Comparison.GE: Comparison.LE,
}


def leaf(predicate: Predicate, slots: Slots) -> Test:
    """Compile a term; `predicate` is not an And, Or, Not or IsTrue."""
    return _LEAVES[type(predicate)](predicate, slots)


# -- values


def value(node: ValueExpression, slots: Slots) -> Get:
    """Compile an expression to a function of the values of the fields."""
    if isinstance(node, Literal):
        constant = node.value
        return lambda values: constant
    if isinstance(node, FieldReference):
        return _field(node, slots)
    if isinstance(node, Negative):
        inner = value(node.value, slots)
        return lambda values: negative(inner(values))
    if isinstance(node, Positive):
        number = value(node.value, slots)
        return lambda values: positive(number(values))
    calculate, left, right = calculator(node.operator), value(node.left, slots), value(node.right, slots)
    return lambda values: calculate(left(values), right(values))


def _field(node: FieldReference, slots: Slots) -> Get:
    get: Get = itemgetter(slots[node.section, node.name])
    for step in node.path:
        get = _key_step(get, step) if isinstance(step, str) else _index_step(get, value(step, slots))
    return get


def _key_step(get: Get, key: str) -> Get:
    wrapped = MapKey(key, encode(key.encode(errors="replace").decode()))  # no message has a lone surrogate

    def step(values: Values) -> Value:
        found = get(values)
        if type(found) is not dict or key not in found:
            return ABSENT
        if wrapped in found:  # wrapped: an equal Python key came first; strings take precedence over symbols
            return found[wrapped]
        return found[key] if len(key) > 1 else _short_entry(found, key)

    return step


def _short_entry(entries: ValueMap, key: str) -> Value:
    """The entry of a key of at most one character: a key of type char compares equal in Python but is another key."""
    for name, item in entries.items():
        name = name.value if type(name) is MapKey else name
        if name == key and type(name) in TEXTS:
            return item
    return ABSENT


def _index_step(get: Get, index: Get) -> Get:
    def step(values: Values) -> Value:
        found, at = get(values), index(values)
        items = found.items if type(found) is Array else found if type(found) is list else ()
        return items[at] if type(at) in INTEGERS and 0 <= at < len(items) else ABSENT

    return step


# -- SQL terms


def _constant(node: Constant, slots: Slots) -> Test:
    result = node.value
    return lambda values: result


def _truth(node: Truth, slots: Slots) -> Test:
    get = value(node.value, slots)

    def test(values: Values) -> bool | None:
        found = get(values)
        return found if found is True or found is False else None

    return test


def _compare(node: Compare, slots: Slots) -> Test:
    left, right, comparison = node.left, node.right, node.comparison
    if isinstance(left, Literal):
        left, right, comparison = right, left, _MIRRORED[comparison]
    get = value(left, slots)
    if isinstance(right, Literal):
        return _with_constant(comparison, get, right.value)
    other, compare = value(right, slots), comparer(comparison)
    return lambda values: compare(get(values), other(values))


def _with_constant(comparison: Comparison, get: Get, constant: Value) -> Test:
    """Compare texts and integers with a constant of the same type family directly, all else by the general rules."""
    compare = comparer(comparison)
    types = TEXTS if type(constant) in TEXTS else INTEGERS if type(constant) in INTEGERS else None
    if types is None:
        return lambda values: compare(get(values), constant)
    return _TYPED[comparison](get, constant, types, compare)


def _eq(get: Get, constant: Value, types: frozenset[type], other: Compared) -> Test:
    return lambda values: found == constant if type(found := get(values)) in types else other(found, constant)


def _ne(get: Get, constant: Value, types: frozenset[type], other: Compared) -> Test:
    return lambda values: found != constant if type(found := get(values)) in types else other(found, constant)


def _lt(get: Get, constant: Value, types: frozenset[type], other: Compared) -> Test:
    return lambda values: found < constant if type(found := get(values)) in types else other(found, constant)


def _le(get: Get, constant: Value, types: frozenset[type], other: Compared) -> Test:
    return lambda values: found <= constant if type(found := get(values)) in types else other(found, constant)


def _gt(get: Get, constant: Value, types: frozenset[type], other: Compared) -> Test:
    return lambda values: found > constant if type(found := get(values)) in types else other(found, constant)


def _ge(get: Get, constant: Value, types: frozenset[type], other: Compared) -> Test:
    return lambda values: found >= constant if type(found := get(values)) in types else other(found, constant)


_TYPED: Final = {
    Comparison.EQ: _eq,
    Comparison.NE: _ne,
    Comparison.LT: _lt,
    Comparison.LE: _le,
    Comparison.GT: _gt,
    Comparison.GE: _ge,
}


def _is_null(node: IsNull, slots: Slots) -> Test:
    get = value(node.value, slots)

    def test(values: Values) -> bool:
        found = get(values)
        return found is None or found is ABSENT

    return test


def _exists(node: Exists, slots: Slots) -> Test:
    get = value(node.field, slots)
    return lambda values: get(values) is not ABSENT


def _in(node: In, slots: Slots) -> Test:
    constants = [item.value for item in node.items if isinstance(item, Literal)]
    get = value(node.value, slots)
    slow = _any_equal(get, [value(item, slots) for item in node.items])
    if len(constants) < len(node.items):
        return slow
    if all(type(constant) is str for constant in constants):
        return _in_set(get, frozenset(constants), TEXTS, lambda values: None)
    if all(type(constant) is int for constant in constants):
        return _in_set(get, frozenset(constants), INTEGERS, slow)
    return slow


def _in_set(get: Get, constants: frozenset[Value], types: frozenset[type], other: Test) -> Test:
    def test(values: Values) -> bool | None:
        found = get(values)
        return found in constants if type(found) in types else other(values)

    return test


def _any_equal(get: Get, items: list[Get]) -> Test:
    equal = comparer(Comparison.EQ)

    def test(values: Values) -> bool | None:
        found, result = get(values), False
        for item in items:
            same = equal(found, item(values))
            if same:
                return True
            if same is None:
                result = None  # type: ignore[assignment]
        return result

    return test


def _like(node: Like, slots: Slots) -> Test:
    get, pattern = _short(value(node.value, slots), node.longest), node.pattern
    escape = Literal(None) if node.escape is None else node.escape
    if isinstance(pattern, Literal) and isinstance(escape, Literal):
        return _like_constant(get, _pattern(pattern.value, escape.value, node.escape is not None))
    get_pattern, get_escape, escaped = value(pattern, slots), value(escape, slots), node.escape is not None

    def test(values: Values) -> bool | None:
        pattern = get_pattern(values)
        if type(pattern) in TEXTS and len(pattern) > LONGEST_PATTERN:
            return None
        matches, text = _pattern(pattern, get_escape(values), escaped), get(values)
        return matches(text) if matches is not None and type(text) in TEXTS else None

    return test


def _short(get: Get, longest: int | None) -> Get:
    """The value; null if it is a text that is too long to be searched."""
    if longest is None:
        return get

    def short(values: Values) -> Value:
        found = get(values)
        if type(found) in TEXTS and len(found) > longest:
            UNSEARCHED.texts += 1
            return None
        return found

    return short


class _Unsearched:
    """The number of texts that were too long for LIKE, and so taken as null, since the process started."""

    texts = 0


UNSEARCHED: Final = _Unsearched()


def _like_constant(get: Get, matches: Callable[[str], bool] | None) -> Test:
    if matches is None:
        return lambda values: None

    def test(values: Values) -> bool | None:
        text = get(values)
        return matches(text) if type(text) in TEXTS else None

    return test


def _pattern(pattern: Value, escape: Value, escaped: bool) -> Callable[[str], bool] | None:
    if type(pattern) not in TEXTS or (escaped and type(escape) not in TEXTS):
        return None
    return like.compiled(pattern, escape if escaped else None)


# -- elements of property filters


def _matches(node: Matches, slots: Slots) -> Test:
    get, reference = value(node.field, slots), frozen(node.reference)
    if type(reference) in TEXTS:
        return _strict(get, reference, TEXTS)
    if type(reference) in INTEGERS:
        return _strict(get, reference, INTEGERS)
    match = matcher(reference)
    return lambda values: match(get(values))


def _strict(get: Get, reference: Value, types: frozenset[type]) -> Test:
    def test(values: Values) -> bool:
        found = get(values)
        return type(found) in types and found == reference

    return test


def _text(node: Text, slots: Slots) -> Test:
    get, fold = value(node.field, slots), folded if node.fold else str
    operand, part = fold(node.operand), _PARTS[node.affix](len(node.operand))

    def test(values: Values) -> bool:
        found = get(values)
        return type(found) in TEXTS and fold(found[part]) == operand

    return test


_PARTS: Final[dict[Affix, Callable[[int], slice]]] = {
    Affix.PREFIX: lambda size: slice(size),
    Affix.SUFFIX: lambda size: slice(-size, None) if size else slice(0),
    Affix.WHOLE: lambda size: slice(size + 1),
}
"""The slice of a text that is compared with an operand of `size` characters; folding preserves lengths."""
_LEAVES: Final[dict[type, Callable[..., Test]]] = {
    Constant: _constant,
    Truth: _truth,
    Compare: _compare,
    IsNull: _is_null,
    Exists: _exists,
    In: _in,
    Like: _like,
    Matches: _matches,
    Text: _text,
}
