"""What `explain` says of requests that cross a relay, and of their responses."""

from __future__ import annotations

import pytest

from policies.explain.explanation import explain
from tests.support.gateway.policy import load_text

REPLIES = """
keys: {active: a, ring: {a: {env: K}}, seal: %s, skew: 2s}
kafka: {main: {}}
scopes:
  edge:
    addresses:
      - {match: "auto/**", relay: core}
      - {match: "cookie/**", relay: core, replies: cookie}
      - {match: "rewrite/**", relay: core, replies: rewrite}
      - {match: "none/**", relay: core, replies: none}
      - {match: "off/**", relay: silent}
      - {match: "off-cookie/**", relay: silent, replies: cookie}
      - {match: "near/**", relay: here}
      - {match: "local", direct: balanced}
    connect: [{name: here, to: "amqp://127.0.0.1:1"}]
    access: [{may: [send, receive]}]
  core:
    connect: [{name: broker, to: "amqp://127.0.0.1:1"}]
    addresses:
      - {match: "auto/topic", kafka: main, topic: t}
      - {match: "cookie/topic", kafka: main, topic: t}
      - {match: "auto/queues/**", relay: broker}
      - {match: "**", direct: balanced}
  silent:
    response_routing: false
    addresses: [{match: "**", direct: balanced}]
"""
RECEIVER = (
    "the receiver's target announces response-address-supported and its open offers RESPONSE_ANNOTATIONS_V1_0"
)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("auto/x", f"requests  annotated where {RECEIVER}, otherwise rewritten (replies: auto)"),
        ("auto/queues/q", "requests  annotated where the target at the container behind broker announces"),
        ("auto/topic", "requests  rewritten: a topic stores no delivery annotations"),
        ("cookie/topic", "requests  annotated (replies: cookie): records of t have the headers amqp.response-"),
        ("cookie/x", f"requests  annotated where {RECEIVER}, otherwise rejected with amqp:not-implemented"),
        ("rewrite/x", "requests  rewritten (replies: rewrite)"),
        ("none/x", "requests  unchanged (replies: none)"),
        ("off/x", "requests  rewritten: scope silent has response_routing: false"),
        ("off-cookie/x", "requests  rejected with amqp:not-implemented: scope silent has response_routing: false"),
        ("near/x", "requests  unchanged: the container behind connector here is in this scope itself"),
    ],
)
def test_explain_says_how_requests_cross(address: str, said: str) -> None:
    answer = explain(load_text(REPLIES % "false", with_secrets=False), "edge", "ann", address, "send")
    assert answer.allowed
    assert answer.replies[0].startswith(said)
    assert [f"  {line}" for line in answer.replies] == [*answer.lines[-len(answer.replies) :]]


def test_explain_says_how_responses_come_home_and_with_which_key() -> None:
    policy = load_text(REPLIES % "true", with_secrets=False)
    _, keys, responses, right = explain(policy, "edge", "ann", "auto/x", "send").replies
    assert keys.strip() == "sealed with key a; a response may take 300 s and 2 s to allow for different clocks"
    assert "come to $replies.core with their cookie, or to $replies.core/<token>" in responses
    assert responses.endswith("go to the reply-to in scope edge")
    assert right.strip() == (
        "the reply-to has to be at **, where this user may send (or receive, but not at a topic), or a temporary node; "
        "else amqp:unauthorized-access"
    )
    assert "$replies.core/<token>," in explain(policy, "edge", "ann", "rewrite/x", "send").replies[2]
    for address, action in (("auto/x", "receive"), ("local", "send")):
        assert explain(policy, "edge", "ann", address, action).replies == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "requests", "responses"),
    [
        ("", "and that container offers RESPONSE_ANNOTATIONS_V1_0, otherwise rewritten", "a node that the container"),
        ("annotations: trust", "broker announces response-address-supported, whatever that container offers", "a node"),
        ("replies: {address: home}", "broker announces", "come to home at the container behind broker"),
        ("replies: {address: gateway}", "broker announces", "come to $replies.core with their cookie"),
        ("annotations: offered", "and that container offers RESPONSE_ANNOTATIONS_V1_0", "a node"),
        ("annotations: never", "rewritten: connector broker has annotations: never", "a node"),
    ],
)
def test_explain_says_what_a_connector_makes_of_it(more: str, requests: str, responses: str) -> None:
    broker = '{name: broker, to: "amqp://127.0.0.1:1"}'
    text = (REPLIES % "true").replace(broker, broker.replace("}", f", {more}}}") if more else broker)
    said = explain(load_text(text, with_secrets=False), "edge", "ann", "auto/queues/q", "send").replies
    assert requests in said[0]
    assert responses in said[2]


@pytest.mark.parametrize(
    ("listeners", "said"),
    [
        (["offered"], f"annotated where {RECEIVER}, otherwise"),
        (
            ["trust"],
            "annotated where the receiver's target announces response-address-supported, whatever its open offers, "
            "otherwise",
        ),
        (["never"], "rewritten: the listeners of scope core have annotations: never"),
        (
            ["offered", "trust", "never"],
            f"annotated where {RECEIVER} (at listener 127.0.0.1:2 whatever it offers: annotations: trust)"
            " (at listener 127.0.0.1:3 never: annotations: never), otherwise",
        ),
    ],
)
def test_explain_says_what_the_opens_of_clients_decide(listeners: list[str], said: str) -> None:
    wanted = (f'{{bind: "127.0.0.1:{n}", annotations: {each}}}' for n, each in enumerate(listeners, 1))
    core = "  core:\n"
    text = (REPLIES % "true").replace(core, f"{core}    listen: [{', '.join(wanted)}]\n")
    found = explain(load_text(text, with_secrets=False), "edge", "ann", "auto/x", "send").replies[0]
    assert found.startswith(f"requests  {said}")
