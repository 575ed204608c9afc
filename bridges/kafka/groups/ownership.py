"""Which gateway process serves a partition, if the policy says `ownership: sharded` (ES-4-2, ES-4-7).

Every process publishes its endpoints, one for each scope. Rendezvous hashing gives each partition to one process: all
processes compute the same result, and one that joins or leaves moves only its own partitions. Attached links stay where
they are; the next attach is redirected to the process that owns the partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from gateway.errors import AmqpError
from gateway.links.link import NodeLink
from gateway.nodes.redirect import redirect_error
from gateway.state.leases.manager import Leases

Endpoint = tuple[str, int]


class ShardProcess(NamedTuple):
    """A gateway process: its member id, and its endpoint for the clients of each scope."""

    member: str
    places: Mapping[str, Endpoint]


def processes_of(members: Mapping[str, str]) -> list[ShardProcess]:
    """The processes from what the members publish; a process without endpoints owns no partition."""
    processes = []
    for member, about in members.items():
        try:
            places = {scope: (str(host), int(port)) for scope, (host, port) in json.loads(about)["places"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # another version of the gateway
        if places:
            processes.append(ShardProcess(member, places))
    return processes


def process_for(processes: Iterable[ShardProcess], topic: str, partition: int) -> ShardProcess | None:
    """The process that owns a partition; None: there are no processes."""
    return max(processes, key=lambda process: _weight(process, topic, partition), default=None)


def _weight(process: ShardProcess, topic: str, partition: int) -> bytes:
    # From its endpoints, not its member id: a process that is restarted gets the same partitions.
    seed = f"{sorted(process.places.items())}|{topic}|{partition}"
    return blake2b(seed.encode(), digest_size=8).digest()


class PartitionOwnership:
    """The owners of the partitions of one event log, as of one attach."""

    def __init__(self, processes: list[ShardProcess], own_member: str, topic: str) -> None:
        self._processes: Final = processes
        self._own_member: Final = own_member
        self._topic: Final = topic

    @classmethod
    async def now(cls, leases: Leases, topic: str) -> PartitionOwnership:
        """Ask for the members; if they are unknown, this process serves everything rather than redirect wrongly."""
        try:
            return cls(processes_of(await leases.members()), leases.member, topic)
        except AmqpError:
            return cls([], leases.member, topic)

    def redirect(self, link: NodeLink, partition: int) -> AmqpError | None:
        """The redirect to the process that serves this partition; None: this process does."""
        process = process_for(self._processes, self._topic, partition)
        if process is None or process.member == self._own_member or link.scope not in process.places:
            return None
        host, port = process.places[link.scope]
        return redirect_error(hostname=host, host=host, port=port, address=link.address or "")

    def local(self, link: NodeLink, partitions: Iterable[int]) -> tuple[int, ...]:
        """The partitions that this process serves."""
        return tuple(each for each in partitions if self.redirect(link, each) is None)
