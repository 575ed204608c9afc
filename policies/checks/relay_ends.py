"""Warns of relays whose addresses no rule of the other scope can match: every link there would be refused."""

from __future__ import annotations

from collections.abc import Iterator

from policies.model.scopes.addresses import RelayRule
from policies.parts.parts import PolicyPart, PolicyParts
from policies.text.diagnostics import Diagnostic
from policies.values.patterns import shape


def check_relay_end(rule: PolicyPart[RelayRule], parts: PolicyParts) -> Iterator[Diagnostic]:
    """A warning if the addresses behind a valid relay are certainly not found; `$` names what has no rule."""
    there = next((each for each in parts.scopes if each.name == rule.value.relay), None)
    if there is None or not rule.ok("match", "address") or there.broken_rules:
        return
    address, match = rule.value.address, rule.value.match
    wanted = match.shape if address is None else shape(address)
    text = match.text if address is None else address.text
    if "$" not in text and next(there.rules.meeting(wanted), None) is None:
        message = f"leads nowhere: no entry of addresses of scope {there.name} matches {text}"
        yield Diagnostic((*rule.loc, "relay"), message, warning=True)
