"""Compiled rules: where addresses lead, who may use them, and the errors (KM-20, conformance 0.3)."""

from __future__ import annotations

import gc

import pytest

from policies.explain.explanation import explain
from policies.model.scopes.access import Action
from policies.model.scopes.assignment import Assignment
from policies.model.scopes.reading import LogReadingRule
from policies.rules import (
    CompiledAddress,
    CompiledPolicy,
    DirectRoute,
    KafkaRoute,
    RedirectRoute,
    RelayRoute,
    ScopeRules,
)
from policies.text.diagnostics import PolicyErrors, PolicyLine
from tests.support.gateway.policy import KEY, load_text

NOWHERE = PolicyLine("", 0)
POLICY = """
keys: {active: a, ring: {a: {env: K}}}
kafka: {main: }
scopes:
  edge:
    addresses:
      - {match: "events/{topic}", kafka: main, tombstones: true}
      - {match: "svc/{name}", relay: core, address: "services/{name}"}
      - {match: "far/**", relay: core, replies: none}
      - {match: "queues/**", relay: broker, replies: rewrite}
      - {match: "chat/**", direct: balanced}
      - {match: "news", direct: multicast}
      - {match: "moved/{name}", redirect: "amqps://there.example", address: "q/{name}", hostname: vhost}
      - {match: "gone/**", redirect: "amqp://there.example:5"}
      - {match: "beyond/**", relay: other, replies: none}
    connect: [{name: broker, to: "amqps://b", pull: [{from: incoming, to: chat/room}]}]
    access:
      - {who: [ann, bob], may: send, on: ["svc/*", "far/**"]}
      - {who: "*", may: [receive, info], on: "events/**"}
      - {who: ann, may: [send, receive], on: ["chat/**", "moved/**", "beyond/**"]}
  core:
    addresses: [{match: "services/**", direct: balanced}]
  other:
    addresses: [{match: "chat/**", direct: multicast}, {match: "beyond/**", redirect: "amqp://secret.example"}]
"""


@pytest.fixture(scope="module")
def policy() -> CompiledPolicy:
    return load_text(POLICY, environ={"K": KEY})


@pytest.mark.parametrize(
    ("address", "route"),
    [
        ("events/orders", KafkaRoute("main", "orders", Assignment(), "auto", 1000, True, LogReadingRule(), NOWHERE)),
        ("svc/echo", RelayRoute("core", None, "services/echo", "auto", NOWHERE)),
        ("svc/..", RelayRoute("core", None, "services/..", "auto", NOWHERE)),
        ("svc/{name}", RelayRoute("core", None, "services/{name}", "auto", NOWHERE)),
        ("far/a/b", RelayRoute("core", None, "far/a/b", "none", NOWHERE)),
        ("queues/q", RelayRoute(None, "broker", "queues/q", "rewrite", NOWHERE)),
        ("chat", DirectRoute("balanced", NOWHERE)),
        ("news", DirectRoute("multicast", NOWHERE)),
        ("moved/x", RedirectRoute("vhost", "there.example", 5671, "q/x", NOWHERE)),
        ("gone/x", RedirectRoute("there.example", "there.example", 5, "gone/x", NOWHERE)),
    ],
)
def test_an_address_leads_where_the_first_match_says(policy: CompiledPolicy, address: str, route: object) -> None:
    assert policy.scopes["edge"].route(address) == route


@pytest.mark.parametrize(
    "address",
    [
        "",
        "unknown",
        "events/..",
        "events/%2e%2e",
        "events/a b",
        "events/*",
        "events/$info",
        "events/" + "t" * 250,
        "chat/\x00",
        "chat/a\nb",
        "chat/" + "x" * 1024,
        "svc/" + "x" * 1018,
        "x" * 65536,
    ],
)
def test_an_address_that_leads_nowhere(policy: CompiledPolicy, address: str) -> None:
    assert policy.scopes["edge"].route(address) is None
    assert policy.scopes["edge"].decide("ann", "send", address).condition == "amqp:not-found"


def test_the_same_name_in_two_scopes_stays_separate(policy: CompiledPolicy) -> None:
    # KM-20
    assert policy.scopes["edge"].route("chat/x") == DirectRoute("balanced", NOWHERE)
    assert policy.scopes["other"].route("chat/x") == DirectRoute("multicast", NOWHERE)
    assert policy.scopes["core"].route("chat/x") is None


def test_routes_know_their_line_and_compare_without_it(policy: CompiledPolicy) -> None:
    again = load_text("# one line more" + POLICY.replace("  other:", "  other: # moved"), environ={"K": KEY})
    one, two = (p.scopes["edge"].route("svc/echo") for p in (policy, again))
    assert one is not None
    assert two is not None
    assert one == two
    assert hash(one) == hash(two)
    assert str(one.where) == "etc/p.yaml:8"


@pytest.mark.parametrize(
    ("user", "action", "address", "condition", "info"),
    [
        ("ann", "send", "svc/echo", None, False),
        ("eve", "send", "svc/echo", "amqp:unauthorized-access", False),
        ("ann", "receive", "svc/echo", "amqp:unauthorized-access", False),
        ("bob", "send", "chat/x", "amqp:unauthorized-access", False),
        ("eve", "receive", "nothing", "amqp:not-found", False),
        ("eve", "receive", "events/orders", None, False),
        ("eve", "send", "events/orders", "amqp:unauthorized-access", False),
        ("eve", "receive", "events/orders/$info", None, True),
        ("eve", "info", "events/orders/$info", None, True),
        ("eve", "info", "events/orders", None, True),
        ("eve", "send", "events/orders/$info", "amqp:not-allowed", True),
        ("ann", "receive", "chat/x/$info", None, False),
        ("ann", "info", "chat/x", "amqp:not-found", False),
        ("*", "send", "svc/echo", "amqp:unauthorized-access", False),
        ("ann", "send", "moved/x", "amqp:link:redirect", False),
        ("ann", "receive", "moved/x", "amqp:link:redirect", False),
        ("ann", "receive", "moved/x/$info", "amqp:not-found", False),
        ("eve", "send", "moved/x", "amqp:unauthorized-access", False),
    ],
)
def test_who_may_do_what(
    policy: CompiledPolicy, user: str, action: str, address: str, condition: str | None, info: bool
) -> None:
    decision = policy.scopes["edge"].decide(user, action, address)  # type: ignore[arg-type]
    assert (decision.condition, decision.info) == (condition, info)
    answer = explain(policy, "edge", user, address, action)  # type: ignore[arg-type]
    assert (answer.allowed, answer.condition) == (condition is None, condition)


def test_explain_says_which_lines_decide(policy: CompiledPolicy) -> None:
    answer = explain(policy, "edge", "bob", "svc/echo", "send")
    assert str(answer).splitlines()[: -len(answer.replies)] == [
        "bob wants to send to svc/echo in scope edge",
        "  address  relay to scope core, address services/echo, replies auto  (etc/p.yaml:8)",
        "           then in scope core: direct, balanced  (etc/p.yaml:22)",
        "  access   granted  (etc/p.yaml:18)",
        "  result   allowed",
    ]
    assert (answer.kind, answer.route_where, answer.access_where) == (
        "relay",
        "etc/p.yaml:8",
        "etc/p.yaml:18",
    )
    assert answer.as_dict()["allowed"] is True


@pytest.mark.parametrize(
    ("action", "address", "words"),
    [
        ("send", "log", "send to"),
        ("receive", "log", "receive from"),
        ("info", "log", "ask for information about"),
        ("receive", "log/$info", "ask for information about"),
    ],
)
def test_a_refusal_is_a_sentence(action: Action, address: str, words: str) -> None:
    text = "kafka: {main: }\nscopes: {edge: {addresses: [{match: log, kafka: main, topic: t}]}}"
    policy = load_text(text, environ={})
    decision = policy.scopes["edge"].decide("eve", action, address)
    assert decision.reason == f"not allowed to {words} this address"
    asks = explain(policy, "edge", "eve", "log", "info" if address != "log" else action).lines[0]
    assert asks == f"eve wants to {words} log in scope edge"


def test_explain_says_why_not(policy: CompiledPolicy) -> None:
    denied = explain(policy, "edge", "eve", "news", "receive")
    assert denied.lines[-2:] == (
        "  access   no entry of scopes.edge.access grants it",
        "  result   amqp:unauthorized-access: not allowed to receive from this address",
    )
    nowhere = explain(policy, "edge", "eve", "\x1b[2J", "receive")
    assert nowhere.lines[0] == "eve wants to receive from '\\x1b[2J' in scope edge"
    assert nowhere.lines[1] == "  address  no entry of scopes.edge.addresses matches"
    illegal = explain(policy, "edge", "eve", "events/..", "receive")
    assert "matches events/{topic}, but such a node cannot exist  (etc/p.yaml:7)" in illegal.lines[1]
    beyond = explain(policy, "edge", "ann", "far/x", "send")
    assert (beyond.allowed, beyond.condition) == (False, "amqp:not-found")
    assert beyond.lines[-1] == "  result   amqp:not-found: the node behind this address does not exist"


INTERNAL = """
gateway: {journal: {kafka: main, topic: audit.rows}}
kafka: {main: {}, other: {}}
scopes:
  edge:
    addresses:
      - {match: "events/{topic}", kafka: main, dead_letter: "{topic}.dlq"}
      - {match: "own-{topic}", kafka: main, topic: "orders-{topic}", dead_letter: "{topic}"}
      - {match: "fixed/{kind}", kafka: main, topic: orders, dead_letter: "{kind}"}
      - {match: "under/{topic}", kafka: main, topic: "_{topic}"}
      - {match: "other/{topic}", kafka: other}
      - {match: "letters/{topic}", kafka: main, topic: "{topic}.dlq"}
      - {match: "state/{topic}", kafka: main, topic: "__{topic}"}
      - {match: journal, kafka: main, topic: audit.rows}
      - {match: letters, kafka: main, topic: lost.and.found}
      - {match: offsets, kafka: main, topic: __consumer_offsets}
    access: [{who: "*", may: [send, receive], on: "**"}]
  core:
    addresses:
      - {match: "log/{topic}", kafka: main, dead_letter: lost.and.found}
      - {match: "sum/{a}/{b}", kafka: main, topic: "{a}.{b}", dead_letter: "sum-{a}-{b}"}
"""


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("events/__consumer_offsets", "topic is internal to Kafka"),
        ("events/__", "topic is internal to Kafka"),
        ("under/_transaction_state", "topic is internal to Kafka"),
        ("other/__consumer_offsets", "topic is internal to Kafka"),
        ("events/audit.rows", "topic is the gateway's journal"),
        ("events/orders.dlq", "topic is a dead-letter topic"),
        ("events/sum-a-b", "topic is a dead-letter topic"),
        ("events/lost.and.found", "topic is a dead-letter topic"),
        ("fixed/__consumer_offsets", "dead_letter is internal to Kafka"),
        ("fixed/audit.rows", "dead_letter is the gateway's journal"),
    ],
)
def test_captures_do_not_reach_internal_topics(address: str, what: str) -> None:
    policy = load_text(INTERNAL)
    rules = policy.scopes["edge"]
    assert rules.route(address) is None
    assert rules.route(f"{address}/$info") is None
    for asked in (address, f"{address}/$info"):
        assert rules.decide("ann", "receive", asked).condition == "amqp:not-found"
    line = explain(policy, "edge", "ann", address, "send").lines[1]
    assert f"but its {what}, which a rule has to name literally" in line


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("fixed/orders", "its dead_letter would be the topic itself"),
        (f"events/{'x' * 246}", "its dead_letter would not be a legal topic name"),
    ],
)
def test_captures_make_a_dead_letter_topic_that_can_be_one(address: str, why: str) -> None:
    policy = load_text(INTERNAL)
    assert policy.scopes["edge"].route(address) is None
    assert f"but {why}" in explain(policy, "edge", "ann", address, "send").lines[1]


@pytest.mark.parametrize("topic", ["orders", "{name}"])
def test_a_dead_letter_is_not_the_topic_itself(topic: str) -> None:
    rule = f'{{match: "log/{{name}}", kafka: main, topic: "{topic}", dead_letter: "{topic}"}}'
    with pytest.raises(PolicyErrors, match="this is the topic itself"):
        load_text(f"kafka: {{main: }}\nscopes: {{edge: {{addresses: [{rule}]}}}}")


@pytest.mark.parametrize(
    ("address", "topic"),
    [
        ("events/orders", "orders"),
        ("events/_schemas", "_schemas"),
        ("events/.dlq", ".dlq"),  # nothing before it: no dead letter of any topic
        ("events/audit-rows", "audit-rows"),
        ("events/sum-a", "sum-a"),
        ("own-__consumer_offsets", None),  # its dead letters would go there
        ("own-x", "orders-x"),
        ("other/orders.dlq", "orders.dlq"),
        ("other/audit.rows", "audit.rows"),
        ("letters/orders", "orders.dlq"),
        ("state/consumer_offsets", "__consumer_offsets"),
        ("journal", "audit.rows"),
        ("letters", "lost.and.found"),
        ("offsets", "__consumer_offsets"),
    ],
)
def test_what_a_rule_names_literally_is_reached(address: str, topic: str | None) -> None:
    route = load_text(INTERNAL).scopes["edge"].route(address)
    assert (route.topic if isinstance(route, KafkaRoute) else None) == topic


def test_explain_tells_response_addresses_of_two_gateways_apart() -> None:
    rule = "{match: '$replies.edge/*', direct: balanced}"
    chained = load_text(f"scopes: {{edge: {{addresses: [{rule}], access: [{{may: send}}]}}}}")
    answer = explain(chained, "edge", "ann", "$replies.edge/token", "send")
    assert (answer.allowed, answer.kind) == (True, "direct")
    assert answer.lines[-2].startswith("  answers  this gateway accepts responses with its own tokens here")
    assert answer.lines[-1].endswith("tokens of another gateway, for a scope of this name, take the route above")
    assert not any("answers" in line for line in explain(chained, "edge", "ann", "$replies.edgex", "send").lines)
    assert explain(chained, "edge", "ann", "$replies.edge/token", "receive").condition == "amqp:unauthorized-access"
    assert explain(chained, "edge", "ann", "$replies.edge", "info").condition == "amqp:not-found"


@pytest.mark.parametrize(
    ("address", "action", "condition"),
    [
        ("$replies.edge", "send", None),
        ("$replies.edge", "receive", "amqp:not-allowed"),
        ("$replies.edge", "info", "amqp:not-allowed"),
        ("$replies.edge/token", "send", "amqp:not-found"),
        ("$replies.edge/token", "receive", "amqp:not-allowed"),
        ("$temp/name", "send", "amqp:not-found"),
    ],
)
def test_explain_needs_no_rule_at_reserved_addresses(
    policy: CompiledPolicy, address: str, action: str, condition: str | None
) -> None:
    answer = explain(policy, "edge", "ann", address, action)  # type: ignore[arg-type]
    assert (answer.allowed, answer.condition) == (condition is None, condition)
    assert answer.lines[1].endswith("; no rule of the policy decides")
    assert answer.lines[-1].startswith(f"  result   {condition or 'allowed'}")


@pytest.mark.parametrize("address", ["$replies.core", "$replies.edgex", "$replies", "$temp", "$replies.edge.x"])
def test_other_addresses_with_a_dollar_need_a_rule(policy: CompiledPolicy, address: str) -> None:
    assert explain(policy, "edge", "ann", address, "send").lines[1] == (
        "  address  no entry of scopes.edge.addresses matches"
    )


def test_explain_says_what_the_gateway_itself_brings(policy: CompiledPolicy) -> None:
    line = "  pulled   the gateway itself fetches messages from incoming at connector broker"
    assert line in explain(policy, "edge", "ann", "chat/room", "send").lines
    assert line not in explain(policy, "edge", "ann", "chat/room", "receive").lines
    assert line not in explain(policy, "edge", "ann", "chat/other", "send").lines


def test_explain_says_where_a_redirect_leads_and_not_across_a_boundary(policy: CompiledPolicy) -> None:
    moved = explain(policy, "edge", "ann", "moved/x", "receive")
    assert (moved.kind, moved.allowed, moved.condition) == ("redirect", False, "amqp:link:redirect")
    assert moved.route == "redirect to there.example:5671 (vhost), address q/x"
    beyond = explain(policy, "edge", "ann", "beyond/x", "send")
    assert beyond.condition == "amqp:not-found"
    assert beyond.lines[-1].endswith("a relay follows no redirect of the other scope; relay to a connector there")
    assert explain(policy, "edge", "eve", "moved/x", "send").condition == "amqp:unauthorized-access"


def test_a_policy_is_gone_with_its_last_use_without_a_search_for_circles() -> None:
    def rules() -> int:
        return sum(isinstance(each, ScopeRules | CompiledAddress) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = rules()
        loaded = load_text(POLICY, environ={"K": KEY})
        assert rules() > before
        del loaded
        assert rules() == before
    finally:
        gc.enable()
