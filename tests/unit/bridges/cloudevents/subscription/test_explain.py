"""`scopegate explain --subscribe`: the lines that allow or refuse the sources and the sink of a subscription."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bridges.cloudevents.subscription.explain import explain_subscription
from gateway.cli.main import main
from tests.support.cloudevents.objects import AMQP, HTTP, KAFKA, NOW_MS, POLICY, RULES, with_settings

LINES = {text.strip(): number for number, text in enumerate(POLICY.splitlines(), 1)}


def where(text: str) -> str:
    return f"(etc/p.yaml:{next(number for line, number in LINES.items() if text in line)})"


def explained(value: Any, user: str = "billing") -> Any:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return explain_subscription(RULES, user, body, NOW_MS)


def test_the_lines_that_allow_a_subscription() -> None:
    found = explained({**HTTP, "config": {"address": "events/orders"}})
    assert str(found).splitlines() == [
        "billing wants to subscribe at manager orders of scope edge",
        "  source   events/orders: kafka topic orders of cluster main, binding agnostic  "
        + where('match: "events/{topic}"'),
        "           granted  " + where("may: subscribe"),
        "  sink     HTTP https://hooks.partner.example/in: allowed  " + where('to: "https://*.partner.example"'),
        "           its host has to resolve to an address of public",
        "           the sink is asked for its consent (handshake: on)",
        "  result   allowed",
    ]
    assert found.allowed
    assert found.as_dict()["sink_where"] == where('to: "https://*.partner.example"')[1:-1]


@pytest.mark.parametrize(
    ("value", "user", "code", "line"),
    [
        ({**HTTP, "config": {"address": "events/stock"}}, "billing", "forbidden", "no entry of scopes.edge.access"),
        (HTTP, "stranger", "forbidden", "no entry of scopes.edge.access grants subscribe"),
        (HTTP, "billing", "ok", "  result   allowed"),  # without an address: the streams that are granted
        ({**HTTP, "sink": "https://evil.example/?token=x"}, "billing", "invalid", "https://evil.example/: not allowed"),
        ({**HTTP, "id": "a/b"}, "billing", "invalid", "  mistake  /id: printable text without /"),
        ({**HTTP, "config": {"address": "x"}}, "billing", "invalid", "  source   x: no event stream of this manager"),
        (KAFKA, "billing", "ok", "KAFKA kafka:///, topic out.x: allowed"),
        ({**AMQP, "sink": "amqp:///svc/x"}, "billing", "ok", "AMQP amqp:///svc/x, address svc/x: allowed"),
        ({**AMQP, "sink": "amqp:///svc/x"}, "shipping", "invalid", "address svc/x: not allowed by the policy"),
        (b"{", "billing", "invalid", "  mistake  (object): line 1, column 2: not JSON"),
        (with_settings(KAFKA, topicname="orders"), "billing", "invalid", "it would feed itself"),
    ],
)  # fmt: skip
def test_what_refuses_a_subscription(value: Any, user: str, code: str, line: str) -> None:
    found = explained(value, user)
    assert (found.code, found.allowed) == (code, code == "ok")
    assert [each for each in found.lines if line in each], found.lines
    assert "token=x" not in str(found)


def call(tmp_path: Path, *arguments: str, value: Any = HTTP) -> Result:
    policy = tmp_path / "p.yaml"
    policy.write_text(POLICY)
    return CliRunner().invoke(main, ["explain", str(policy), *arguments], input=json.dumps(value))


def test_the_command(tmp_path: Path) -> None:
    usual = ("--scope", "edge", "--user", "billing", "--subscribe", "-")
    assert call(tmp_path, *usual).exit_code == 0
    assert "result   allowed" in call(tmp_path, *usual).output
    assert json.loads(call(tmp_path, *usual, "--json").output)["code"] == "ok"
    refused = call(tmp_path, *usual, "--manager", "orders", value={**HTTP, "sink": "ftp://x"})
    assert refused.exit_code == 1
    assert "/sink: the scheme for HTTP is https or http" in refused.output
    for wrong in (("--manager", "x"), ("--address", "a"), ("--send", "--address", "a")):
        assert call(tmp_path, *usual, *wrong).exit_code == 2
    assert "name a subscription manager of scope core with --manager (there is: none)" in call(
        tmp_path, "--scope", "core", "--subscribe", "-"
    ).output
