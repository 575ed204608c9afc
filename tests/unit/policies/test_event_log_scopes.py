"""Which scopes show event logs, by their patterns alone, and what `explain` says of a relayed `$info` (ES 3.1, 6)."""

from __future__ import annotations

import pytest

from policies.explain.explanation import explain
from tests.support.gateway.policy import load_text

POLICY = """
keys: {{active: one, ring: {{one: {{env: K}}}}}}
kafka: {{main: {{bootstrap: embedded}}}}
scopes:
  edge:
    connect: [{{name: far, to: "amqp://127.0.0.1:5672"}}]
    addresses: [{relay}]
    access: [{{who: ann, may: receive, on: "**"}}]
  core:
    addresses: [{rules}]
    access: []
"""
LOG = '{match: "log/{topic}", kafka: main}'


@pytest.mark.row("ES-3.1-1")
@pytest.mark.parametrize(
    ("relay", "rules", "shown"),
    [
        ('{match: "far/{t}", relay: core, address: "log/{t}"}', LOG, True),
        ('{match: "far/{t}", relay: core, address: "log/orders"}', LOG, True),
        ('{match: "far/{t}", relay: core, address: "log/a-{t}-b"}', '{match: "log/a-{topic}", kafka: main}', True),
        ('{match: "far/{t}", relay: core, address: "log/a-{t}"}', '{match: "log/b-{topic}", kafka: main}', False),
        ('{match: "far/{t}", relay: core, address: "log/{t}-a"}', '{match: "log/{topic}-b", kafka: main}', False),
        ('{match: "**", relay: core}', LOG, True),
        ('{match: "log/**", relay: core}', LOG, True),
        ('{match: "log", relay: core}', LOG, False),
        ('{match: "log/{a}/{b}", relay: core}', LOG, False),
        ('{match: "log/{a}/{b}", relay: core}', '{match: "log/**", kafka: main, topic: one}', True),
        ('{match: "work/**", relay: core}', LOG, False),
        ('{match: "far/**", relay: far}', LOG, False),
        ('{match: "far/{t}", relay: core}', '{match: "far/{t}", relay: edge, address: "log/x"}, ' + LOG, False),
    ],
)
def test_a_relay_shows_the_logs_that_it_may_lead_to(relay: str, rules: str, shown: bool) -> None:
    policy = load_text(POLICY.format(relay=relay, rules=rules), with_secrets=False)
    assert policy.scopes["edge"].event_streams is shown


@pytest.mark.row("ES-6-2")
def test_explain_knows_info_behind_a_relay() -> None:
    relay = '{match: "far/{t}", relay: core, address: "log/{t}"}'
    policy = load_text(POLICY.format(relay=relay, rules=LOG), with_secrets=False)
    granted = explain(policy, "edge", "ann", "far/orders/$info", "receive")
    assert (granted.allowed, granted.kind) == (True, "service")
    assert explain(policy, "edge", "eve", "far/orders/$info", "receive").condition == "amqp:unauthorized-access"
    assert explain(policy, "edge", "ann", "far/orders/$info", "send").condition == "amqp:not-allowed"
    assert explain(policy, "edge", "ann", "near/orders/$info", "receive").condition == "amqp:not-found"
