"""Limits of responses in the policy: uses, rate and size of cookies, and what check and explain say of them."""

from __future__ import annotations

import pytest

from policies.explain.explanation import explain
from policies.rules import CompiledPolicy, RelayRoute
from policies.values.units import Rate, parse_rate
from tests.support.gateway.policy import load_text, mistakes

POLICY = """
gateway: {{state: "{state}"}}
keys: {{active: one, ring: {{one: {{env: K}}}}{keys}}}
scopes:
  edge:
    addresses:
      - {{match: "a/**", relay: core{replies}}}
      - {{match: "b/**", relay: core, replies: rewrite}}
    access: [{{may: [send, receive]}}]
  core:
    addresses: [{{match: "**", direct: balanced}}]{core}
"""
REDIS = "redis://127.0.0.1:6379/0"


def policy(replies: str = "", keys: str = "", core: str = "", state: str = REDIS) -> CompiledPolicy:
    return load_text(POLICY.format(replies=replies, keys=keys, core=core, state=state), with_secrets=False)


@pytest.mark.parametrize(
    ("replies", "mode", "uses"),
    [
        ("", "auto", None),
        (", replies: cookie", "cookie", None),
        (", replies: {uses: 1}", "auto", 1),
        (", replies: {mode: rewrite, uses: 1000}", "rewrite", 1000),
        (", replies: ", "auto", None),
    ],
)
def test_a_rule_says_how_many_responses_its_requests_may_have(replies: str, mode: str, uses: int | None) -> None:
    route = policy(replies).scopes["edge"].route("a/x")
    assert isinstance(route, RelayRoute)
    assert (route.replies, route.uses) == (mode, uses)


def test_links_are_judged_anew_when_the_limit_changes() -> None:
    routes = [policy(f", replies: {{uses: {uses}}}").scopes["edge"].route("a/x") for uses in (1, 1, 2)]
    assert routes[0] == routes[1] != routes[2]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"replies": ", replies: often"}, "replies.mode: not one of the values allowed here (allowed: auto, cookie,"),
        ({"replies": ", replies: {uses: 0}"}, "replies.uses: must be at least 1"),
        ({"replies": ", replies: {uses: 1001}"}, "replies.uses: must be at most 1000"),
        ({"replies": ", replies: {rate: 5/s}"}, "replies.rate: unknown key (allowed: mode, uses)"),
        ({"replies": ", replies: {mode: none, uses: 1}"}, "replies.uses: replies: none routes no responses"),
        ({"keys": ", max_cookie: 100B"}, "keys.max_cookie: must be at least 384B"),
        ({"keys": ", max_cookie: 8KiB"}, "keys.max_cookie: must be at most 4KiB"),
        ({"core": "\n    response_rate: 100"}, 'core.response_rate: needs a whole number and a time, like "100/s"'),
        ({"core": "\n    response_rate: 0/s"}, "core.response_rate: needs a whole number and a time"),
    ],
)
def test_mistakes_name_their_place(wrong: dict[str, str], said: str) -> None:
    text = POLICY.format(**{"replies": "", "keys": "", "core": "", "state": REDIS, **wrong})
    (line,) = mistakes(text, environ={"K": "k" * 43})
    assert said in line


def test_state_that_others_do_not_see_is_a_warning() -> None:
    limits = {"replies": ", replies: {uses: 1}", "keys": ", max_cookie: 512B"}
    warnings = policy(**limits, state="memory").warnings
    assert [(warning.line, warning.key) for warning in warnings] == [
        (3, "keys.max_cookie"),
        (7, "scopes.edge.addresses[0].replies.uses"),
    ]
    assert all("gateway.state: memory" in warning.message for warning in warnings)
    assert policy(**limits).warnings == ()


@pytest.mark.parametrize(("text", "rate"), [("100/s", (100, 1000)), ("20/m", (20, 60_000)), ("5/h", (5, 3_600_000))])
def test_rates(text: str, rate: tuple[int, int]) -> None:
    assert parse_rate(text) == rate
    assert str(Rate(*rate)) == text


def test_explain_says_what_limits_responses() -> None:
    limited = policy(", replies: {uses: 2}", ", max_cookie: 512B", "\n    response_rate: 5/m")
    first = explain(limited, "edge", "ann", "a/x", "send")
    assert "replies auto, uses 2  (" in first.lines[1]
    said = "\n".join(first.replies)
    assert "cookies above 512 bytes are stored in gateway.state" in said
    assert f"at most 2 for each request (uses), counted in {REDIS}, for all gateways that share it" in said
    assert "at most 5/m from one user or connector of scope core (response_rate); more wait" in said
    alone = "\n".join(explain(policy(", replies: {uses: 2}", state="memory"), "edge", "ann", "a/x", "send").replies)
    assert "counted in memory, by this process alone" in alone
    assert "at most" not in "\n".join(explain(policy(), "edge", "ann", "b/x", "send").replies)


def test_explain_says_which_ids_bring_responses_back_from_a_container() -> None:
    core = '\n    connect: [{name: far, to: "amqp://127.0.0.1:1"%s}]\n'

    def places(replies: str) -> str:
        text = POLICY.replace('{{match: "**", direct: balanced}}', '{{match: "**", relay: far}}')
        made = text.format(replies="", keys="", core=core % replies, state=REDIS)
        return "\n".join(explain(load_text(made, with_secrets=False), "edge", "ann", "a/x", "send").replies)

    assert "ids: message-id" not in places("")
    said = places(", replies: {ids: message-id}")
    assert "where rewritten with the new message-id in correlation-id (ids: message-id)" in said
    assert "ids: message-id" in places(", replies: {address: queue, ids: message-id}")
