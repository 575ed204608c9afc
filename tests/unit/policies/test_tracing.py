"""`gateway.tracing`: where spans go, and how many."""

from __future__ import annotations

import tomllib

import pytest

from policies.explain.explanation import explain
from policies.model.scopes.access import Action
from tests.support.cli.guides import Guide
from tests.support.gateway.policy import load_text, mistakes
from tests.support.project.parts import ROOT

HERE = "endpoint: 'http://127.0.0.1:4318/v1/traces'"


def policy(tracing: str) -> str:
    return f"gateway: {{tracing: {{{tracing}}}}}\nscopes: {{edge: }}"


def test_nothing_is_traced_unless_the_policy_says_where_to() -> None:
    assert load_text("scopes: {edge: }").model.gateway.tracing is None
    tracing = load_text(policy(HERE)).model.gateway.tracing
    assert tracing is not None
    assert (tracing.endpoint, tracing.sample, tracing.buffer) == ("http://127.0.0.1:4318/v1/traces", 1.0, 2048)
    few = load_text(policy(f"{HERE}, sample: 0.01, buffer: 100")).model.gateway.tracing
    assert few is not None
    assert (few.sample, few.buffer) == (0.01, 100)


def test_the_policy_of_the_guide_and_the_extra_that_it_installs() -> None:
    guide = Guide("operations.md")
    tracing = load_text(f"{guide.named('traces.yaml')}scopes: {{edge: }}").model.gateway.tracing
    assert tracing is not None
    assert tracing.sample == 0.1
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {name for name in extras if f"scopegate[{name}]" in guide.named("install")} == {"otel"}


@pytest.mark.parametrize(
    ("tracing", "said"),
    [
        ("sample: 1", "tracing.endpoint:"),
        ("endpoint: '127.0.0.1:4318'", "endpoint: needs a URL like http://127.0.0.1:4318/v1/traces"),
        ("endpoint: 5", "endpoint: needs a URL like"),
        ("endpoint: 'grpc://c:4317/x'", "endpoint: needs a URL like"),
        ("endpoint: 'http://c:4318'", "endpoint: needs the path, too"),
        ("endpoint: 'https://c/'", "endpoint: needs the path, too"),
        ("endpoint: 'http://c:99999/v1/traces'", "endpoint: needs a host name, and a port"),
        ("endpoint: 'http://:1/v1/traces'", "endpoint: needs a host name"),
        ("endpoint: 'http://me:secret@c/v1/traces'", "endpoint: a URL must not contain a user or password"),
        ("endpoint: 'http://c/v1/traces?key=secret'", "endpoint: no query and no fragment"),
        (f"{HERE}, sample: 1.5", "tracing.sample:"),
        (f"{HERE}, sample: -0.1", "tracing.sample:"),
        (f"{HERE}, sample: true", "tracing.sample:"),
        (f"{HERE}, sample: .nan", "tracing.sample:"),
        (f"{HERE}, buffer: 0", "tracing.buffer:"),
        (f"{HERE}, exporter: grpc", "tracing.exporter:"),
    ],
)
def test_mistakes(tracing: str, said: str) -> None:
    found = mistakes(policy(tracing))
    assert any(said in line for line in found), found
    assert not any("secret" in line for line in found if "@" not in said and "secrets" not in line)


ROUTES = """
keys: {active: a, ring: {a: {env: K}}}
kafka: {main: {bootstrap: "127.0.0.1:9092"}}
scopes:
  edge:
    addresses:
      - {match: "chat/**", direct: balanced}
      - {match: "events/{topic}", kafka: main, topic: "{topic}"}
      - {match: "svc/{name}", relay: core, address: "svc/{name}", replies: cookie}
      - {match: "far", relay: core, address: events, replies: none}
    access: [{who: "*", may: [send, receive, info], on: "**"}]
  core:
    addresses: [{match: "svc/**", direct: balanced}, {match: events, kafka: main, topic: t}]
"""
NO = "no span: only what crosses scopes, and events of topics, have one"
SAMPLED = ", if the sender samples the trace, for 0.25 of the traces"


@pytest.mark.parametrize(
    ("action", "address", "spans"),
    [
        ("send", "chat/a", NO),
        ("receive", "chat/a", NO),
        ("send", "events/orders", f"produce events/{{topic}}{SAMPLED}"),
        ("receive", "events/orders", f"deliver events/{{topic}}{SAMPLED}"),
        ("info", "events/orders/$info", None),
        ("send", "svc/a", f"request svc/{{name}}{SAMPLED}, and a span of its own for each response"),
        ("receive", "svc/a", NO),
        ("send", "far", f"request far{SAMPLED}"),
        ("receive", "far", f"deliver far{SAMPLED}"),
        ("send", "nowhere", None),
    ],
)
def test_explain_says_which_spans_a_link_has(action: Action, address: str, spans: str | None) -> None:
    """The kinds are those that the gateway's links ask for (tests/unit/gateway/tracing/test_scope.py)."""
    traced = load_text(ROUTES + f"gateway: {{tracing: {{{HERE}, sample: 0.25}}}}\n", with_secrets=False)
    found = explain(traced, "edge", "al", address, action)
    assert found.traced == spans
    assert [line for line in found.lines if "traced" in line] == ([f"  traced   {spans}"] if spans else [])
    plain = explain(load_text(ROUTES, with_secrets=False), "edge", "al", address, action)
    assert (plain.traced, [line for line in plain.lines if "traced" in line]) == (None, [])
