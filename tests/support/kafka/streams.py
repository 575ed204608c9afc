"""A Kafka bridge behind a real AMQP engine, in this process: two engines exchange bytes, one serves nodes.

No socket and no gateway: the subject is the bridge as a peer sees it on the wire. `streams_remote` has the same
clients for the real process.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridges.kafka.bridge import ClusterBridge
from bridges.kafka.clusters.cluster import ClusterConfig
from gateway.amqp.codec.types import Described, Symbol
from gateway.amqp.engine.engine import Engine
from gateway.amqp.link.config import EngineConfig
from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.link import Link
from gateway.amqp.link.outcomes import ACCEPTED, Outcome
from gateway.amqp.message import sections
from gateway.amqp.proton.proton_data import AttachReply
from gateway.errors import AmqpError
from gateway.filters.position.event_stream import FILTER_NAME
from gateway.tasks import Supervisor
from policies.model.scopes.assignment import Assignment
from policies.model.scopes.reading import LogReadingRule
from tests.support.amqp.frames import receive_all
from tests.support.amqp.messages import message
from tests.support.gateway.process import PATIENCE


@dataclass(frozen=True)
class Route:
    """What the bridge reads of a policy's route."""

    topic: str
    mode: str = "auto"
    credit: int = 1000
    tombstones: bool = False
    assignment: Assignment = field(default_factory=Assignment)
    reading: LogReadingRule = field(default_factory=LogReadingRule)
    key_from: tuple[str, ...] = ("group-key",)


class StreamSide:
    """One end of a connection: owns an engine, hands its bytes to the other side in the next turn."""

    def __init__(self, name: str, serve: Callable[[Link], None] | None = None) -> None:
        self.serve = serve
        self.other: Any = None
        self.engine = Engine(EngineConfig(name), self, server=serve is not None)
        self.engine.open()

    soon = None  # its links end at once

    def engine_dirty(self) -> None:
        asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        data = self.engine.take()
        if data and self.other is not None:
            receive_all(self.other.engine, data)

    def link_requested(self, link: Link) -> None:
        assert self.serve is not None
        self.serve(link)

    def engine_opened(self, engine: Engine) -> None: ...
    def engine_closed(self, engine: Engine, error: AmqpError | None) -> None: ...
    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def message_refused(self, *_: object) -> None: ...
    def link_counted(self, link: Link) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...


class Delivered(NamedTuple):
    """A message that a client received."""

    data: bytes
    delivery: Any

    @property
    def layout(self) -> sections.SectionOffsets:
        return sections.walk(self.data)

    @property
    def annotations(self) -> dict[Any, Any]:
        return sections.delivery_annotations(self.data, self.layout)

    @property
    def message_annotations(self) -> dict[Any, Any]:
        return sections.message_annotations(self.data, self.layout)

    @property
    def body(self) -> Any:
        return sections.body_values(self.data, self.layout)[0]

    @property
    def offset(self) -> int:
        return int(self.annotations["event-streams-offset"])

    @property
    def partition(self) -> str:
        return str(self.annotations["event-streams-source-partition"])


class StreamPeer(Incoming):
    """One client link; `error` is set when the gateway refuses or detaches it."""

    def __init__(self) -> None:
        self.attached: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self.detached: asyncio.Future[AmqpError | None] = asyncio.get_running_loop().create_future()
        self.messages: asyncio.Queue[Delivered] = asyncio.Queue()
        self.credit = asyncio.Event()
        self.drained = asyncio.Event()
        self.link: Link

    def on_attached(self, link: Link) -> None:
        if (link.source if link.incoming else link.target).address is not None:  # else a refusal follows
            self.attached.set_result(link)

    def on_credit(self) -> None:
        self.credit.set()

    def on_transfer(self, delivery: Any, data: bytes, settled: bool) -> None:
        self.messages.put_nowait(Delivered(data, delivery))

    def on_outcome(self, context: asyncio.Future[Outcome], outcome: Outcome) -> None:
        context.set_result(outcome)

    def on_detach(self, error: AmqpError | None) -> None:
        self.detached.set_result(error)

    def on_refused(self, error: AmqpError) -> None:
        self.detached.set_result(error)

    def on_drained(self) -> None:
        self.drained.set()

    # -- for tests

    async def send(self, data: bytes, *, settled: bool = False) -> Outcome:
        """Send when there is credit; the outcome (of a settled message: nothing is waited for)."""
        return await asyncio.wait_for(await self.post(data, settled=settled), PATIENCE)

    async def post(self, data: bytes, *, settled: bool = False) -> asyncio.Future[Outcome]:
        """Send when there is credit, without waiting for the outcome."""
        while self.link.credit <= 0:
            self.credit.clear()
            await asyncio.wait_for(self.credit.wait(), PATIENCE)
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.link.send(data, outcome, settled)
        if settled:
            outcome.set_result(ACCEPTED)
        return outcome

    async def receive(self, count: int = 1, outcome: Outcome | None = ACCEPTED) -> list[Delivered]:
        """The next `count` messages, given `outcome` (None: left unsettled); credit is the caller's affair."""
        got = []
        for _ in range(count):
            message = await asyncio.wait_for(self.messages.get(), PATIENCE)
            if outcome is not None:
                self.link.settle(message.delivery, outcome)
            got.append(message)
        return got

    async def drain(self) -> list[Delivered]:
        """Everything that comes before the gateway gives the credit back."""
        self.drained.clear()
        self.link.drain()
        await asyncio.wait_for(self.drained.wait(), PATIENCE)
        return await self.receive(self.messages.qsize())

    async def end(self) -> AmqpError:
        """The error that the gateway detaches this link with."""
        error = await asyncio.wait_for(self.detached, PATIENCE)
        assert error is not None
        return error


class Clients(ABC):
    """Client connections, and links on them; `client` is the connection of whoever asks for none."""

    def __init__(self) -> None:
        self.client = self.connect()
        self._names = 0

    @abstractmethod
    def connect(self) -> StreamSide:
        """One more connection."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """Where ordinary Kafka clients find the cluster."""

    def topic(self, name: str) -> str:
        """What Kafka calls a topic of a test."""
        return name

    def address(self, address: str) -> str:
        """The address of a topic, or of its `$info`."""
        return address

    def request(self, address: str, *, incoming: bool, side: StreamSide | None = None, **granted: Any) -> StreamPeer:
        """Begin to attach a client link."""
        self._names += 1
        peer = StreamPeer()
        peer.link = (side or self.client).engine.attach(f"l{self._names}", incoming=incoming)
        peer.link.keep_annotations()  # the test is the last hop, and reads every annotation
        peer.link.request(peer, AttachReply(address=self.address(address), **granted))
        return peer

    async def sender(self, address: str, **granted: Any) -> StreamPeer:
        """An attached link to send on."""
        return await self._attached(self.request(address, incoming=False, **granted))

    async def receiver(
        self, address: str, *, credit: int = 0, after: str | None = None, **granted: Any
    ) -> StreamPeer:
        """An attached link to receive on, from `after` this offset."""
        if after is not None:
            granted["filter"] = position(**{"event-streams-offset": Symbol(after)})
        peer = await self._attached(self.request(address, incoming=True, **granted))
        peer.link.grant(credit)
        return peer

    async def _attached(self, peer: StreamPeer) -> StreamPeer:
        await asyncio.wait([peer.attached, peer.detached], timeout=PATIENCE, return_when="FIRST_COMPLETED")  # type: ignore[type-var]
        if not peer.attached.done():
            error = peer.detached.result() if peer.detached.done() else None
            raise error or AssertionError("no answer to the attach")
        return peer


class Streams(Clients):
    """A bridge on one cluster, and client connections to it."""

    def __init__(self, config: ClusterConfig, routes: Mapping[str, Route] | None = None) -> None:
        self.errors: list[tuple[str, BaseException]] = []
        self.supervisor = Supervisor(lambda name, error: self.errors.append((name, error)))
        self.bridge = ClusterBridge("main", config, asyncio.get_running_loop(), self.supervisor)
        self.routes = dict(routes or {})
        super().__init__()

    @property
    def bootstrap(self) -> str:
        """The cluster's, or that of the embedded one."""
        return self.bridge.bootstrap

    def connect(self) -> StreamSide:
        """One more connection."""
        client, server = StreamSide("client"), StreamSide("gateway", self._serve)
        client.other, server.other = server, client
        return client

    def _serve(self, link: Link) -> None:
        address = link.address or ""
        topic = address.removesuffix("/$info")
        route = self.routes.get(topic, Route(topic))
        (self.bridge.info_node(route) if address != topic else self.bridge.node(route)).attach(link)

    async def close(self) -> None:
        """End everything; a task that failed fails the test."""
        await self.bridge.close()
        await self.supervisor.close()
        assert not self.errors, self.errors


def position(**entries: Any) -> dict[Symbol, Described]:
    """A filter set with the event-stream filter over these entries."""
    content = {Symbol(key): value for key, value in entries.items()}
    return {Symbol("position"): Described(Symbol(FILTER_NAME), content)}


async def fill(streams: Clients, topic: str, count: int, first: int = 0) -> None:
    """Send messages with the numbers from `first` on as bodies; all are accepted."""
    sender = await streams.sender(topic)
    posted = [await sender.post(message(str(number).encode())) for number in range(first, first + count)]
    assert set(await asyncio.gather(*posted)) == {ACCEPTED}


def bodies(messages: list[Delivered]) -> list[int]:
    """The numbers that `fill` sent."""
    return [int(delivered.body) for delivered in messages]
