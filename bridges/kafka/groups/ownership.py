"""Which gateway process serves a partition where the policy says `ownership: sharded` (ES-4-2, ES-4-7).

Every process publishes where clients reach it, per scope. Rendezvous hashing gives each partition to one process: all
processes compute the same, and one that joins or leaves moves only its own partitions. Attached links stay where they
are; the next attach is redirected to the process that the partition belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from gateway.errors import AmqpError
from gateway.nodes.link import Link
from gateway.nodes.redirect import redirect_error
from gateway.state.leases.manager import Leases

Place = tuple[str, int]


class ShardProcess(NamedTuple):
    """A gateway process: its member id, and where clients of each scope reach it."""

    member: str
    places: Mapping[str, Place]


def told(places: Mapping[str, Place]) -> str:
    """What a process says about itself."""
    return json.dumps({"places": places}, sort_keys=True)


def heard(members: Mapping[str, str]) -> list[ShardProcess]:
    """What the others have said; who cannot be reached by clients serves no partition of its own."""
    processes = []
    for member, about in members.items():
        try:
            places = {scope: (str(host), int(port)) for scope, (host, port) in json.loads(about)["places"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # another version of the gateway
        if places:
            processes.append(ShardProcess(member, places))
    return processes


def home(processes: Iterable[ShardProcess], topic: str, partition: int) -> ShardProcess | None:
    """The process that a partition belongs to; None: there is none to draw from."""
    return max(processes, key=lambda process: _draw(process, topic, partition), default=None)


def _draw(process: ShardProcess, topic: str, partition: int) -> bytes:
    # By its places, not its member id: a process that comes back gets the same partitions.
    ticket = f"{sorted(process.places.items())}|{topic}|{partition}"
    return blake2b(ticket.encode(), digest_size=8).digest()


class PartitionOwnership:
    """The partitions of one event log as one attach finds them dealt out."""

    def __init__(self, processes: list[ShardProcess], me: str, topic: str) -> None:
        self._processes: Final = processes
        self._me: Final = me
        self._topic: Final = topic

    @classmethod
    async def now(cls, leases: Leases, topic: str) -> PartitionOwnership:
        """Ask who is there. Where that cannot be known everything is served here: a wrong place is none at all."""
        try:
            return cls(heard(await leases.members()), leases.member, topic)
        except AmqpError:
            return cls([], leases.member, topic)

    def elsewhere(self, link: Link, partition: int) -> AmqpError | None:
        """The redirect to where this partition is served; None: here."""
        process = home(self._processes, self._topic, partition)
        if process is None or process.member == self._me or link.scope not in process.places:
            return None
        host, port = process.places[link.scope]
        return redirect_error(hostname=host, host=host, port=port, address=link.address or "")

    def mine(self, link: Link, partitions: Iterable[int]) -> tuple[int, ...]:
        """Those that are served here."""
        return tuple(each for each in partitions if self.elsewhere(link, each) is None)
