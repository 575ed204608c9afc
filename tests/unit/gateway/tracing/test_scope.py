"""Which links are wrapped for spans: none without a tracer, and only those of the four kinds with one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.links.decision import RouteDecision
from gateway.links.link_context import link_context
from gateway.principal import User
from gateway.tracing.links import span_kind
from gateway.tracing.spans import Tracer
from policies.rules import DirectRoute, KafkaRoute, RelayRoute
from tests.support.amqp.engine_fuzz import make_scope
from tests.support.gateway.policy import load_text

POLICY = """
kafka: {main: {bootstrap: "127.0.0.1:9092"}}
scopes:
  edge:
    addresses:
      - {match: chat, direct: balanced}
      - {match: events, kafka: main, topic: t}
      - {match: svc, relay: core, address: chat, replies: none}
      - {match: far, relay: core, address: events, replies: none}
  core:
    addresses: [{match: chat, direct: balanced}, {match: events, kafka: main, topic: t}]
"""


def link(address: str, *, incoming: bool, action: str = "", answer: bool = False, decided: bool = True) -> Any:
    """A link of edge, as far as is asked for."""
    scopes = load_text(POLICY).scopes
    first = scopes["edge"].route(address)
    follows = isinstance(first, RelayRoute)
    routes = (first, scopes["core"].route(first.address)) if follows else (first,)
    assert isinstance(routes[-1], DirectRoute | KafkaRoute)
    action = action or ("send" if incoming else "receive")
    decision = RouteDecision("edge", User("edge", "al"), action, address, address, routes)  # type: ignore[arg-type]
    context = link_context("edge", answer=answer)
    return SimpleNamespace(incoming=incoming, context=context, decision=decision if decided else None)


@pytest.mark.parametrize(
    ("address", "incoming", "kind"),
    [
        ("chat", True, None),
        ("chat", False, None),
        ("events", True, "produce"),
        ("events", False, "deliver"),
        ("svc", True, "request"),
        ("svc", False, None),
        ("far", True, "request"),
        ("far", False, "deliver"),
    ],
)
def test_kinds(address: str, incoming: bool, kind: str | None) -> None:
    assert span_kind(link(address, incoming=incoming), "edge") == kind
    assert span_kind(link(address, incoming=incoming, answer=True), "edge") == "response"
    assert span_kind(link(address, incoming=incoming, action="info"), "edge") is None
    assert span_kind(link(address, incoming=incoming, decided=False), "edge") is None


def test_a_link_reaches_its_node_as_it_is_without_a_tracer_and_where_it_has_no_spans() -> None:
    scope, seen = make_scope(), list[Any]()
    node: Any = SimpleNamespace(attach=seen.append)
    events, chat = link("events", incoming=True), link("chat", incoming=True)
    scope._hand_over(events, node, "events")
    scope.context.tracer = Tracer(1.0, 10, lambda: 0)
    scope._hand_over(chat, node, "chat")
    assert [each is other for each, other in zip(seen, (events, chat), strict=True)] == [True, True]
    scope._hand_over(link("svc", incoming=True), node, "svc")
    assert type(seen[-1]).__name__ == "_TracedIncoming"
