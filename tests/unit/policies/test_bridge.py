"""`bridge` in the policy: what is checked, what is warned of, and what explain says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.policy import load
from policies.explain.explanation import explain
from policies.rules import CompiledPolicy
from policies.text.diagnostics import PolicyErrors
from tests.support.gateway.policy import load_text, mistakes

POLICY = """
gateway: {{state: "{state}"}}
kafka: {{main: {{bootstrap: embedded}}}}
scopes:
  edge:
    connect: [{{name: far, to: "amqps://x"}}]
    addresses:
      - {{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}
      - {{match: "same/{{topic}}", kafka: main, topic: "{{topic}}"}}
      - {{match: "round/{{name}}", relay: core, replies: none}}
      - {{match: "b/{{name}}", relay: far, address: "{{name}}", replies: none}}
      - {{match: a, direct: balanced}}
    access: [{{may: [send, receive]}}]
    bridge: {bridge}
  core: {{addresses: [{{match: "round/{{name}}", relay: edge, address: "events/{{name}}", replies: none}}]}}
"""


def text(bridge: str, state: str = "redis://127.0.0.1:6379/0") -> str:
    return POLICY.format(bridge=bridge, state=state)


def entry(rest: str) -> str:
    return f"[{{name: b, {rest}}}]"


@pytest.mark.parametrize(
    ("bridge", "said"),
    [
        (entry("from: a, to: events/x"), "leads to no Kafka topic; for a container"),
        (entry("from: b/q, to: events/x"), "leads to no Kafka topic; for a container behind a connector write "
            "{connector: ..."),
        (entry("from: events/x, to: nowhere"), "bridge[0].to: no entry of scopes.edge.addresses matches"),
        (entry("from: events/x, to: events/x"), "bridge[0].to: leads back to its source events/x"),
        (entry("from: events/x, to: same/x"), "leads back to its source events/x"),
        (entry("from: events/x, to: round/x"), "leads back to its source events/x"),
        (entry("from: {connector: far, address: q}, to: b/q"), "leads back to its source q at connector far"),
        (entry("from: events/x, to: {connector: fer, address: q}"), "there is no connector fer in this scope (allowed"),
        (entry("from: events/x, to: a, group: g"), "bridge[0].group: a topic of this gateway is read as a whole"),
        ("[{name: b, from: events/x, to: a}, {name: b, from: events/y, to: a}]", "name: entry 0 already has this"),
        (entry("from: events/x"), "missing, and required"),
        (entry("from: {connector: far}, to: a"), "bridge[0].from.address: missing, and required"),
        (entry("from: events/x, to: a, start: middle"), "allowed"),
        (entry("from: events/x, to: a, position: 7"), "unknown key"),
    ],
)
def test_mistakes_of_a_bridge(bridge: str, said: str) -> None:
    assert any(said in line for line in mistakes(text(bridge))), mistakes(text(bridge))


def test_a_wrong_filter_is_found_before_anything_is_moved(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text(entry("from: events/x, to: a, filter: \"p.subject == 'a'\"")))
    with pytest.raises(PolicyErrors) as caught:
        load(file)
    assert "scopes.edge.bridge[0].filter: line 1, column" in str(caught.value)
    file.write_text(text(entry("from: events/x, to: a, filter: \"p.subject = 'a'\"")))
    assert load(file).model.scopes["edge"].bridge[0].filter == "p.subject = 'a'"


@pytest.mark.parametrize(("durable", "state", "warned"), [("true", "memory", True), ("false", "memory", False)])
def test_a_position_in_memory_is_warned_of(durable: str, state: str, warned: bool) -> None:
    policy = load_text(text(entry(f"from: events/x, to: a, durable: {durable}"), state), with_secrets=False)
    assert any("its position is stored only in this process" in str(each) for each in policy.warnings) is warned


@pytest.fixture
def policy() -> CompiledPolicy:
    there = "{connector: far, address: q}"
    bridges = f"[{{name: out, from: events/x, to: {there}}}, {{name: in, from: {there}, to: a}}]"
    return load_text(text(bridges), with_secrets=False)


def test_explain_says_what_the_gateway_itself_moves(policy: CompiledPolicy) -> None:
    out = "  bridge   out forwards events from this address to q at connector far; continues at its stored position"
    into = "  bridge   in forwards events from q at connector far to this address"
    assert out in explain(policy, "edge", "ann", "events/x", "receive").lines
    assert into in explain(policy, "edge", "ann", "a", "send").lines
    assert not any("bridge" in line for line in explain(policy, "edge", "ann", "events/x", "send").lines)


@pytest.mark.parametrize(
    ("state", "servers", "warned"),
    [("memory", "k:9092", True), ("redis://r:6379/0", "k:9092", False), ("memory", "embedded", False)],
)
def test_positions_of_clients_in_memory_are_warned_of(state: str, servers: str, warned: bool) -> None:
    document = text("[]", state).replace("bootstrap: embedded", f'bootstrap: "{servers}"')
    assert servers in document
    policy = load_text(document, with_secrets=False)
    found = [each for each in policy.warnings if "positions of durable links and consumer groups" in str(each)]
    assert bool(found) is warned
