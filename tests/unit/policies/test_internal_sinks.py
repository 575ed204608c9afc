"""Entries of `sinks` reach internal topics of Kafka only by their literal names."""

from __future__ import annotations

import pytest

from policies.egress import SinkDestination, allows
from policies.subscriptions import manager_rules
from tests.support.gateway.policy import load_text

POLICY = """
gateway: {state: "redis://127.0.0.1:6379/0", journal: {kafka: main, topic: audit}}
kafka: {main: {bootstrap: "k:9092"}, other: {bootstrap: "o:9092"}}
scopes:
  edge:
    addresses:
      - {match: events/orders, kafka: main, topic: orders, dead_letter: orders.dlq}
      - {match: "more/{name}", kafka: main, topic: "more.{name}", dead_letter: "more.{name}.dlq"}
    access: [{who: a, may: subscribe, on: events/orders}]
    api: [{auth: anonymous}]
    subscriptions: [{name: m, events: events/orders, sinks: [%s]}]
"""
INTERNAL = ["audit", "orders.dlq", "more.a.dlq", "__consumer_offsets"]


def allowed(entry: str, topic: str, *hosts: tuple[str, int]) -> bool:
    (manager,) = manager_rules(load_text(POLICY % f"{{protocol: kafka, {entry}}}"))
    return allows(manager.sinks, SinkDestination("kafka", "kafka", hosts, "", topic)) is not None


@pytest.mark.parametrize("topic", INTERNAL)
def test_any_text_is_no_internal_topic(topic: str) -> None:
    assert not allowed("cluster: main", topic)
    assert not allowed(f'cluster: main, topics: "{topic[:3]}*{topic[-3:]}"', topic) or topic.startswith("__")
    assert not allowed('to: "kafka://k"', topic, ("k", 9092)), "servers by their names may be those of a cluster"
    assert allowed("cluster: main", f"x{topic}x")


@pytest.mark.parametrize("topic", INTERNAL)
def test_a_literal_name_is(topic: str) -> None:
    assert allowed(f"cluster: main, topics: [out, {topic}]", topic)
    assert allowed(f'to: "kafka://k", topics: {topic}', topic, ("k", 9092))


def test_a_pattern_that_can_name_nothing_else_is_literal_enough() -> None:
    assert allowed('cluster: main, topics: "__*"', "__mine")
    assert allowed('cluster: main, topics: "more.*.dlq"', "more.a.dlq")


def test_another_cluster_has_its_own() -> None:
    assert allowed("cluster: other", "audit")
    assert not allowed("cluster: other", "__consumer_offsets")
