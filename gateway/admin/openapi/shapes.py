"""The shapes of the admin API's documents; tests compare them with what the handlers answer."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from policies.model.admin import AdminRole
from policies.values.base import Strict

Text = str | None
Moment = AwareDatetime | None


class RefusedRequest(Strict):
    """Why a request was refused: `error` for programs, `message` for people."""

    error: str
    message: str


class PartState(Strict):
    """Whether a part is ready, and whether the gateway is unready without it."""

    ready: bool
    required: bool
    detail: str


class PolicyName(Strict):
    """The policy file in force, and the first digits of its SHA-256."""

    file: str
    digest: str


class Status(Strict):
    """What the gateway is, how much it serves, and whether its parts are ready."""

    gateway: str
    version: str
    pid: int
    since: AwareDatetime
    uptime_seconds: float
    ready: bool
    parts: dict[str, PartState]
    policy: PolicyName
    connections: int
    links: int
    unsettled: int
    held_bytes: int
    held_limit_bytes: int


class ConnectionShape(Strict):
    """A connection of a listener, or of a connector."""

    id: str
    name: str
    state: str = Field(description="opening, open or closing")
    scope: str
    connector: Text
    peer: Text
    user: Text
    mechanism: Text
    tls: Text = Field(description="the version, as TLSv1.3")
    container: Text
    since: Moment
    links: int
    unsettled: int
    held_bytes: int
    bytes_in: int
    bytes_out: int


class ConnectionPage(Strict):
    """Connections, and the id after which the next page begins."""

    items: list[ConnectionShape]
    next: Text
    total: int


class LinkShape(Strict):
    """A link; `rate` is in messages a second, and null until somebody has looked for two seconds."""

    id: str
    connection: str
    scope: str
    user: str
    name: Text
    direction: str = Field(description="in: the client sends; out: it receives")
    state: str = Field(description="attaching, open or ending")
    address: Text
    rule: Text
    credit: int
    unsettled: int
    transfers: int
    rate: float | None
    outcomes: dict[str, int]
    refused: int
    waiting_since: Moment = Field(description="since when its sender has had no credit and has sent nothing")


class LinkPage(Strict):
    """Links, and the id after which the next page begins."""

    items: list[LinkShape]
    next: Text


class AddressShape(Strict):
    """An address rule; the first that matches decides."""

    id: str
    scope: str
    match: str
    kind: str
    to: str


class ClusterShape(Strict):
    """A Kafka cluster."""

    id: str
    bootstrap: str
    ready: bool
    detail: str
    topics: int
    in_flight: int
    events: dict[str, int]


class TopicShape(Strict):
    """A topic that somebody uses, or has used."""

    id: str
    cluster: str
    topic: str
    partitions: int


class PartitionEnd(Strict):
    """A partition and the offset after its last record."""

    partition: int
    end: int


class TopicEnds(Strict):
    """A topic with the ends of its partitions, as Kafka says them now."""

    id: str
    cluster: str
    topic: str
    partitions: list[PartitionEnd]


class OwnerShape(Strict):
    """Who owns a partition in a group."""

    partition: int
    epoch: int
    fence: int
    process: str
    here: bool
    moving: bool
    chosen_by: str


class OwnerHere(OwnerShape):
    """An owner; the link, its position and how far it is behind are known of those in this process."""

    link: Text
    user: Text
    position: int | None
    end: int | None
    lag: int | None


class GroupShape(Strict):
    """The partitions of one group."""

    owners: list[OwnerShape]
    free: list[int]
    waiting: int
    sharing: int


class GroupHere(Strict):
    """A group with links in this process."""

    id: str
    cluster: str
    topic: str
    group: str
    owners: list[OwnerHere]
    free: list[int]
    waiting: int
    sharing: int


class BridgeShape(Strict):
    """A bridge of the policy."""

    id: str
    scope: str
    bridge: str
    up: bool
    ready: bool
    detail: str
    held: int
    lag: int | None
    delay_seconds: float
    events: dict[str, int]


class ConnectorShape(Strict):
    """A connector of the policy."""

    id: str
    scope: str
    connector: str
    to: list[str]
    up: bool
    ready: bool
    detail: str
    links: int
    unsettled: int


class ReloadShape(Strict):
    """How a reload ended: `ok`, `failed` (mistakes) or `error`."""

    at: Moment
    result: str
    problems: list[str]
    links_closed: int = 0
    logins_revoked: int = 0


class ReloadAnswer(ReloadShape):
    """The same, with the digest of the policy in force."""

    digest: str


class EarlierPolicy(Strict):
    """A policy that was in force, and since when."""

    digest: str
    since: Moment


class ScopeSummary(Strict):
    """What the policy has for a scope."""

    listeners: list[str]
    connectors: list[str]
    addresses: int
    access: int


class PolicyShape(Strict):
    """The policy in force."""

    file: str
    digest: str
    since: Moment
    before: list[EarlierPolicy]
    warnings: list[str]
    last_reload: ReloadShape | None
    scopes: dict[str, ScopeSummary]


class PolicyDiff(Strict):
    """What differs from the policy before, as `diff -u`; `note` says what is left out."""

    before: Text
    now: str
    note: Text
    lines: list[str]


class ExplanationShape(Strict):
    """What the policy answers, and the lines that decide it."""

    scope: str
    user: str
    address: str
    action: str
    allowed: bool
    condition: Text
    kind: str
    route: Text
    route_where: Text
    access_where: Text
    traced: Text
    replies: list[str]
    lines: list[str]


class KeyShape(Strict):
    """A signing key; its age is known if it is in a file."""

    id: str
    active: bool
    age_days: int | None
    until: Moment


class CertificateShape(Strict):
    """A certificate that the policy names, or why its file cannot be read (`error`)."""

    where: str
    use: str
    file: str
    error: str | None = None
    subject: str | None = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    days: int | None = None
    valid: bool | None = None


class RefusalShape(Strict):
    """A refused link, message or login, and the line of the policy in force that decides about the address."""

    id: str
    at: AwareDatetime
    kind: str
    scope: str
    user: Text
    connection: Text
    action: Text
    address: Text
    condition: Text
    description: Text
    policy: Text


class FlowShape(Strict):
    """The links of a rule in one direction, or of a connector, and their messages a second together."""

    scope: str
    connector: Text
    rule: Text
    direction: str
    links: int
    rate: float


class RatesShape(Strict):
    """Messages a second, and events a second of clusters."""

    flows: list[FlowShape]
    clusters: dict[str, dict[str, float]]


class SessionShape(Strict):
    """Who the caller is; `browser`: by the cookie of a session."""

    name: str
    role: AdminRole
    browser: bool


class TokenBody(Strict):
    """The body of a login."""

    token: str


class Ended(Strict):
    """Whose session has ended."""

    ended: str


class Closed(Strict):
    """The id of what was closed."""

    closed: str


class CheckAnswer(Strict):
    """What a reload would find."""

    problems: list[str]
    warnings: list[str]


class DrainAnswer(Strict):
    """The gateway ends."""

    draining: bool
    unsettled: int
