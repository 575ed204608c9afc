"""The process itself: its name, ports, shared state and limits (policy section `gateway`)."""

from typing import Annotated, Literal

from pydantic import Field

from policies.model.admin import AdminSection
from policies.model.journal import JournalSection
from policies.model.tracing import TracingSection
from policies.values.base import Count, Name, StrictSection, parsed
from policies.values.units import Duration, PlaceOrOff, Size, State, parse_bind, parse_duration


class GatewaySection(StrictSection):
    """The process itself."""

    id: Name = Field(default="scopegate", description="name of this gateway, and its container id")
    http: PlaceOrOff = parsed(parse_bind, "127.0.0.1:8672", "host:port of /healthz, /readyz and /metrics, or off")
    admin: AdminSection = Field(default_factory=AdminSection, description="admin API and commands, see AdminSection")
    state: State = Field(default="memory", description="shared state: memory, or redis://host:port/db")
    lease: Annotated[Duration, Field(ge=1000, le=300_000)] = parsed(
        parse_duration,
        "10s",
        "state in Redis: how long a dead gateway process retains the partitions of its consumer groups",
    )
    user_termini: Count = Field(
        default=10_000,
        le=1_000_000,
        description="maximum number of stored positions of one user, of durable links and for each partition of its "
        "consumer groups; an attach that needs one more gets amqp:resource-limit-exceeded",
    )
    memory: Annotated[Size, Field(ge=64 * 2**20)] | None = Field(
        default=None,
        description="memory that the process may use: four fifths of it, less 96 MiB, may be held for peers; "
        "default: the limit of its container (cgroup), or 1GiB if there is none",
    )
    drain: Duration = parsed(parse_duration, "10s", "how long SIGTERM waits for outcomes before it closes")
    drain_delay: Duration = parsed(
        parse_duration,
        "0s",
        "how long the gateway continues to serve after SIGTERM, with /readyz at 503, before it drains: until load "
        "balancers have noticed",
    )
    log: Literal["auto", "console", "json"] = Field(
        default="auto", description="auto: console in a terminal, json otherwise"
    )
    journal: JournalSection | None = Field(
        default=None, description="journal of decisions, see JournalSection; default: none"
    )
    tracing: TracingSection | None = Field(
        default=None, description="spans for an OTLP collector, see TracingSection; default: none"
    )
