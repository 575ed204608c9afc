"""A bridge: events that the gateway itself forwards, with a stored position (KM-24)."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from policies.values.base import Also, Count, Flag, Name, Strict

Text = Annotated[str, Field(min_length=1, max_length=1024)]


class BridgeEnd(Strict):
    """The source or target of a bridge; an address of this scope may be written as plain text."""

    connector: Name | None = Field(
        default=None, description="connector of this scope; default: none, then `address` is one of this scope"
    )
    address: Text = Field(description="address at the connector's container or in this scope")

    def __str__(self) -> str:
        return self.address if self.connector is None else f"{self.address} at connector {self.connector}"


def _end(value: object) -> object:
    return {"address": value} if isinstance(value, str) else value


End = Annotated[BridgeEnd, BeforeValidator(_end), Also(lambda _: [{"type": "string"}])]


class BridgeEntry(Strict):
    """Events that the gateway itself forwards from a topic or a remote event log, in order and at least once.

    An event is finished when its target has accepted or rejected it. Of several gateways that share the state, one
    forwards and the others stand by. Bridges need no access entries: access rules are for clients.
    """

    name: Name = Field(description="name of the bridge in positions, metrics and log lines; under a new name it "
        "starts afresh")
    source: End = Field(
        alias="from",
        description="address of this scope that is a Kafka topic, or {connector: ..., address: ...}: an event log or "
        "queue of that container",
    )
    to: End = Field(description="address of this scope, or {connector: ..., address: ...}")
    durable: Flag = Field(
        default=True, description="true: continue after the last finished event; false: always begin at `start`"
    )
    start: Literal["latest", "earliest"] = Field(
        default="latest", description="where to begin as long as no position is stored"
    )
    filter: Annotated[str, Field(min_length=1, max_length=65_535)] | None = Field(
        default=None, description="forward only events that match this SQL filter (filters.md); default: all"
    )
    group: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="remote event log: consumer group to join; it assigns the partition"
    )
    partition: Text | None = Field(default=None, description="forward only this partition of the event log; default: "
        "all")
    keep_partitions: Flag = Field(
        default=False,
        description="true: events carry their partition as event-streams-target-partition, so that each goes to the "
        "partition of the same name; false: the target chooses by key",
    )
    credit: Count = Field(default=1000, le=100_000, description="maximum number of messages in flight, limited by "
        "the credit of `to`")
