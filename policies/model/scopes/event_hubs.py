"""Settings of a listener for clients of Azure Event Hubs (`scopes.<name>.listen[].event_hubs`)."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field, field_validator

from policies.values.base import Parser, Secret, StrictSection, parsed
from policies.values.patterns import Template, parse_template

HUB = "hub"
"""The capture for the name of the event hub."""
_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 1024, "examples": ["events/{hub}"]}


def _hub_address(value: object) -> Template:
    template = value if isinstance(value, Template) else parse_template(value)
    if set(template.names) != {HUB}:
        raise ValueError("must contain {hub}, and no other capture")
    return template


class SasKey(Secret):
    """A shared access key, which signs the tokens of clients (`SharedAccessKeyName`, `SharedAccessKey`)."""

    name: str = Field(min_length=1, max_length=256, description="name of the key, `SharedAccessKeyName`")
    user: str = Field(
        min_length=1, max_length=256, description="user whose rights (`access`) tokens signed with this key have"
    )


@dataclass(frozen=True, slots=True)
class SharedKey:
    """A key with its secret, as the adapter uses it."""

    name: str
    user: str
    secret: bytes = field(repr=False)


class EventHubsSection(StrictSection):
    """Settings of a listener for clients of Azure Event Hubs; see docs/guide/from-event-hubs.md.

    A token opens the event hub that it names, or a part of it, with the rights of its key's `user`, until it expires or
    a reload removes or changes its key. Then its links are detached, unless the client has sent another one.
    """

    address: Annotated[Template, Parser(_hub_address, _SCHEMA)] = parsed(
        _hub_address, "{hub}", "address of the event hub {hub} in this scope; an address rule maps it to a topic"
    )
    keys: tuple[SasKey, ...] = Field(min_length=1, description="keys that sign tokens, each with its user")
    partition_key: Literal["kafka", "service"] = Field(
        default="kafka",
        description="the partition of an event with a partition key: kafka (the one that Kafka's Java clients choose, "
        "like all other clients of the gateway), or service (the one that Event Hubs chooses for that many partitions)",
    )

    @field_validator("keys")
    @classmethod
    def _named_once(cls, keys: tuple[SasKey, ...]) -> tuple[SasKey, ...]:
        if len({key.name for key in keys}) < len(keys):
            raise ValueError("two keys have the same name")
        return keys
