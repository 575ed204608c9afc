"""Compares JSON with the dataclass that it is read into, so that an error names the field. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Final, TypeAlias, get_args, get_origin, get_type_hints

TypeForm: TypeAlias = object
"""A class, or a type such as `int | None` or `tuple[Range, ...]`."""
_SHOWN: Final = 40


def misfits(value: object, kind: TypeForm, renamed: Mapping[str, str], place: str = "") -> Iterator[str]:
    """What in a value of JSON does not fit a type; `renamed`: keys of fields that have another name in JSON."""
    if isinstance(kind, UnionType) and value is not None:
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    origin: TypeForm = get_origin(kind)
    if is_dataclass(kind):
        yield from _object(value, kind, renamed, place)
    elif origin is tuple:
        yield from _list(value, get_args(kind)[0], renamed, place)
    elif origin is Mapping:
        of = get_args(kind)[1]
        if not isinstance(value, dict) or not all(_fits(each, of) for each in value.values()):
            yield _text(value, f"an object with values of type {_name(of)}", place)
    elif not _fits(value, kind):
        yield _text(value, _name(kind), place)


def _list(value: object, kind: TypeForm, renamed: Mapping[str, str], place: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield _text(value, "a list", place)
        return
    for number, each in enumerate(value):
        yield from misfits(each, kind, renamed, f"{place}[{number}]")


def _object(value: object, kind: TypeForm, renamed: Mapping[str, str], place: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _text(value, "an object", place)
        return
    before, own = f"{place}." if place else "", _fields(kind)
    known = 0
    for field, hint, plain in own:
        name = renamed.get(field.name, field.name)
        if name in value:
            known += 1
            if type(value[name]) not in plain:  # manifests have thousands of plain values
                yield from misfits(value[name], hint, renamed, before + name)
        elif field.default is MISSING and field.default_factory is MISSING:
            yield f"{before}{name} is missing"
    if known < len(value):
        names = {renamed.get(field.name, field.name) for field, _, _ in own}
        yield from (f"{before}{name} is unknown" for name in value if name not in names)


@cache
def _fields(kind: TypeForm) -> tuple[tuple[Field[object], TypeForm, tuple[type, ...]], ...]:
    """The fields of a dataclass, their types, and the classes of their values, unless these have parts."""
    assert is_dataclass(kind)
    hints = get_type_hints(kind)
    return tuple((each, hints[each.name], _classes(hints[each.name])) for each in fields(kind))


def _classes(kind: TypeForm) -> tuple[type, ...]:
    given = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return tuple(each for each in given if each in (int, str, NoneType))


def _fits(value: object, kind: TypeForm) -> bool:
    """Whether a value is of a class; a null, of a type with None."""
    if isinstance(kind, UnionType):
        return value is None
    return type(value) is kind


def _name(kind: TypeForm) -> str:
    return str(getattr(kind, "__name__", kind))


def _text(value: object, wanted: str, place: str) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return f"{place or 'it'} has to be {wanted}, not {shown}"
