"""Which parts of a policy a reload changes, by their names; pure. Values stay out: the log is no place for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import BaseModel

    from policies.model.policy import Policy

MOST: Final = 20
"""Parts that are named; the others are counted."""
_NAMED: Final = ("kafka", "scopes")
"""Sections whose parts have names of the operator."""


def changed_parts(before: Policy, after: Policy) -> list[str]:
    """The names of what differs, as `gateway.drain`, `kafka.main`, `scopes.edge.access` or `scopes.core (new)`."""
    found = sorted(_changes(before, after))
    return found if len(found) <= MOST else [*found[:MOST], f"and {len(found) - MOST} more"]


def _changes(before: Policy, after: Policy) -> Iterator[str]:
    for section in type(after).model_fields:
        old, new = getattr(before, section), getattr(after, section)
        if old == new:
            continue
        if section in _NAMED:
            yield from _of_named(section, old, new)
        elif old is None or new is None:
            yield section
        else:
            yield from _of_section(section, old, new)


def _of_named(section: str, old: Mapping[str, BaseModel], new: Mapping[str, BaseModel]) -> Iterator[str]:
    for name in old.keys() | new.keys():
        where = f"{section}.{name}"
        if name not in old or name not in new:
            yield f"{where} ({'new' if name in new else 'removed'})"
        elif old[name] != new[name]:
            yield from _of_section(where, old[name], new[name]) if section == "scopes" else [where]


def _of_section(where: str, old: BaseModel, new: BaseModel) -> Iterator[str]:
    yield from (f"{where}.{key}" for key in type(new).model_fields if getattr(old, key) != getattr(new, key))
