"""What stays in memory of a connection and its links when they end, while nothing looks for circles of references."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from gateway import tasks
from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import SENDER, Peer
from tests.support.gateway.in_process import InProcessGateway
from tests.support.gateway.process import PATIENCE, wait_until

Act = Callable[[Peer], object]


def receiver(peer: Peer, address: str, **fields: Any) -> None:
    peer.attach_receiver(address, **fields)
    peer.flow(0, link_credit=10)


def pair(peer: Peer, address: str) -> None:
    """A message that has no outcome."""
    receiver(peer, address)
    peer.attach_sender(address, 1)
    peer.until("flow")
    peer.transfer(message(), 1)
    peer.until("transfer")


def answered(peer: Peer, address: str) -> None:
    pair(peer, address)
    peer.disposition(0, "accepted").until("disposition")


def anonymous(peer: Peer, address: str) -> None:
    """A link with a destination."""
    peer.attach_receiver(address, 1)
    peer.flow(1, link_credit=10)
    peer.attach_sender(None)
    peer.until("flow")
    peer.transfer(message(to=address)).until("transfer")


def refused(peer: Peer, address: str) -> None:
    peer.attach("refused", SENDER, target=frames.target(address)).until("detach")


def _detach(peer: Peer) -> None:
    if any("attach" in line for line in peer.transcript):
        peer.detach(0)
    peer.close().until("close")


ENDS: Final[dict[str, Act]] = {
    "lost": lambda peer: None,
    "close": lambda peer: peer.close().until("close"),
    "end": lambda peer: peer.end().until("end"),
    "detach": _detach,
}


class Circles(NamedTuple):
    """Clients of a gateway in this process, and the types whose objects are counted; one of them is `Link`."""

    gateway: InProcessGateway
    connect: Callable[[], Peer]
    watched: tuple[type, ...]

    async def stays(self, act: Act, end: str) -> Counter[str]:
        """What a client leaves that does this on a new connection, which ends in this way."""
        await asyncio.to_thread(self._use, act, end)  # what is made once
        await tasks.until(lambda: all(each.peer.connector for each in self.gateway.service.connections()), PATIENCE)
        before = self._alive()
        await asyncio.to_thread(self._use, act, end)
        await tasks.until(lambda: not self._alive() - before, PATIENCE)
        return self._alive() - before

    def _use(self, act: Act, end: str) -> None:
        with self.connect() as peer:
            peer.start()
            before = self._alive()["Link"]
            act(peer)
            ENDS[end](peer)
            if end == "end":
                wait_until(lambda: self._alive()["Link"] <= before, "the end of the links")

    def _alive(self) -> Counter[str]:
        found = (each for each in gc.get_objects() if issubclass(type(each), self.watched))
        return Counter(type(each).__name__ for each in found)
