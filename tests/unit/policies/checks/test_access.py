"""What `check` says of entries of `access` that grant nothing, of words of other products, and of topics."""

from __future__ import annotations

import pytest

from policies.values.pattern_index import PatternIndex
from policies.values.patterns import parse_pattern
from tests.support.gateway.policy import load_text, mistakes

ADDRESSES = "[{match: 'q/**', direct: balanced}, {match: 'e/{t}', direct: balanced}]"


def warnings(access: str, addresses: str = ADDRESSES) -> str:
    """The warnings of a scope with these entries."""
    policy = load_text(f"scopes: {{edge: {{addresses: {addresses}, access: [{access}]}}}}")
    return "\n".join(str(warning) for warning in policy.warnings)


def mistake(text: str) -> str:
    """The only mistake of a policy."""
    (problem,) = mistakes(text)
    return problem


@pytest.mark.parametrize("pattern", ["r/**", "e/x/y", "r", "e", "e/x/y/**", "x-{n}"])
def test_a_grant_that_matches_no_address_is_a_warning(pattern: str) -> None:
    found = warnings(f"{{may: send, on: '{pattern}'}}")
    assert f"access[0].on: grants nothing: no entry of addresses matches an address that {pattern} matches" in found


@pytest.mark.parametrize("pattern", ["**", "q", "q/**", "q/a/b", "e/x", "e/{x}", "{a}/x", "*/*", "$replies.edge/**"])
def test_a_grant_that_may_match_is_not(pattern: str) -> None:
    assert warnings(f"{{may: send, on: '{pattern}'}}") == ""


def test_a_scope_without_addresses_is_not_examined() -> None:
    assert "grants nothing" not in warnings("{may: send, on: 'r/**'}", "[]")


def test_a_user_is_no_pattern() -> None:
    assert "'bob*' is the name of one user, not a pattern" in warnings("{who: 'bob*', may: send, on: 'q/**'}")
    assert warnings("{who: ['*', bob], may: send, on: 'q/**'}") == ""


@pytest.mark.parametrize(
    ("word", "meant"),
    [("read", "receive"), ("write", "send"), ("all", "[send, receive]"), ("Consume", "receive"), ("sned", "send")],
)
def test_words_of_other_products_are_understood(word: str, meant: str) -> None:
    found = mistake(f"scopes: {{edge: {{access: [{{may: {word}}}]}}}}")
    assert f"not one of the values allowed here; did you mean {meant}? (allowed: send, receive" in found


@pytest.mark.parametrize("topic", ["a b", "$x", "..", "t-{n}!", "x" * 250])
def test_a_topic_that_kafka_cannot_have_is_a_mistake(topic: str) -> None:
    rule = f"{{match: 'm/{{n}}', kafka: k, topic: '{topic}'}}"
    found = mistake(f"kafka: {{k: }}\nscopes: {{edge: {{addresses: [{rule}]}}}}")
    assert f"addresses[0].topic: Kafka allows no topic {topic}" in found


@pytest.mark.parametrize("name", [".", ".."])
def test_an_embedded_topic_that_kafka_cannot_have_is_a_mistake(name: str) -> None:
    assert "Kafka allows no topic of this name" in mistake(
        f"kafka: {{k: {{bootstrap: embedded, topics: {{'{name}': 1}}}}}}\nscopes: {{edge: }}"
    )


def test_a_topic_without_a_cluster_says_so() -> None:
    assert "topic needs kafka, the name of a cluster" in mistake("scopes: {edge: {addresses: [{match: a, topic: t}]}}")


def test_a_connector_of_another_scope_is_named() -> None:
    far = "core: {connect: [{name: far, to: 'amqps://h'}]}"
    found = mistake(f"scopes: {{edge: {{addresses: [{{match: a, relay: far, replies: none}}]}}, {far}}}")
    assert "far is a connector of scope core: relay to core, and there to far" in found


def test_an_empty_file_says_where_to_start() -> None:
    for text in ("", "# nothing\n"):
        assert mistake(text).endswith("the file is empty; start from policies/examples, or see docs/policy.md")


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [("a/**", "a", True), ("a/**", "b", False), ("a/{x}", "a/b/c", False), ("pre-{n}", "{n}-post", True),
     ("pre-{n}", "post-{n}", False), ("a/{x}/**", "a", False)],
)  # fmt: skip
def test_patterns_that_some_address_matches_meet(one: str, other: str, meets: bool) -> None:
    for first, second in ((one, other), (other, one)):
        found = PatternIndex([(7, parse_pattern(first))]).meeting(parse_pattern(second).shape)
        assert list(found) == [7] * meets
