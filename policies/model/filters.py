"""Limits of the filters of receiving links, and the interpretation of what they leave open (docs/filters.md)."""

from typing import Annotated, Literal

from pydantic import Field

from policies.values.base import Count, StrictSection


class Filters(StrictSection):
    """Filters on sources; filters that exceed a limit are refused with amqp:resource-limit-exceeded."""

    unknown: Literal["ignore", "refuse"] = Field(
        default="ignore",
        description="filters of unknown types: ignore (the answer, which lists the filters in force, omits them) or "
        "refuse (amqp:not-implemented); malformed filters of known types are always refused",
    )
    without_position: Literal["latest", "earliest"] = Field(
        default="latest",
        description="where an event stream starts for filters that do not mention a position: at new events only, or "
        "at the earliest retained event",
    )
    timestamps: Literal["auto", "ms"] = Field(
        default="auto",
        description="numbers compared with event-streams-timestamp: auto (below 10^11 seconds, else milliseconds), or "
        "ms: always milliseconds",
    )
    max_length: Annotated[Count, Field(le=16_384)] = Field(
        default=4096, description="characters of an expression; all expressions of a link may have twice as many"
    )
    max_tokens: Annotated[Count, Field(le=2000)] = Field(
        default=200, description="tokens of an expression: words, signs and constants"
    )
    max_depth: Annotated[Count, Field(le=16)] = Field(default=8, description="nested groups (all, any, not)")
    max_terms: Annotated[Count, Field(le=8192)] = Field(default=1024, description="terms of all filters of a link")
    max_items: Annotated[Count, Field(le=2048)] = Field(
        default=256,
        description="filters of a link, members of a group, entries of a property filter, values of IN",
    )
