"""Property filters: a section's own type as reference, compared field by field (FX 4).

The header and the properties are lists of fields in their order; a map with the fields' names is read as well, as
later drafts and brokers write it (ledger A18). The other sections are maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.amqp.codec.types import Array, Described, Symbol, Ulong, Value
from gateway.errors import INVALID_FIELD, AmqpError, quoted
from gateway.filters.parse.limits import FilterLimits, exceeded
from gateway.filters.parse.sections import FAMILIES, FIXED
from gateway.filters.predicate import (
    TRUE,
    Affix,
    Exists,
    FieldReference,
    Matches,
    MessageSection,
    Predicate,
    Text,
    conjunction,
    numbered,
)
from gateway.filters.values import Family, family, frozen

_TEXTS: Final = (str, Symbol)
_ESCAPE: Final = "&"
_MODIFIERS: Final[dict[str, tuple[Affix, bool]]] = {
    "&S:": (Affix.SUFFIX, False),
    "&P:": (Affix.PREFIX, False),
    "&s:": (Affix.SUFFIX, True),
    "&p:": (Affix.PREFIX, True),
    "&i:": (Affix.WHOLE, True),
}
"""Prefixes of a text reference, and whether each ignores case (FX-4-11 to -15)."""


def parse_properties(section: MessageSection, content: Value, limits: FilterLimits) -> Predicate:
    """The predicate of a property filter of `section` whose value is `content`.

    Raises AmqpError: INVALID_FIELD for a value that is no reference, RESOURCE_LIMIT_EXCEEDED for too many entries.
    """
    if _size(content) > limits.items:
        raise exceeded("the property filter has too many entries", limits.items)
    elements = [
        _element(FieldReference(section, name), reference, keyed=section not in FIXED)
        for name, reference in _references(section, content)
    ]
    given = tuple(element for element in elements if element is not None)
    return conjunction(given) if given else TRUE


def _references(section: MessageSection, content: Value) -> Iterator[tuple[str, Value]]:
    """The names and references in a list or map of fields."""
    fields = FIXED.get(section)
    if isinstance(content, dict):
        for key, reference in content.items():
            yield _name(section, key), reference
    elif fields is None or not isinstance(content, list):
        wanted = "a map" if fields is None else "a list of fields, or a map of them"
        raise _malformed(f"the value of a filter on the {section.value} must be {wanted}")
    elif len(content) > len(fields):
        raise _malformed(f"the {section.value} section has {len(fields)} fields, the filter has {len(content)}")
    else:
        yield from zip(fields, content, strict=False)


def _name(section: MessageSection, key: Value) -> str:
    if type(key) is Ulong and section in _ANNOTATIONS:
        return numbered(key)
    if type(key) not in _TEXTS:
        raise _malformed(f"a key of the filter must be a {_KEYS.get(section, 'symbol')}")
    name = str(key)
    if section in FIXED and name not in FIXED[section]:
        fields = ", ".join(FIXED[section])
        raise _malformed(f"the {section.value} section has no field {quoted(name)}; its fields are {fields}")
    return name


def _element(field: FieldReference, reference: Value, *, keyed: bool) -> Predicate | None:
    """The predicate of one reference; None: no condition. A map's entry requires at least the key (FX-4-6, -19)."""
    if reference is None:
        return Exists(field) if keyed else None
    if not keyed and family(reference) not in FAMILIES[field.name]:
        raise _malformed(
            f"{field.name} of the {field.section.value} section is {_types(field.name)}: no message matches a "
            f"reference of another type (FX 4)"
        )
    if type(reference) not in _TEXTS:
        return Matches(field, frozen(reference))
    text = str(reference)
    if not text.startswith(_ESCAPE):
        return Matches(field, text)
    if text.startswith(2 * _ESCAPE):
        return Matches(field, text[1:])
    if text[:3] not in _MODIFIERS:
        known = ", ".join(_MODIFIERS)
        raise _malformed(
            f"{quoted(text)} has an unknown modifier; use {known}, or && for text that begins with &"
        )
    affix, fold = _MODIFIERS[text[:3]]
    return Text(field, affix, text[3:], fold)


def _types(name: str) -> str:
    return " or ".join(_TYPE_TEXTS[each] for each in FAMILIES[name])


_TYPE_TEXTS: Final = {
    Family.BOOLEAN: "boolean",
    Family.INTEGER: "an integer",
    Family.TEXT: "text",
    Family.BINARY: "binary",
    Family.UUID: "uuid",
    Family.TIME: "a timestamp",
}
_ANNOTATIONS: Final = (MessageSection.MESSAGE_ANNOTATIONS, MessageSection.DELIVERY_ANNOTATIONS, MessageSection.FOOTER)
_KEYS: Final = {MessageSection.APPLICATION_PROPERTIES: "string"}


def _size(content: Value) -> int:
    """The number of entries at all depths."""
    count, stack = 0, [content]
    while stack:
        value = stack.pop()
        if isinstance(value, Described):
            stack.append(value.value)
        elif isinstance(value, list | dict | Array):
            inner = value.items if isinstance(value, Array) else value.values() if isinstance(value, dict) else value
            count += len(inner)
            stack.extend(inner)
    return count


def _malformed(why: str) -> AmqpError:
    return AmqpError(INVALID_FIELD, why)
