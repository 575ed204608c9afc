"""Loads policy files from this machine, and makes the objects that the gateway needs of parts of a policy."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from policies.load.loader import load_policy
from policies.model.filters import Filters
from policies.rules import CompiledPolicy, SigningKeys

if TYPE_CHECKING:
    from gateway.filters.parse.filter_set import Rules
    from gateway.response.cookies.keys import KeyRing

_LARGEST: Final = 64 << 20
"""Bytes of a file: more than the users file of 100,000 users has."""


def load(path: Path, *, with_secrets: bool = True) -> CompiledPolicy:
    """The policy at `path`; raises `PolicyErrors` with every mistake."""
    return load_policy(
        path, environ=os.environ, read_bytes=_read, with_secrets=with_secrets, check_filter=_filter_mistake
    )


def _read(path: Path) -> bytes:
    """The content of a policy or of a file that it names; raises OSError for one that would take all memory."""
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        del content  # the error may live on, and with it what is local here
        raise OSError(errno.EFBIG, f"larger than {_LARGEST >> 20} MiB")
    return content


def _filter_mistake(text: str) -> str | None:
    """The mistake in a filter of a bridge, or None."""
    from gateway.errors import AmqpError
    from gateway.filters.parse.sql import parse_sql

    try:
        parse_sql(text)
    except AmqpError as error:
        return error.description
    return None


def make_ring(signing: SigningKeys) -> KeyRing:
    """The key ring of a policy."""
    from gateway.response.cookies.keys import KeyRing, SigningSecret

    keys = {name: SigningSecret(key.secret, key.until_ms) for name, key in signing.keys.items()}
    return KeyRing(signing.active, keys, seal=signing.seal, skew_ms=signing.skew)


def make_filter_rules(filters: Filters) -> Rules:
    """The rules for reading filter sets, from the policy's section `filters`."""
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
    """Whether responses are routed in this scope: its policy enables it, and there is a signing key."""
    model = policy.model.scopes.get(scope)
    return model is not None and model.response_routing and policy.signing is not None


def offered(policy: CompiledPolicy, scope: str) -> tuple[str, ...]:
    """The capabilities that an open in a scope offers (docs/conformance.md 0.4)."""
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
