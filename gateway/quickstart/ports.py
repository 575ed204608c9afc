"""The listeners of the quickstart's gateway, from its policy, the signing key of its cookies, and the admin's token."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.config.policy import make_ring
from gateway.response.cookies.keys import KeyRing, new_secret
from policies.load.loader import load_policy
from policies.rules import CompiledPolicy

EDGE: Final = "edge"
CORE: Final = "core"


class NotUsable(Exception):
    """A policy that the quickstart cannot use; the text names what is missing."""


@dataclass(frozen=True)
class Ports:
    """One gateway: its policy, its environment, and its addresses by name."""

    policy: Path
    environ: Mapping[str, str]
    binds: Mapping[str, str]
    ring: KeyRing
    clusters: Mapping[str, str]
    token: str | None = None
    """The token of the admin API, if the policy has one that may operate."""

    @property
    def edge(self) -> str:
        """The address for clients of scope `edge`."""
        return self.binds[f"scope {EDGE}"]

    @property
    def core(self) -> str:
        """The address for clients of scope `core`."""
        return self.binds[f"scope {CORE}"]

    @property
    def http(self) -> str:
        """The address of health, readiness and metrics."""
        return self.binds["http"]


def read_place(policy: Path) -> Ports:
    """Read `policy`, with a new signing key in the environment variable that it names; may raise `PolicyErrors`."""
    model = load_policy(policy, environ=os.environ, read_bytes=Path.read_bytes, with_secrets=False).model
    keys = model.keys
    variable = keys.ring[keys.active].env if keys is not None else None
    if variable is None:
        raise NotUsable(f"{policy}: keys.active must name a key that comes from the environment")
    environ = {**os.environ, variable: new_secret(secrets.token_bytes)}
    tokens = [each for each in model.gateway.admin.tokens.values() if each.env is not None]
    environ |= {str(each.env): secrets.token_urlsafe(24) for each in tokens}
    operate = next((environ[str(each.env)] for each in tokens if each.role == "operate"), None)
    compiled = load_policy(policy, environ=environ, read_bytes=Path.read_bytes)
    clusters = {name: cluster.bootstrap for name, cluster in compiled.model.kafka.items()}
    return Ports(policy, environ, _binds(compiled), _ring(compiled), clusters, operate)


def _binds(policy: CompiledPolicy) -> dict[str, str]:
    binds = {f"scope {name}": str(scope.listen[0].bind) for name, scope in policy.model.scopes.items() if scope.listen}
    for scope in (EDGE, CORE):
        if f"scope {scope}" not in binds:
            raise NotUsable(f"{policy.file}: the quickstart needs a listener in scope {scope}")
    if policy.model.gateway.http is None:
        raise NotUsable(f"{policy.file}: the quickstart needs gateway.http")
    ports = policy.model.gateway.admin.ports
    admin = {"admin": str(ports[0])} if ports else {}
    return {**binds, "http": str(policy.model.gateway.http), **admin, **_push(policy)}


def _push(policy: CompiledPolicy) -> dict[str, str]:
    """Where subscriptions of scope `edge` are managed, and where the policy lets an HTTP sink be."""
    scope = policy.model.scopes[EDGE]
    sinks = [rule.to for manager in scope.subscriptions for rule in manager.sinks if rule.to is not None]
    if not (scope.api and sinks):
        return {}
    return {"api": str(scope.api[0].bind), "sink": f"{sinks[0].hosts[0].host}:{sinks[0].hosts[0].port}"}


def _ring(policy: CompiledPolicy) -> KeyRing:
    signing = policy.signing
    assert signing is not None  # `read_place` has checked it
    return make_ring(signing)
