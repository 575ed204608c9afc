"""The query of a request: where a page begins, how long it is, and which items belong to it; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

PAGE: Final = 100
"""Items of a page."""
MAX_PAGE: Final = 1000
_DIGITS: Final = 15


class BadQuery(Exception):
    """A parameter of the query, or an id, that cannot be used; the text names it and what is allowed."""


class Parameters(Protocol):
    """What is used of a query, in which a name may be repeated."""

    def multi_items(self) -> list[tuple[str, str]]: ...


class PageQuery(NamedTuple):
    """A page of a list: the items after `after`, at most `limit`."""

    after: tuple[int, ...]
    limit: int


def page_of(query: Mapping[str, str], parts: int) -> PageQuery:
    """The page that a query asks for; an id of its list has `parts` numbers. Raises BadQuery."""
    limit = query.get("limit", str(PAGE))
    if not _is_number(limit) or not 1 <= int(limit) <= MAX_PAGE:
        raise BadQuery(f"limit: a number from 1 to {MAX_PAGE} (default {PAGE})")
    after = query.get("after")
    return PageQuery((0,) * parts if after is None else numbers_of(after, parts), int(limit))


def numbers_of(text: str, parts: int) -> tuple[int, ...]:
    """The numbers of an id like `17` or `17.3`. Raises BadQuery."""
    found = text.split(".")
    if len(found) != parts or not all(map(_is_number, found)):
        example = ".".join(("17", "3")[:parts])
        raise BadQuery(f"an id here is like {example}, as the list shows it")
    return tuple(map(int, found))


def check_names(query: Parameters, allowed: Iterable[str]) -> None:
    """Refuse parameters that nobody reads: a mistyped filter must not show everything. Raises BadQuery."""
    names, given = [*allowed], set[str]()
    for name, _ in query.multi_items():
        if name not in names:
            raise BadQuery(f"{name[:50]!r}: unknown parameter; allowed: {', '.join(names) or 'none'}")
        if name in given:
            raise BadQuery(f"{name}: given twice; give it once")
        given.add(name)


def flag(query: Mapping[str, str], name: str) -> bool:
    """A parameter that is `true` or `false`; absent is false. Raises BadQuery."""
    value = query.get(name, "false")
    if value not in ("true", "false"):
        raise BadQuery(f"{name}: true or false")
    return value == "true"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS
