"""Which users may do what on which addresses (`scopes.<name>.access`)."""

from typing import Annotated, Literal

from pydantic import Field

from policies.model.scopes.addresses import Match
from policies.values.base import OneOrMany, Strict, parsed
from policies.values.patterns import parse_pattern

Action = Literal["send", "receive", "info", "subscribe"]


class AccessRule(Strict):
    """Which users may do what on which addresses; anything that no entry allows is denied."""

    who: OneOrMany[Annotated[str, Field(min_length=1, max_length=256)]] = Field(
        default=("*",),
        min_length=1,
        description='user or list of users; "*" is everybody, anonymous included',
    )
    may: OneOrMany[Action] = Field(
        min_length=1,
        description="allowed actions; send or receive include info; subscribe: to have the events of an address "
        "pushed to sinks by a subscription manager",
    )
    on: Annotated[OneOrMany[Match], Field(min_length=1)] = parsed(
        lambda text: (parse_pattern(text),), "**", "pattern or list of patterns of addresses"
    )
