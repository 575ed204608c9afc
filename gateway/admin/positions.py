"""How far the links of this process have read the partitions that their groups own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.admin.walk import links_after
from policies.rules import KafkaRoute

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.amqp.transport.connection import Connection
    from gateway.observability.roster import Roster

_GROUP: Final = "event-streams-consumer-group"


class GroupReader(NamedTuple):
    """A link that reads a partition for a group, and the offset that it reads next."""

    link: str
    user: str
    position: int


Readers = Mapping[str, Mapping[int, GroupReader]]
"""By group (`cluster/topic/group`) and partition."""


async def group_readers(roster: Roster[Connection]) -> Readers:
    """Look at all links, a few in each turn of the loop."""
    found: dict[str, dict[int, GroupReader]] = {}
    async for key, link in links_after(roster, (0, 0)):
        if (group := _group_of(link)) is not None:
            name = f"{key[0]}.{key[1]}"
            readers = {at: GroupReader(name, link.user, offset) for at, offset in link.handler.positions().items()}
            found.setdefault(group, {}).update(readers)
    return found


def _group_of(link: Link) -> str | None:
    if link.incoming or not link.open or link.decision is None:
        return None
    route, group = link.decision.routes[-1], link.properties.get(_GROUP)
    if not isinstance(route, KafkaRoute) or group is None:
        return None
    return f"{route.cluster}/{route.topic}/{group}"
