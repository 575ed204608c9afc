"""Links of consumer groups as scripted peers: each on its own connection, so that it can be silent or cut off."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from gateway.amqp.codec.codec import Described, Long, Symbol
from gateway.amqp.message.sections import delivery_annotations, walk
from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.links import connected
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.gateway.process import PATIENCE

PARTITION = Symbol("event-streams-partition")
GROUP = Symbol("event-streams-consumer-group")
EPOCH = Symbol("event-streams-epoch")
_names = itertools.count(1)
_kept: list[Peer] = []


def keep_connected() -> Iterator[None]:
    """For a fixture: connections live as long as their test, also those whose object nobody holds."""
    yield
    while _kept:
        _kept.pop().disconnect()


def requested_properties(group: Any = None, partition: Any = None, epoch: Any = None) -> dict[Any, Any]:
    """Link properties that ask for these; whoever gives a value of a codec type decides the wire type."""
    wanted = {GROUP: group, PARTITION: partition, EPOCH: epoch}
    if type(partition) in (str, int):
        wanted[PARTITION] = Symbol(str(partition))
    if type(epoch) is int:
        wanted[EPOCH] = Long(epoch)
    return {key: value for key, value in wanted.items() if value is not None}


def since(offset: str) -> dict[Any, Any]:
    """A filter set that starts behind an offset."""
    content = {Symbol("event-streams-offset"): Symbol(offset)}
    return {
        Symbol("position"): Described(Symbol("amqp:event-streams-delivery-annotations-filter"), content)
    }


class Member:
    """A receive link: asked for at once, answered or not."""

    def __init__(
        self, port: int, address: str, properties: dict[Any, Any], *, start: str | None = None, **fields: Any
    ) -> None:
        self.peer = connected(port, **fields)
        _kept.append(self.peer)
        source = frames.source(address, filter=since(start) if start else None)
        name = f"member-{next(_names)}"
        self.peer.attach(name, RECEIVER, source=source, properties=properties or None)
        self.answer: Frame | None = None
        self.transfers: list[int] = []

    def attached(self, credit: int = 0, seconds: float = PATIENCE) -> Frame:
        """Expect the attach to be granted; return the answer."""
        self.answer = self.peer.expect("attach", seconds=seconds)
        if self.answer.source is None:
            raise self.peer.unexpected("refused")
        if credit:
            self.peer.flow(0, link_credit=credit)
        return self.answer

    @property
    def granted(self) -> dict[Any, Any]:
        """The link properties in force."""
        assert self.answer is not None
        return self.answer.properties or {}

    @property
    def partition(self) -> str:
        """The partition in force."""
        return str(self.granted[PARTITION])

    def refused(self, condition: str, seconds: float = PATIENCE) -> Any:
        """Expect a null source and then a closing detach with this condition; return the error (CORE-2)."""
        self.peer.expect("attach", source=None, seconds=seconds)
        return self.ended(condition, seconds)

    def ended(self, condition: str, seconds: float = PATIENCE) -> Any:
        """Expect the gateway's closing detach with this condition and answer it; return the error."""
        frame = self.peer.until("detach", closed=True, error=condition, seconds=seconds)
        self.peer.detach()
        return frame.error

    def quiet(self) -> None:
        """Check that nothing has come: the answer to another attach, which is refused, is the next there is to read.

        That the gateway settles what a link that has ended was sent says nothing new.
        """
        self.peer.attach(f"asks-{next(_names)}", RECEIVER, 9, source=frames.source("no/such/node"))
        frame = next(frame for frame in iter(self.peer.receive, None) if frame.kind != "disposition")
        if frame.kind != "attach" or frame.source is not None:
            raise self.peer.unexpected("something has come")
        self.peer.expect("detach", closed=True, error="amqp:not-found")
        self.peer.detach(9)

    def take(self, count: int, *, settle: bool = True) -> list[tuple[str, int, bytes]]:
        """The next events: partition, offset and payload; accepted unless `settle` is False."""
        events = []
        for _ in range(count):
            frame = self.peer.until("transfer")
            annotations = delivery_annotations(frame.payload, walk(frame.payload))
            offset = int(annotations["event-streams-offset"])
            events.append((str(annotations["event-streams-source-partition"]), offset, frame.payload))
            self.transfers.append(frame.delivery_id)
            if settle:
                self.peer.disposition(frame.delivery_id, "accepted")
        return events

    def close(self) -> None:
        """Close the link in good order and wait for the answer."""
        self.peer.detach()
        self.peer.until("detach", closed=True)

    def cut(self) -> None:
        """Drop the connection without a word."""
        self.peer.disconnect()


class Producer:
    """A sending link whose messages are awaited."""

    def __init__(self, port: int, address: str, **properties: Any) -> None:
        self.peer = connected(port)
        _kept.append(self.peer)
        self.answer = self.peer.attach_sender(address, properties=requested_properties(**properties) or None)
        self.peer.until("flow")

    def send(self, *bodies: bytes, partition: int | None = None) -> None:
        """Send and wait until each is accepted."""
        da = {"event-streams-target-partition": Symbol(str(partition))} if partition is not None else {}
        for body in bodies:
            self.peer.transfer(message(body, da=da) if da else message(body))
            self.peer.until("disposition", state="accepted")
