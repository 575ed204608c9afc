"""What the log of a reload names: the parts of the policy that differ, and none of their values."""

from __future__ import annotations

from typing import Any

from gateway.config.changes import MOST, changed_parts
from policies.model.policy import Policy


def policy(**changes: Any) -> Policy:
    scopes: dict[str, Any] = {
        "edge": {"listen": [{"bind": "127.0.0.1:5672"}], "addresses": [{"match": "a", "direct": "balanced"}]},
    }
    return Policy.model_validate({"gateway": {"id": "one"}, "scopes": scopes, **changes})


def test_nothing_has_changed() -> None:
    assert changed_parts(policy(), policy()) == []


def test_each_part_is_named_once() -> None:
    edge = {"listen": [{"bind": "127.0.0.1:5672"}], "addresses": [{"match": "b", "direct": "multicast"}], "access": []}
    after = policy(
        gateway={"id": "one", "drain": "3s"},
        kafka={"main": {"bootstrap": "secret-host:9092"}},
        scopes={"edge": edge, "core": {}},
    )
    found = changed_parts(policy(), after)
    assert found == ["gateway.drain", "kafka.main (new)", "scopes.core (new)", "scopes.edge.addresses"]
    assert changed_parts(after, policy())[1:3] == ["kafka.main (removed)", "scopes.core (removed)"]
    changed = policy(kafka={"main": {"bootstrap": "other:9092"}}, gateway={"id": "one", "drain": "3s"})
    assert "kafka.main" in changed_parts(after, changed)


def test_a_long_list_is_cut() -> None:
    many = policy(scopes={f"s{number}": {} for number in range(50)})
    found = changed_parts(policy(scopes={"s0": {}}), many)
    assert (len(found), found[-1]) == (MOST + 1, f"and {49 - MOST} more")
