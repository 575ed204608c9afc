"""Checks of the access entries of a scope: entries that can grant nothing, and user names that look like patterns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.model.scopes.access import AccessRule
from policies.parts.parts import PolicyPart, ScopeParts
from policies.text.diagnostics import Diagnostic
from policies.values.patterns import Pattern, PatternShape, Segment

_EVERYBODY: Final = "*"


def check_access(scope: ScopeParts) -> Iterator[Diagnostic]:
    """Warnings about each access entry of a scope."""
    for entry in scope.access:
        if entry.ok("who"):
            yield from _who(entry)
        if entry.ok("on") and scope.addresses and all(rule.ok("match") for rule in scope.addresses):
            yield from _on(entry, [rule.value.match for rule in scope.addresses])


def _who(entry: PolicyPart[AccessRule]) -> Iterator[Diagnostic]:
    for name in entry.value.who:
        if name != _EVERYBODY and "*" in name:
            text = f'{name!r} is the name of one user, not a pattern: only "*" alone means everybody'
            yield Diagnostic((*entry.loc, "who"), text, warning=True)


def _on(entry: PolicyPart[AccessRule], rules: list[Pattern]) -> Iterator[Diagnostic]:
    for pattern in entry.value.on:
        if "$" not in pattern.text and not any(overlap(pattern, rule) for rule in rules):
            text = f"grants nothing: no entry of addresses matches an address that {pattern.text} matches"
            yield Diagnostic((*entry.loc, "on"), text, warning=True)


def overlap(one: Pattern | PatternShape, other: Pattern) -> bool:
    """Whether some address may match both patterns; False is certain, True is not."""
    mine, theirs = one.segments, other.segments
    if (len(mine) > len(theirs) and not other.rest) or (len(theirs) > len(mine) and not one.rest):
        return False
    return all(_meet(a, b) for a, b in zip(mine, theirs, strict=False))


def _meet(one: Segment, other: Segment) -> bool:
    if not (one.wild and other.wild):
        return one.covers(other) or other.covers(one)
    before = one.before.startswith(other.before) or other.before.startswith(one.before)
    return before and (one.after.endswith(other.after) or other.after.endswith(one.after))
