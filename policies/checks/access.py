"""Checks of the access entries of a scope: entries that can grant nothing, and user names that look like patterns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.model.scopes.access import AccessRule
from policies.parts.parts import PolicyPart, ScopeParts
from policies.text.diagnostics import Diagnostic
from policies.values.pattern_index import PatternIndex

_EVERYBODY: Final = "*"


def check_access(scope: ScopeParts) -> Iterator[Diagnostic]:
    """Warnings about each access entry of a scope."""
    for entry in scope.access:
        if entry.ok("who"):
            yield from _who(entry)
        if entry.ok("on") and scope.addresses and not scope.broken_rules:
            yield from _on(entry, scope.rules)


def _who(entry: PolicyPart[AccessRule]) -> Iterator[Diagnostic]:
    for name in entry.value.who:
        if name != _EVERYBODY and "*" in name:
            text = f'{name!r} is the name of one user, not a pattern: only "*" alone means everybody'
            yield Diagnostic((*entry.loc, "who"), text, warning=True)


def _on(entry: PolicyPart[AccessRule], rules: PatternIndex) -> Iterator[Diagnostic]:
    for pattern in entry.value.on:
        if "$" not in pattern.text and next(rules.meeting(pattern.shape), None) is None:
            text = f"grants nothing: no entry of addresses matches an address that {pattern.text} matches"
            yield Diagnostic((*entry.loc, "on"), text, warning=True)
