"""The policy's words on partitions and groups: what is a mistake, what a link gets (`scopegate explain`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from policies.explain.assignment import assignment_lines
from policies.explain.explanation import explain
from policies.load.loader import load_policy
from policies.model.scopes.assignment import Assignment
from policies.rules import CompiledPolicy, KafkaRoute
from policies.text.diagnostics import PolicyErrors

POLICY = """
gateway: {{state: "{state}"}}
kafka: {{k: {{topics: {{orders: 3}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:5672"{listener}}}]
    addresses:
      - {{match: "events/{{topic}}", kafka: k{rule}}}
    access: [{{may: [send, receive, info]}}]
"""
REDIS = "redis://127.0.0.1:6379/0"


def load(tmp_path: Path, rule: str = "", *, state: str = "memory", listener: str = "") -> CompiledPolicy:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY.format(state=state, listener=listener, rule=rule and f", {rule}"))
    environ: Mapping[str, str] = {}
    return load_policy(path, environ=environ, read_bytes=Path.read_bytes)


def of(policy: CompiledPolicy) -> Assignment:
    route = policy.scopes["edge"].route("events/orders")
    assert isinstance(route, KafkaRoute)
    return route.assignment


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("binding: partition", "addresses[0].binding"),
        ("groups: some", "groups: must be dynamic, none or a list of names"),
        ("groups: []", "groups: must be dynamic, none or a list of names"),
        ('groups: [""]', "groups: must be dynamic, none or a list of names"),
        ("groups: [7]", "groups: must be dynamic, none or a list of names"),
        ("partitions: [a]", "partitions: must be all, none or a list of partition numbers"),
        ("partitions: [-1]", "partitions: must be all, none or a list of partition numbers"),
        ("partitions: [true]", "partitions: must be all, none or a list of partition numbers"),
        ("surplus: wait", "surplus"),
        ("pending_timeout: 0s", "pending_timeout"),
        ("pending_limit: 0", "pending_limit"),
        ("epoch_retention: 30d", "epoch_retention"),
        ("group_mode: agnostic", "group_mode"),
        ("group_mode: shared, ownership: sharded", "links that share partitions cannot be redirected"),
        ("group_mode: shared, groups: none", "this rule has no groups"),
        ("partitions: none, binding: assign", "binding: assign needs partitions that links may be bound to"),
    ],
)
def test_mistakes(tmp_path: Path, rule: str, said: str) -> None:
    with pytest.raises(PolicyErrors) as errors:
        load(tmp_path, rule)
    assert said in str(errors.value)
    assert len(errors.value.problems) == 1


def test_shards_need_shared_state_and_places(tmp_path: Path) -> None:
    with pytest.raises(PolicyErrors, match="needs a listener of this scope that other gateways' clients can reach"):
        load(tmp_path, "ownership: sharded", state=REDIS)
    (warning,) = load(tmp_path, "ownership: sharded").warnings
    assert "only in this process" in warning.message
    policy = load(tmp_path, "ownership: sharded", state=REDIS, listener=', advertise: "gw1.example:5672"')
    assert policy.warnings == ()
    assert of(policy).ownership == "sharded"


def test_what_links_that_share_get(tmp_path: Path) -> None:
    reported = "\n".join(assignment_lines(of(load(tmp_path, "group_mode: shared")), "receive"))
    assert "a link of any group gets its share of the partitions" in reported
    assert "names a partition or an epoch: amqp:not-allowed (group_mode: shared)" in reported
    assert "more links than partitions: amqp:link:detach-forced (surplus: reject)" in reported
    reported = "\n".join(assignment_lines(of(load(tmp_path, "group_mode: shared, surplus: pend")), "receive"))
    assert "they stand by without one (surplus: pend)" in reported
    assert "share" not in "\n".join(assignment_lines(of(load(tmp_path)), "receive"))


def test_what_is_not_said_is_the_matrix_default(tmp_path: Path) -> None:
    assert of(load(tmp_path)) == Assignment() == Assignment("agnostic", "all", "dynamic", "reject")
    assert of(load(tmp_path, "groups: [g1], partitions: [2, 0, 2], pending_timeout: 1s")) == Assignment(
        partitions=(0, 2), groups=("g1",), pending_timeout=of(load(tmp_path, "pending_timeout: 1s")).pending_timeout
    )


def test_partitions_that_links_may_be_bound_to() -> None:
    assert Assignment().among(3) == (0, 1, 2)
    assert Assignment(partitions=(0, 2)).among(2) == (0,)
    assert Assignment(partitions="none").among(3) == ()
    assert not Assignment(partitions="none").grants(0)


def test_explain_says_what_a_link_gets(tmp_path: Path) -> None:
    rule = "binding: assign, groups: [g1], surplus: pend, pending_timeout: 3s, pending_limit: 2"
    text = str(explain(load(tmp_path, rule), "edge", "anonymous", "events/orders", "receive"))
    assert "a link that names no partition is bound to a partition that the gateway chooses" in text
    assert "a link of group g1 (others: amqp:not-found) owns one partition" in text
    assert "the link waits for one, up to 3 s, 2 links at most (surplus: pend)" in text
    for action in ("send", "info"):
        other = str(explain(load(tmp_path, rule), "edge", "anonymous", "events/orders", action))  # type: ignore[arg-type]
        assert "group" not in other
    (unnamed, named, refused) = assignment_lines(Assignment("client", "none", "none"), "receive")
    assert "has to name one" in unnamed
    assert "partitions: none" in named
    assert "groups: none" in refused
