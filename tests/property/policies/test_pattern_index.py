"""The index of patterns finds what trying them one after the other finds, and tries few of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar, get_args
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from policies.access import AccessEntries, CompiledAccess, Grant
from policies.model.scopes.access import Action
from policies.text.diagnostics import PolicyLine
from policies.values.pattern_index import PatternIndex
from policies.values.patterns import Pattern, parse_pattern

T = TypeVar("T")
WORDS = st.sampled_from(["", "a", "b", "ab", "aab", "abab", "a*"])
SEGMENTS = st.sampled_from(["a", "b", "ab", "*", "{n}", "a{n}", "{n}b", "a{n}b", "ab{n}", "{n}ab", "aa{n}ab", ""])
USERS = st.sampled_from(["anna", "bert", "*"])
ACTIONS: tuple[Action, ...] = get_args(Action)


def numbered(parts: list[str], tail: str) -> str:
    """The segments as a pattern, each capture with a name of its own."""
    return "/".join([part.replace("{n}", f"{{n{at}}}") for at, part in enumerate(parts)] + tail.split())


texts = st.builds(numbered, st.lists(SEGMENTS, min_size=1, max_size=4), st.sampled_from(["", "**"])) | st.just("**")
patterns = texts.filter(bool).map(parse_pattern)
addresses = st.lists(WORDS, min_size=1, max_size=5).map("/".join).filter(bool)


def first(found: list[Pattern], address: str) -> int | None:
    return next((at for at, pattern in enumerate(found) if pattern.match(address) is not None), None)


@given(st.lists(patterns, max_size=12), addresses)
def test_the_first_pattern_that_matches_is_found(listed: list[Pattern], address: str) -> None:
    assert PatternIndex(enumerate(listed)).first(address) == first(listed, address)


@given(st.lists(patterns, min_size=1, max_size=12))
def test_the_example_of_each_pattern_is_found(listed: list[Pattern]) -> None:
    index = PatternIndex(enumerate(listed))
    assert [index.first(each.example()) for each in listed] == [first(listed, each.example()) for each in listed]


def covers(one: Pattern, other: Pattern) -> bool:
    return PatternIndex([(0, one)]).covering(other) == 0


def meets(one: Pattern, other: Pattern) -> bool:
    return list(PatternIndex([(0, one)]).meeting(other.shape)) == [0]


@given(st.lists(patterns, max_size=12), patterns, addresses)
def test_what_covers_a_pattern_matches_all_that_it_matches(
    listed: list[Pattern], pattern: Pattern, address: str
) -> None:
    found = PatternIndex(enumerate(listed)).covering(pattern)
    assert found == next((at for at, each in enumerate(listed) if covers(each, pattern)), None)
    assert covers(pattern, pattern)
    if found is not None:
        assert listed[found].match(pattern.example()) is not None
        assert pattern.match(address) is None or listed[found].match(address) is not None


@given(st.lists(patterns, max_size=12), patterns, addresses)
def test_patterns_that_match_a_common_address_meet(listed: list[Pattern], pattern: Pattern, address: str) -> None:
    found = list(PatternIndex(enumerate(listed)).meeting(pattern.shape))
    alike = [first_alike(listed, at) for at, each in enumerate(listed) if meets(each, pattern)]
    assert sorted(found) == sorted(set(alike))
    assert all(meets(pattern, listed[at]) for at in found)
    for one in listed:
        both = one.match(address) is not None and pattern.match(address) is not None
        assert meets(one, pattern) or not both


def first_alike(listed: list[Pattern], at: int) -> int:
    """The position of the first pattern that matches what this one matches."""
    return next(n for n, each in enumerate(listed) if covers(each, listed[at]) and covers(listed[at], each))


entries = st.builds(
    lambda who, may, on: (None if "*" in who else who, may, tuple(on)),
    st.frozensets(USERS, min_size=1),
    st.frozensets(st.sampled_from(ACTIONS), min_size=1),
    st.lists(patterns, min_size=1, max_size=3),
)


def granted(listed: list[CompiledAccess], user: str, action: str, address: str) -> Grant:
    """What trying the entries one after the other finds."""
    for entry in listed:
        may = action in entry.may or (action == "info" and bool(entry.may & {"send", "receive"}))
        if may and (entry.who is None or user in entry.who) and first(list(entry.on), address) is not None:
            return Grant(True, entry.where)
    return Grant(False)


users = st.sampled_from(["anna", "bert", "carl", "*"])


@given(st.lists(entries, max_size=8), users, st.sampled_from(ACTIONS), addresses, st.integers(0, 2))
def test_the_first_entry_that_grants_is_found(
    given_entries: list[tuple[frozenset[str] | None, frozenset[str], tuple[Pattern, ...]]],
    user: str,
    action: Action,
    address: str,
    few: int,
) -> None:
    listed = [
        CompiledAccess(who, may, on, PolicyLine("policy.yaml", at)) for at, (who, may, on) in enumerate(given_entries)
    ]
    with patch("policies.access._FEW", few):
        access, wanted = AccessEntries(listed), granted(listed, user, action, address)
        found = access.grant(user, action, address)
    assert (found, found.where) == (wanted, wanted.where)
    assert access.positions(user) == tuple(at for at, each in enumerate(listed) if each.who is None or user in each.who)


def test_what_a_search_does_does_not_grow_with_the_patterns() -> None:
    found = [f"tenants/t{at}/{{queue}}" for at in range(2_000)] + [f"t{at}-{{n}}/**" for at in range(2_000)]
    index = PatternIndex(enumerate(map(parse_pattern, found)))
    assert few_calls(lambda: index.first("tenants/t1999/orders")) == 1_999
    assert few_calls(lambda: index.first("t1999-x/y/z")) == 3_999
    assert few_calls(lambda: index.covering(parse_pattern("t1999-a{b}/c"))) == 3_999
    assert few_calls(lambda: list(index.meeting(parse_pattern("tenants/t7/**").shape))) == [7]
    users = [
        CompiledAccess(frozenset([f"u{at}", "ops"]), frozenset(["send"]), (parse_pattern(text),), PolicyLine("p", at))
        for at, text in enumerate(found)
    ]
    access = AccessEntries(users)
    assert few_calls(lambda: access.grant("u7", "send", "tenants/t7/orders")).allowed
    assert few_calls(lambda: access.grant("ops", "send", "t1999-x/y/z")).allowed
    assert few_calls(lambda: access.positions("u7")) == (7,)


def few_calls(search: Callable[[], T]) -> T:
    """What a search finds; it is an error if the search takes some hundred calls."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = search()
    finally:
        sys.setprofile(None)
    assert calls < 300, f"{calls} calls"  # a pattern is parsed in some of them
    return found
