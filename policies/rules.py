"""The compiled policy: where an address leads, which users may use it, and the error for the others.

`route` is a pure function of the address; callers keep a bounded cache of it. An address is refused if it is empty,
longer than 1024 characters or contains control characters (`patterns.routable`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from policies.access import AccessEntries, CompiledAccess, Grant
from policies.egress import SinkRule
from policies.model.kafka import KafkaCluster
from policies.model.kafka_security import security_settings
from policies.model.policy import Policy
from policies.model.scopes.access import Action
from policies.model.scopes.addresses import DirectMode, KeySource, RecordMode, Replies, ServiceName
from policies.model.scopes.assignment import Assignment
from policies.model.scopes.reading import LogReadingRule
from policies.text.diagnostics import Diagnostic, PolicyLine
from policies.values.base import Secret
from policies.values.pattern_index import PatternIndex
from policies.values.patterns import Pattern, routable
from policies.values.units import Millis

INFO_SUFFIX: Final = "/$info"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED: Final = "amqp:unauthorized-access"
NOT_ALLOWED: Final = "amqp:not-allowed"
REDIRECT: Final = "amqp:link:redirect"
MAX_HOPS: Final = 8
"""The maximum number of relays into other scopes that the resolver follows (gateway/nodes/scope.py)."""
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", re.ASCII)


VERBS: Final[Mapping[Action, str]] = {
    "send": "send to",
    "receive": "receive from",
    "info": "ask for information about",
    "subscribe": "subscribe to",
}
"""The verb for each action in a sentence; the address follows it."""


@dataclass(frozen=True, slots=True)
class DirectRoute:
    """A node of this scope without storage, which matches attached senders and receivers."""

    mode: DirectMode
    where: PolicyLine = field(compare=False)


@dataclass(frozen=True, slots=True)
class RelayRoute:
    """An address of another scope, or at the container behind a connector; exactly one of the two is set."""

    scope: str | None
    connector: str | None
    address: str
    replies: Replies
    where: PolicyLine = field(compare=False)
    uses: int | None = None


@dataclass(frozen=True, slots=True)
class KafkaRoute:
    """An event-stream node on a topic."""

    cluster: str
    topic: str
    assignment: Assignment
    mode: RecordMode
    credit: int
    tombstones: bool
    reading: LogReadingRule
    where: PolicyLine = field(compare=False)
    key_from: tuple[KeySource, ...] = ("group-key",)


@dataclass(frozen=True, slots=True)
class ServiceRoute:
    """A responder inside the gateway."""

    service: ServiceName
    where: PolicyLine = field(compare=False)
    manager: str | None = None
    """The subscription manager, where that is the service."""


@dataclass(frozen=True, slots=True)
class RedirectRoute:
    """A node in another container, which clients attach to instead."""

    hostname: str
    host: str
    port: int
    address: str
    where: PolicyLine = field(compare=False)


Route = DirectRoute | RelayRoute | KafkaRoute | ServiceRoute | RedirectRoute


def legal_topic(name: str) -> bool:
    """Whether a Kafka topic can have this name; it refuses hostile captures."""
    return _TOPIC.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on an attach: a route, or the AMQP error `condition` with a `reason` for the peer."""

    route: Route | None
    grant: Grant
    info: bool
    condition: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CompiledAddress:
    """One address rule: `build` makes a route of an address and its captures (None: no such node).

    `refusal` explains why captures lead to a topic that the rule does not name (`policies/internal_topics.py`).
    """

    match: Pattern
    build: Callable[[str, dict[str, str]], Route | None]
    where: PolicyLine
    refusal: Callable[[dict[str, str]], str | None] = lambda _captures: None


class AddressRules:
    """The address rules of one scope in their order, found by address."""

    __slots__ = ("_addresses", "_index")

    def __init__(self, addresses: tuple[CompiledAddress, ...], index: PatternIndex) -> None:
        """`index`: the patterns of `addresses`."""
        self._addresses = addresses
        self._index = index

    def route(self, address: str) -> Route | None:
        """Where the address leads: the first rule that matches decides, even when it leads nowhere."""
        rule = self.rule(address)
        return None if rule is None else rule.build(address, rule.match.match(address) or {})

    def rule(self, address: str) -> CompiledAddress | None:
        """The first address rule that matches."""
        at = self._index.first(address) if routable(address) else None
        return None if at is None else self._addresses[at]

    @property
    def patterns(self) -> list[str]:
        """The patterns of the address rules, in the order in which they are tried."""
        return [rule.match.text for rule in self._addresses]


class ScopeRules:
    """The rules of one scope.

    They refer to the address rules of the other scopes, and nothing refers back: a policy that a reload has replaced is
    gone with its last use, although the gateway almost never looks for circles (`gateway/server/process.py`).
    """

    __slots__ = ("_access", "_addresses", "_everywhere", "event_streams", "name", "responses")

    def __init__(
        self,
        name: str,
        everywhere: Mapping[str, AddressRules],
        access: tuple[CompiledAccess, ...],
        *,
        event_streams: bool,
        responses: bool,
    ) -> None:
        """`everywhere`: the address rules of all scopes, for relays.

        `event_streams`: some address is one of an event log, here or behind relays into other scopes.
        `responses`: some address accepts requests that expect responses.
        """
        self.name = name
        self.event_streams = event_streams
        self.responses = responses
        self._everywhere = everywhere
        self._addresses = everywhere[name]
        self._access = AccessEntries(access)

    def route(self, address: str) -> Route | None:
        """Where the address leads: the first rule that matches decides, even when it leads nowhere."""
        return self._addresses.route(address)

    def rule(self, address: str) -> CompiledAddress | None:
        """The first address rule that matches."""
        return self._addresses.rule(address)

    @property
    def patterns(self) -> list[str]:
        """The patterns of the address rules, in the order in which they are tried."""
        return self._addresses.patterns

    def end_of(self, route: Route | None) -> Route | None:
        """The last route behind a route of this scope, which may lead through relays into other scopes."""
        hops = 0
        while isinstance(route, RelayRoute) and route.scope is not None and hops < MAX_HOPS:
            route, hops = self._everywhere[route.scope].route(route.address), hops + 1
        return route

    def leads_to_log(self, route: Route | None) -> bool:
        """Whether an event log is at the end of a route of this scope, here or behind relays into other scopes."""
        return isinstance(self.end_of(route), KafkaRoute)

    def log_of(self, address: str) -> Route | None:
        """The route to the event log whose `$info` is at `address` (ES 6); None: it is not such an address."""
        base = address.removesuffix(INFO_SUFFIX)
        route = None if base == address else self.route(base)
        return route if self.leads_to_log(route) else None

    def access(self, user: str, action: Action, address: str) -> Grant:
        """Whether some entry allows this user to do this there."""
        return self._access.grant(user, action, address) if routable(address) else Grant(False)

    def may_be_answered_at(self, user: str, address: str) -> bool:
        """Whether responses to this user's requests may go to `address`.

        They may go where the user may send, or may receive and there is no topic. A response at a topic
        stays there for all its readers, so it needs the right to send.
        """
        if self.access(user, "send", address).allowed:
            return True
        return self.access(user, "receive", address).allowed and not self.leads_to_log(self.route(address))

    def reply_to_patterns(self, user: str) -> tuple[str, ...]:
        """The patterns of the addresses that `may_be_answered_at` allows."""
        named = self._access.named(user)
        found = [on.text for entry in named if entry.may & {"send", "receive"} for on in entry.on]
        return tuple(dict.fromkeys(found))

    def entries_for(self, user: str) -> tuple[int, ...]:
        """The access entries that name this user: users with the same entries have the same rights."""
        return self._access.positions(user)

    def decide(self, user: str, action: Action, address: str) -> Decision:
        """The decision on an attach. Existence comes first, then permission (docs/conformance.md 0.3)."""
        suffixed = self.log_of(address) is not None
        right: Action = "info" if suffixed else action
        base = address.removesuffix(INFO_SUFFIX) if right == "info" else address
        route = self.route(base)
        if route is None or (right == "info" and not self.leads_to_log(route)):
            return Decision(None, Grant(False), False, NOT_FOUND, "no node has this address")
        grant = self.access(user, right, base)
        if not grant.allowed:
            return Decision(route, grant, right == "info", UNAUTHORIZED, f"not allowed to {VERBS[right]} this address")
        if suffixed and action == "send":
            return Decision(route, grant, True, NOT_ALLOWED, "$info can only be read")
        if isinstance(route, RedirectRoute):
            return Decision(route, grant, False, REDIRECT, "this node is in another container")
        return Decision(route, grant, right == "info")


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that verifies until `until_ms` (None: always)."""

    secret: bytes = field(repr=False)
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The key ring: `active` signs, all of them verify."""

    active: str
    keys: Mapping[str, SigningKey]
    expiry: Millis
    skew: Millis
    seal: bool
    max_cookie: int | None = None


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """A policy without a mistake: its model, its compiled rules and the secrets it refers to."""

    file: Path
    model: Policy
    scopes: Mapping[str, ScopeRules]
    signing: SigningKeys | None
    warnings: tuple[Diagnostic, ...]
    secrets: Mapping[Secret, bytes] = field(repr=False, compare=False)
    sinks: Mapping[tuple[str, str], tuple[SinkRule, ...]] = field(default_factory=dict)
    """The sinks that each subscription manager may reach, by scope and name."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Digests of the files that the policy names, at the time when it was loaded."""
    digest: str = ""
    """The first digits of the policy file's SHA-256: which of its versions is in force."""

    text: str = field(default="", repr=False, compare=False)
    """The policy file."""

    def path(self, name: str) -> Path:
        """A file the policy names; relative names start at the policy file."""
        return self.file.parent / name

    def secret(self, secret: Secret) -> bytes:
        """The value of a secret."""
        return self.secrets[secret.reference]

    def client_settings(self, cluster: KafkaCluster) -> dict[str, str]:
        """The librdkafka settings of a cluster, secrets filled in."""
        found = {
            name: value if isinstance(value, str) else self.secret(value).decode()
            for name, value in cluster.client.items()
        }
        if cluster.security is not None:
            found |= security_settings(
                cluster.security, lambda name: str(self.path(name)), lambda secret: self.secret(secret).decode()
            )
        return found

    def cluster_files(self, cluster: KafkaCluster) -> tuple[bytes | None, ...]:
        """The contents of a cluster's certificates and keys: if they change, its clients have to be recreated."""
        return tuple(self.files.get(name) for _, name in cluster.security.files) if cluster.security else ()
