"""A bridge: messages that the gateway itself moves from one place to another, and remembers how far it got (KM-24)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from policies.model.base import Also, Count, Flag, Name, Strict

Text = Annotated[str, Field(min_length=1, max_length=1024)]


class BridgeEnd(Strict):
    """Where a bridge takes from or brings to; an address of this scope may be written as text alone."""

    connector: Name | None = Field(
        default=None, description="connector of this scope; default: none, `address` is one of this scope"
    )
    address: Text = Field(description="address there")

    @model_validator(mode="before")
    @classmethod
    def _text_is_address(cls, value: Any) -> Any:
        return {"address": value} if isinstance(value, str) else value

    def __str__(self) -> str:
        return self.address if self.connector is None else f"{self.address} at connector {self.connector}"


End = Annotated[BridgeEnd, Also(lambda _: [{"type": "string"}])]


class BridgeEntry(Strict):
    """Events that the gateway itself moves, from a topic or a remote event log to anywhere, in order, at least once.

    An event is done with when its target has accepted or rejected it. Of several gateways that share the state one
    moves, the others stand by. The policy itself allows it: access rules are for clients.
    """

    name: Name = Field(description="what positions, metrics and log lines know it by; another name begins anew")
    source: End = Field(
        alias="from",
        description="address of this scope that is a Kafka topic, or {connector: ..., address: ...}: an event log, or "
        "a queue, of that container",
    )
    to: End = Field(description="address of this scope, or {connector: ..., address: ...}")
    durable: Flag = Field(
        default=True, description="true: go on after the last event that was done with; false: begin at `start`, always"
    )
    start: Literal["latest", "earliest"] = Field(
        default="latest", description="where to begin while there is no position yet"
    )
    filter: Annotated[str, Field(min_length=1, max_length=65_535)] | None = Field(
        default=None, description="only events that this SQL is true of (filters.md); default: all"
    )
    group: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="remote event log: consumer group to attach in; it decides the partition"
    )
    partition: Text | None = Field(default=None, description="only this partition of the event log; default: all")
    keep_partitions: Flag = Field(
        default=False,
        description="true: events name their partition as event-streams-target-partition, so that each gets to the "
        "partition of the same name; false: the target chooses, by key",
    )
    credit: Count = Field(default=1000, le=100_000, description="messages in flight; never more than `to` takes")
