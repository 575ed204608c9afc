"""The scopes of a policy as they run: their options, and how messages cross between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.config.policy import make_ring
from gateway.nodes.scope import Scope, ScopeOptions
from gateway.routing.transforms import TransformRegistry

if TYPE_CHECKING:
    from gateway.nodes.base import GatewayContext
    from gateway.routing.response_times import ResponseTimes
    from gateway.state.counters.store import CounterStore
    from policies.rules import CompiledPolicy


def make_transforms(
    policy: CompiledPolicy, now_ms: Callable[[], int], store: CounterStore, times: ResponseTimes
) -> TransformRegistry:
    """The transforms between the scopes of a policy; none where it has no keys."""
    signing = policy.signing
    names = tuple(policy.model.scopes)
    if signing is None:
        return TransformRegistry(None, 0, names, now_ms)
    return TransformRegistry(
        make_ring(signing),
        signing.expiry,
        names,
        now_ms,
        unrouted=frozenset(name for name in names if not policy.model.scopes[name].response_routing),
        max_cookie=signing.max_cookie,
        store=store,
        times=times,
    )


def install_scopes(scopes: dict[str, Scope], policy: CompiledPolicy, context: GatewayContext) -> None:
    """Create the scopes of a policy, use its rules in those that exist, and remove the others."""
    for name, model in policy.model.scopes.items():
        limits = (
            (model.max_transactions, model.connection_transactions, model.transaction_timeout)
            if model.transactions
            else None
        )
        options = ScopeOptions(
            model.anonymous_relay, model.temporary, model.strict_desired, model.response_rate, limits
        )
        if name in scopes:
            scopes[name].configure(policy.scopes[name], options)
        else:
            scopes[name] = Scope(name, policy.scopes[name], context, options)
    for name in set(scopes) - set(policy.model.scopes):
        del scopes[name]
