"""Loads policy files from this machine: hands the pure loader the environment and the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from policies.load.loader import load_policy
from policies.model.filters import Filters
from policies.rules import CompiledPolicy, SigningKeys

if TYPE_CHECKING:
    from gateway.filters.parse.filter_set import Rules
    from gateway.response.keys import KeyRing


def load(path: Path, *, with_secrets: bool = True) -> CompiledPolicy:
    """The policy at `path`; raises `policies.problems.PolicyErrors` with every mistake."""
    return load_policy(
        path, environ=os.environ, read_bytes=Path.read_bytes, with_secrets=with_secrets, check_filter=_wrong
    )


def _wrong(text: str) -> str | None:
    """What is wrong with a filter of the policy's own."""
    from gateway.errors import AmqpError
    from gateway.filters.parse.sql import parse_sql

    try:
        parse_sql(text)
    except AmqpError as error:
        return error.description
    return None


def make_ring(signing: SigningKeys) -> KeyRing:
    """The ring of a policy's keys."""
    from gateway.response.keys import KeyRing, SigningSecret

    keys = {name: SigningSecret(key.secret, key.until_ms) for name, key in signing.keys.items()}
    return KeyRing(signing.active, keys, seal=signing.seal, skew_ms=signing.skew)


def make_filter_rules(filters: Filters) -> Rules:
    """How filter sets are read under a policy."""
    from gateway.filters.parse.filter_set import Rules
    from gateway.filters.parse.limits import FilterLimits

    limits = FilterLimits(
        filters.max_length, filters.max_tokens, filters.max_depth, filters.max_terms, filters.max_items
    )
    return Rules(
        limits,
        refuse_unknown=filters.unknown == "refuse",
        seconds=filters.timestamps == "auto",
        earliest=filters.without_position == "earliest",
    )


def routes_responses(policy: CompiledPolicy, scope: str) -> bool:
    """Whether responses are routed in this scope: it is wanted, and there is a key."""
    model = policy.model.scopes.get(scope)
    return model is not None and model.response_routing and policy.signing is not None


def offered(policy: CompiledPolicy, scope: str) -> tuple[str, ...]:
    """What an open in a scope offers (docs/conformance.md 0.4)."""
    from gateway.filters.parse.filter_set import CAPABILITIES

    model = policy.model.scopes[scope]
    offers = {
        "AMQP_EVENT_STREAMS_V1_0": policy.scopes[scope].event_streams,
        **dict.fromkeys(CAPABILITIES, True),
        "ANONYMOUS-RELAY": model.anonymous_relay,
        "LINK_PAIR_V1_0": True,
        "RESPONSE_ANNOTATIONS_V1_0": routes_responses(policy, scope),
    }
    return tuple(name for name, offer in offers.items() if offer)
