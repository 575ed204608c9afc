"""The load generator: `python -m tests.bench.load.loadgen '{"kind": "stream", …}'` prints one JSON line.

It runs in its own process, both ends of the traffic in one event loop, and reports the rate, the sampled
latency and its own processor time. `self` connects its two ends to each other over a socket pair with
nothing between: other measurements are only meaningful below that figure.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import ssl
import sys
import time
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import uvloop

from tests.bench.load import lean, messages
from tests.bench.load.peer import Peer
from tests.bench.load.roles import SUPPORTED, Base, BenchError, PacedSender, Receiver, Requester, Responder, Sender
from tests.bench.load.selftest import Mirror
from tests.bench.shapes import shapes

REQUESTS = 2000
"""Requests with an id of their own: more than may be on the way."""


@dataclass(frozen=True)
class Plan:
    """One measurement. `kind` is stream, send, receive, request, paced or self.

    A stream with a `reply_to` is of requests, and nobody answers them.
    """

    kind: str = "stream"
    send_to: tuple[str, int] = ("127.0.0.1", 5672)
    receive_from: tuple[str, int] = ("127.0.0.1", 5672)
    send_address: str = "bench"
    receive_address: str = "bench"
    reply_address: str | None = None
    reply_to: str | None = None
    earliest: bool = False
    sql: str = ""
    annotated: bool = True
    supported: bool = False
    """Whether the receiver of a stream knows the annotations of response routing."""
    size: int = 100
    credit: int = 1000
    settled: bool = False
    in_flight: int = 1 << 30
    seconds: float = 2.0
    warmup: float = 0.5
    count: int = 0
    consumers: int = 1
    rate: float = 0.0
    group: str = ""
    """The consumer group that consumers join."""
    durable: str = ""
    """The name of the link of a consumer whose source outlives it."""
    tls: str = ""
    """A file with the authority of the gateway's certificate: all connections have TLS."""
    shape: str = shapes.SYNTHETIC

    @property
    def context(self) -> ssl.SSLContext | None:
        """For its connections; None: they have no TLS."""
        return ssl.create_default_context(cafile=self.tls) if self.tls else None


@dataclass(frozen=True)
class Result:
    """What was seen between the end of the warm-up and the end."""

    rate: float
    messages: int
    total: int
    seconds: float
    cpu_seconds: float
    p50_us: float
    p99_us: float
    not_accepted: int


class Run:
    """Opens the connections of a plan, lets them work and counts."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = asyncio.get_running_loop()
        self.trouble: asyncio.Future[None] = self.loop.create_future()
        self.peers: list[Peer] = []

    def on_trouble(self, reason: str) -> None:
        if not self.trouble.done():
            self.trouble.set_exception(BenchError(reason))

    async def connect(self, role: Base, where: tuple[str, int]) -> None:
        """Connects and waits until the role's first link is attached."""
        peer = Peer(role)
        host, port = where
        await self.loop.create_connection(lambda: peer, host, port, ssl=self.plan.context)
        self.peers.append(peer)
        await self.until(lambda: role.ready, 20.0, f"attach of {type(role).__name__}")

    async def until(self, condition: Any, limit: float, what: str) -> None:
        """Waits for a condition, for trouble, or for the time limit."""
        deadline = self.loop.time() + limit
        while not condition():
            await asyncio.wait((self.trouble,), timeout=0.005)
            if self.trouble.done():
                self.trouble.result()
            if self.loop.time() > deadline:
                raise BenchError(f"{what}: nothing after {limit:g} s")

    async def roles(self) -> tuple[Any, Any]:
        """The two ends of the plan, attached: who counts and who may be told of a failure."""
        plan = self.plan
        if plan.kind == "request":
            return await self._request()
        sender = self._sender()
        filters = messages.from_earliest(plan.sql) if plan.sql else messages.EARLIEST if plan.earliest else b""
        receiver = Receiver(
            self.on_trouble,
            plan.receive_address,
            plan.credit,
            filters,
            settled=plan.settled,
            capabilities=SUPPORTED if plan.supported else (),
            clock=sender.clock,
        )
        if plan.kind == "self":
            await self._pair(sender, receiver)
        if plan.kind in ("stream", "receive", "paced"):
            await self.connect(receiver, plan.receive_from)
        if plan.kind in ("stream", "send", "paced"):
            await self.connect(sender, plan.send_to)
        return (Outcomes(sender) if plan.kind == "send" else receiver), sender

    def _shaped(self) -> list[bytes]:
        plan = self.plan
        if plan.shape == shapes.SYNTHETIC:
            return []
        if plan.reply_to and plan.kind == "stream":
            return shapes.requests(plan.shape, plan.size, plan.reply_to, REQUESTS)
        return shapes.messages(plan.shape, plan.size)

    def _sender(self) -> Sender:
        plan = self.plan
        if plan.kind == "paced":
            return PacedSender(self.on_trouble, plan.send_address, plan.size, plan.rate, self._shaped())
        return Sender(
            self.on_trouble,
            plan.send_address,
            plan.size,
            settled=plan.settled,
            in_flight=plan.in_flight,
            limit=plan.count or 1 << 60,
            shaped=self._shaped(),
        )

    async def _request(self) -> tuple[Any, Any]:
        plan = self.plan
        responder = Responder(self.on_trouble, plan.receive_address, plan.credit, annotated=plan.annotated)
        await self.connect(responder, plan.receive_from)
        window = min(plan.credit, plan.in_flight)
        requester = Requester(
            self.on_trouble,
            plan.send_address,
            plan.size,
            window,
            plan.reply_address,
            plan.reply_to,
            self._shaped(),
        )
        await self.connect(requester, plan.send_to)
        return requester, responder

    async def _pair(self, sender: Sender, receiver: Receiver) -> None:
        ours, theirs = socket.socketpair()
        mirror = Mirror(receiver)
        for peer, sock in ((Peer(mirror, server=True), theirs), (Peer(sender), ours)):
            sock.setblocking(False)
            await self.loop.create_connection(partial(_same, peer), sock=sock)
            self.peers.append(peer)
        await self.until(lambda: sender.ready, 20.0, "self-test attach")

    async def measure(self) -> Result:
        counter, other = await self.roles()
        await self._warm_up(counter)
        counter.latencies.clear()
        start, cpu, before = time.perf_counter(), time.process_time(), counter.received
        await self._work(counter)
        await self.until(lambda: counter.received > before, 20.0, "a message")  # a short time may fall between two lots
        seconds, cpu, after = time.perf_counter() - start, time.process_time() - cpu, counter.received
        self.trouble.cancel()
        for peer in self.peers:
            peer.close()
        rejected = getattr(counter, "not_accepted", 0) + getattr(other, "not_accepted", 0)
        p50, p99 = percentiles(counter.latencies)
        count = after - before
        return Result(count / seconds, count, counter.received, seconds, cpu, p50, p99, rejected)

    async def _warm_up(self, counter: Any) -> None:
        await self.until(lambda: counter.received > 0, 20.0, "first message")
        if not self.plan.count:
            await asyncio.wait((self.trouble,), timeout=self.plan.warmup)

    async def _work(self, counter: Any) -> None:
        plan = self.plan
        if plan.count:
            await self.until(lambda: counter.received >= plan.count, 120.0, f"{plan.count} messages")
            return
        await asyncio.wait((self.trouble,), timeout=plan.seconds)
        if self.trouble.done():
            self.trouble.result()


def consume(plan: Plan) -> Result:
    """Consumers of an event log, with next to no cost of their own; they begin together."""
    links = [
        lean.Lean(
            plan.receive_from,
            plan.receive_address,
            plan.credit,
            sql=plan.sql,
            settled=plan.settled,
            group=plan.group,
            durable=plan.durable,
            tls=plan.context,
        )
        for _ in range(plan.consumers)
    ]
    for each in links:
        each.go()
    before = lean.until(links, 1)
    start, cpu = time.perf_counter(), time.process_time()
    total = lean.until(links, plan.count)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    for each in links:
        each.close()
    return Result((total - before) / seconds, total - before, total, seconds, cpu, 0.0, 0.0, 0)


class Outcomes:
    """Counts a sender's outcomes where nobody receives (into Kafka)."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.latencies: list[int] = []

    @property
    def received(self) -> int:
        return self._sender.outcomes


def _same(peer: Peer) -> Peer:
    return peer


def percentiles(nanoseconds: list[int]) -> tuple[float, float]:
    """p50 and p99 in microseconds; zeros without samples."""
    if not nanoseconds:
        return 0.0, 0.0
    ordered = sorted(nanoseconds)
    return tuple(ordered[min(len(ordered) - 1, int(len(ordered) * q))] / 1000 for q in (0.5, 0.99))  # type: ignore[return-value]


def main() -> int:
    """Runs the plan given as JSON; exit code 1 and a reason when it could not be measured."""
    given = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    known = {field.name for field in fields(Plan)}
    if unknown := set(given) - known:
        print(f"unknown keys {sorted(unknown)}; known: {sorted(known)}", file=sys.stderr)
        return 2

    async def run() -> Result:
        return await Run(plan).measure()

    plan = Plan(**given)

    gc.freeze()
    gc.set_threshold(50_000)
    try:
        counts = plan.kind == "receive" and plan.count
        print(json.dumps(asdict(consume(plan) if counts else uvloop.run(run()))))
    except (BenchError, OSError) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
