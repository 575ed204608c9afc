"""A scope: one AMQP address space with its listeners, connectors and rules (policy section `scopes`)."""

from typing import Annotated

from pydantic import Field

from policies.model.scopes.access import AccessRule
from policies.model.scopes.addresses import AddressRule
from policies.model.scopes.api import ApiSection
from policies.model.scopes.bridge import BridgeEntry
from policies.model.scopes.connect import ConnectorSection
from policies.model.scopes.listen import ListenerSection
from policies.model.scopes.subscriptions import SubscriptionManagerEntry
from policies.values.base import Count, Flag, StrictSection, parsed
from policies.values.units import Duration, PerTime, parse_duration


class ScopeSection(StrictSection):
    """One address space: nothing in it is visible from another scope unless an address rule relays there."""

    listen: tuple[ListenerSection, ...] = Field(default=(), description="listeners for client connections")
    connect: tuple[ConnectorSection, ...] = Field(default=(), description="containers that the gateway connects to")
    addresses: tuple[AddressRule, ...] = Field(
        default=(),
        description="types of addresses: match and one of direct, relay, kafka, service, redirect; the first match "
        "wins",
    )
    bridge: tuple[BridgeEntry, ...] = Field(
        default=(), description="events that the gateway itself forwards to another address or container"
    )
    api: tuple[ApiSection, ...] = Field(
        default=(), description="ports at which clients manage subscriptions over HTTP"
    )
    subscriptions: tuple[SubscriptionManagerEntry, ...] = Field(
        default=(), description="managers of CloudEvents subscriptions, which push events of Kafka topics to sinks"
    )
    access: tuple[AccessRule, ...] = Field(default=(), description="which users may do what; anything that no entry "
        "allows is denied")
    anonymous_relay: Flag = Field(default=True, description="offer the anonymous terminus (null target)")
    strict_desired: Flag = Field(
        default=False,
        description="true: only clients whose open desired ANONYMOUS-RELAY may attach to the anonymous terminus; "
        "many clients attach without desiring it",
    )
    temporary: Flag = Field(
        default=True,
        description="allow dynamic sources and targets; they need no access entry, and only the connection that "
        "created a node receives from it",
    )
    transactions: Flag = Field(
        default=True,
        description="let clients attach to a transaction coordinator and send and settle in transactions",
    )
    transaction_timeout: Annotated[Duration, Field(ge=1000, le=840_000)] = parsed(
        parse_duration,
        "60s",
        "how long a transaction may take from its first message to its discharge; then it is rolled back",
    )
    max_transactions: Count = Field(
        default=1000, description="maximum number of transactions that the clients of this scope have at a time"
    )
    connection_transactions: Count = Field(
        default=100, description="maximum number of transactions that one connection has at a time"
    )
    response_routing: Flag = Field(
        default=True,
        description="offer RESPONSE_ANNOTATIONS_V1_0 and annotate requests (cookies); false: requests into this "
        "scope are rewritten, and $replies.<scope> still accepts responses to requests that were annotated earlier",
    )
    response_rate: PerTime | None = Field(
        default=None,
        description="maximum rate of responses from one user of this scope, or one connector; responses above it are "
        "queued; default: no limit",
    )
