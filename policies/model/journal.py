"""The journal of boundary decisions: where it is written and how much of it (docs/journal.md)."""

from typing import Annotated

from pydantic import Field, StrictInt

from policies.values.base import Count, Flag, Name, Strict, parsed
from policies.values.units import Duration, parse_duration


class JournalSection(Strict):
    """The gateway's decisions, as records of a Kafka topic: metadata only, without slowing traffic down."""

    kafka: Name = Field(description="name of a cluster under kafka")
    topic: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")] = Field(
        default="scopegate.journal", description="topic of the cluster; it has to exist, except in an embedded cluster"
    )
    interval: Annotated[Duration, Field(ge=100, le=3_600_000)] = parsed(
        parse_duration, "10s", "how often the counts of links and crossings are written"
    )
    sample: Annotated[StrictInt, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description="sample every n-th message of each link (0 disables sampling: counts only)"
    )
    filters: Flag = Field(
        default=False,
        description="true: record the filters of receivers in full, so that a simulation can evaluate them under "
        "other rules; their constants may be data of the clients. Default: only the types of the filters",
    )
    buffer: Annotated[Count, Field(le=50_000)] = Field(
        default=10_000,
        description="maximum number of rows waiting for Kafka, and of kinds of links being counted; rows beyond it "
        "are lost, and the loss is reported",
    )
