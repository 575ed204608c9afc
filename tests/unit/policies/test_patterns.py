"""Address patterns: what they match, what they refuse to be, and which of two hides the other."""

from __future__ import annotations

import pytest

from policies.values.pattern_index import PatternIndex
from policies.values.patterns import PatternError, parse_pattern, parse_template, routable


@pytest.mark.parametrize(
    ("pattern", "address", "captures"),
    [
        ("svc/echo", "svc/echo", {}),
        ("svc/{name}", "svc/echo", {"name": "echo"}),
        ("svc/{name}", "svc/..", {"name": ".."}),
        ("svc/{name}", "svc/%2e%2e", {"name": "%2e%2e"}),
        ("svc/{name}", "svc/*", {"name": "*"}),
        ("orders-{n}/in", "orders-7/in", {"n": "7"}),
        ("{a}/x/{b}", "1/x/2", {"a": "1", "b": "2"}),
        ("svc/*", "svc/a", {}),
        ("chat/**", "chat", {}),
        ("chat/**", "chat/a/b//c", {}),
        ("chat/{room}/**", "chat/a/b", {"room": "a"}),
        ("**", "anything/at all", {}),
        ("a.c", "a.c", {}),
        ("/queue/{q}", "/queue/x", {"q": "x"}),
    ],
)
def test_matches(pattern: str, address: str, captures: dict[str, str]) -> None:
    assert parse_pattern(pattern).match(address) == captures


@pytest.mark.parametrize(
    ("pattern", "address"),
    [
        ("svc/{name}", "svc"),
        ("svc/{name}", "svc/"),
        ("svc/{name}", "svc/a/b"),
        ("svc/*", "svc//"),
        ("chat/**", "chats"),
        ("a.c", "abc"),
        ("svc/echo", "svc/*"),
        ("svc/echo", "SVC/echo"),
        ("orders-{n}", "orders-"),
        ("svc/a", "svc/%61"),
        ("svc/a", "svc/b/../a"),
    ],
)
def test_does_not_match(pattern: str, address: str) -> None:
    assert parse_pattern(pattern).match(address) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/**/b",
        "a**",
        "x*",
        "{",
        "{}",
        "{1a}",
        "{a}{b}",
        "{a}/{a}",
        "a\nb",
        "\u0000",
        "x" * 1025,
        5,
        None,
        "a}",
    ],
)
def test_refuses_to_be_a_pattern(text: object) -> None:
    with pytest.raises(PatternError):
        parse_pattern(text)


@pytest.mark.parametrize("address", ["", "a\x00b", "a\nb", "a\x7f", "a\x85", "\u2028", "\ud800", "x" * 1025])
def test_no_pattern_is_asked_about_a_hostile_address(address: str) -> None:
    assert not routable(address)


@pytest.mark.parametrize(
    ("earlier", "later", "covers"),
    [
        ("**", "a/{b}", True),
        ("a/**", "a", True),
        ("a/**", "a/b/c", True),
        ("a/{x}", "a/{y}", True),
        ("a/*", "a/b", True),
        ("a/o-{x}", "a/o-1", True),
        ("a/{x}", "a/o-{y}", True),
        ("a/o-{x}", "a/{y}", False),
        ("a/*", "a/**", False),
        ("a/b", "a/{x}", False),
        ("a/{x}", "a", False),
        ("a/b/**", "a/**", False),
        ("b/**", "a/b", False),
    ],
)
def test_an_earlier_pattern_covers_a_later_one(earlier: str, later: str, covers: bool) -> None:
    index = PatternIndex([(7, parse_pattern(earlier))])
    assert index.covering(parse_pattern(later)) == (7 if covers else None)


def test_templates_fill_captures_literally() -> None:
    template = parse_template("services/{name}/{name}-in")
    assert template.names == ("name", "name")
    assert template.fill({"name": "{name}"}) == "services/{name}/{name}-in"


@pytest.mark.parametrize("text", ["", "{", "a/*", "a/**", "{a", "a\tb", 7])
def test_refuses_to_be_a_template(text: object) -> None:
    with pytest.raises(PatternError):
        parse_template(text)
