"""Which messages the gateway makes spans for, if the policy has `gateway.tracing` (decision 85)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from policies.model.scopes.access import Action
from policies.model.tracing import TracingSection
from policies.rules import KafkaRoute, RelayRoute, Route

HopKind = Literal["request", "produce", "deliver"]


def hop_kind(scope: str, action: Action, routes: Sequence[Route]) -> HopKind | None:
    """The span of a message on a link of `scope` whose routes are these, one in each scope; None: it has none."""
    if action == "info" or not routes:
        return None
    in_topic = isinstance(routes[-1], KafkaRoute)
    if action == "receive":
        return "deliver" if in_topic else None
    if any(isinstance(route, RelayRoute) and route.scope not in (None, scope) for route in routes):
        return "request"
    return "produce" if in_topic else None


def explain_spans(section: TracingSection | None, kind: HopKind | None, rule: str, *, answered: bool) -> str | None:
    """Which messages of a link have which span, in words; None: the policy has no traces.

    `answered`: whether responses come back to the sender.
    """
    if section is None:
        return None
    if kind is None:
        return "no span: only what crosses scopes, and events of topics, have one"
    part = "" if section.sample == 1 else f", for {section.sample:.4g} of the traces"
    answers = ", and a span of its own for each response" if kind == "request" and answered else ""
    return f"{kind} {rule}, if the sender samples the trace{part}{answers}"
