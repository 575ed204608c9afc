"""Many links on one direct node: selectors on a queue of replies, and crowds of senders and receivers."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import uvloop
from cproton_ffi import lib

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, interleaved, medians
from tests.bench.load import messages
from tests.bench.load.peer import BUFFER, BUFFER_SIZE, Peer
from tests.bench.load.roles import Base, BenchError, Sender, tag
from tests.bench.running import Watch, cpu_seconds
from tests.support.project.parts import ROOT

SELECTORS = 100
CREDIT = 100
WAITING = (0, 100, 1000)
LINKS = 500
"""Links of one connection."""
ENDED = 'scopegate_links_ended_total{condition="none",scope="edge"}'
LIMIT = 60.0
"""Seconds that one step may take."""
_names = itertools.count(1)
_LOOKS = 0.25
"""Seconds between looks at the metrics: a scrape asks every link, and holds the loop for that."""
_PROBE = """
import http.client, sys, time, threading
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set())).start()
connection, longest = http.client.HTTPConnection(sys.argv[1], timeout=60), 0.0
while not done.is_set():
    start = time.perf_counter()
    connection.request("GET", "/healthz")
    connection.getresponse().read()
    longest = max(longest, time.perf_counter() - start)
print(longest)
"""


class Requesters(Base):
    """A connection whose receivers want one correlation-id each; the last of them grants no credit."""

    def __init__(self, trouble: Callable[[str], None], address: str) -> None:
        super().__init__(trouble)
        self.address, self.there, self.received = address, 0, 0

    def attach(self) -> None:
        for number in range(SELECTORS + 1):
            self.peer.receiver(self.address, filters=messages.selector(f"p.correlation_id = 'c{number}'"))
        self.peer.flush_soon()

    def attached(self, link: Any) -> None:
        if self.there < SELECTORS:
            lib.pn_link_flow(link, CREDIT)
        self.there += 1

    def delivery(self, delivery: Any) -> None:
        if lib.pn_delivery_partial(delivery):
            return
        link = lib.pn_delivery_link(delivery)
        lib.pn_link_recv(link, BUFFER, BUFFER_SIZE)
        lib.pn_link_advance(link)
        lib.pn_delivery_update(delivery, lib.PN_ACCEPTED)
        lib.pn_delivery_settle(delivery)
        lib.pn_link_flow(link, 1)
        self.received += 1


class Replier(Sender):
    """Sends `waiting` replies that nobody takes now, then one after the other to each of the others."""

    def __init__(self, trouble: Callable[[str], None], address: str, waiting: int) -> None:
        super().__init__(trouble, address, 100, in_flight=waiting + CREDIT)
        self.waiting = waiting
        body = self.head + messages.PLAIN_TAIL
        self._data = [messages.correlated(b"c%d" % number) + body for number in range(SELECTORS + 1)]

    def _send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            data = self._data[SELECTORS if number < self.waiting else number % SELECTORS]
            lib.pn_delivery(self.link, tag(number))
            lib.pn_link_send(self.link, data, len(data))
            lib.pn_link_advance(self.link)
        self.sent += count


class ManyLinks(Base):
    """A connection with many links on one address."""

    def __init__(self, trouble: Callable[[str], None], address: str, *, sends: bool) -> None:
        super().__init__(trouble)
        self.address, self.sends, self.there, self.links = address, sends, 0, list[Any]()

    def attach(self) -> None:
        make = self.peer.sender if self.sends else self.peer.receiver
        self.links = [make(self.address) for _ in range(LINKS)]
        self.peer.flush_soon()

    def attached(self, link: Any) -> None:
        self.there += 1

    def granted(self) -> bool:
        """Whether all its senders have credit."""
        return all(lib.pn_link_credit(link) > 0 for link in self.links)

    def grant(self) -> None:
        for link in self.links:
            lib.pn_link_flow(link, 10)
        self.peer.flush_soon()


def _probe(server: str) -> subprocess.Popen[str]:
    """Asks `/healthz` again and again on one connection; prints the longest time an answer took when its input ends."""
    command = [sys.executable, "-c", _PROBE, server]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class _Run:
    """The connections of one measurement."""

    def __init__(self, gateway: BenchGateway) -> None:
        self.gateway, self.trouble = gateway, ""

    def failed(self, reason: str) -> None:
        self.trouble = self.trouble or reason

    async def connect(self, role: Base) -> None:
        await asyncio.get_running_loop().create_connection(lambda: Peer(role), *self.gateway.edge)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + LIMIT
        while not condition():
            await asyncio.sleep(0.002)
            if self.trouble or time.monotonic() > deadline:
                raise BenchError(f"{what}: {self.trouble or f'not within {LIMIT:g} s'}")

    async def replies(self, waiting: int, seconds: float) -> Sample:
        """Replies a second to the requesters that take theirs, while `waiting` wait for another."""
        address = f"direct/replies-{next(_names)}"
        requesters = Requesters(self.failed, address)
        await self.connect(requesters)
        await self.until(lambda: requesters.there > SELECTORS, "attach")
        replier = Replier(self.failed, address, waiting)
        await self.connect(replier)
        await self.until(lambda: requesters.received > 10 * CREDIT, "the first replies")
        watch, start, before = Watch(), time.perf_counter(), requesters.received
        cpu = cpu_seconds(self.gateway.pid)
        await asyncio.sleep(seconds)
        count, seconds = requesters.received - before, time.perf_counter() - start
        cpu = cpu_seconds(self.gateway.pid) - cpu
        for each in (requesters, replier):
            each.on_trouble = lambda _: None
            each.peer.close()
        return {"rate": count / seconds, "cpu_us": cpu * 1e6 / max(count, 1), "others_cores": watch.others_cores()}

    async def crowd(self, connections: int, *, sends: bool) -> Sample:
        """Processor time for each link of a crowd, and the longest that the gateway's loop was held."""
        address, watch, cpu = f"direct/crowd-{next(_names)}", Watch(), cpu_seconds(self.gateway.pid)
        crowds = [ManyLinks(self.failed, address, sends=sends) for _ in range(connections)]
        other = ManyLinks(self.failed, address, sends=not sends)
        with _probe(str(self.gateway.http)) as probe:
            await self._through(crowds, other, sends=sends)
            longest, _ = await asyncio.to_thread(probe.communicate)
        used = cpu_seconds(self.gateway.pid) - cpu
        count = connections * LINKS
        return {
            "cpu_us": used * 1e6 / count,
            "longest_ms": float(longest) * 1000,
            "others_cores": watch.others_cores(),
        }

    async def _through(self, crowds: list[ManyLinks], other: ManyLinks, *, sends: bool) -> None:
        ended = self.gateway.metrics().get(ENDED, 0.0) + LINKS * (len(crowds) + 1)
        for crowd in (*crowds, other):
            await self.connect(crowd)
        await self.until(lambda: all(crowd.there == LINKS for crowd in (*crowds, other)), "attach")
        for crowd in [other] if sends else crowds:
            crowd.grant()
        senders = crowds if sends else [other]
        await self.until(lambda: all(crowd.granted() for crowd in senders), "credit")
        for crowd in (*crowds, other):
            crowd.on_trouble = lambda _: None
            crowd.peer.close()
        deadline = time.monotonic() + LIMIT
        while (await asyncio.to_thread(self.gateway.metrics)).get(ENDED, 0.0) < ended:
            if time.monotonic() > deadline:
                raise BenchError(f"the end of all links: not within {LIMIT:g} s")
            await asyncio.sleep(_LOOKS)


def reply_queue(effort: Effort) -> Iterator[Figure]:
    """A hundred selectors on one queue of replies, while some wait for a requester that takes none."""
    with closing(BenchGateway()) as gateway:

        def measure(waiting: int) -> Sample:
            return uvloop.run(_Run(gateway).replies(waiting, effort.seconds))

        for waiting in WAITING:
            if not waiting:
                middle = medians([measure(0) for _ in range(effort.rounds)])
                yield Figure("reply_queue_0", middle["rate"], "msg/s", details=middle)
                continue
            ours, theirs = interleaved(lambda: measure(waiting), lambda: measure(0), effort.rounds)  # noqa: B023
            details = {**ours, "none": theirs}
            name = f"reply_queue_{waiting}"
            yield Figure(name, ours["rate"], "msg/s", theirs["rate"], "nothing waits", 1 / 1.5, details=details)


def crowds(effort: Effort) -> Iterator[Figure]:
    """Ten thousand links on one address: attach, credit and close, against a quarter of them."""
    many = max(4, effort.connections // 250)
    with closing(BenchGateway()) as gateway:
        for name, sends in (("senders", True), ("receivers", False)):
            sides = [uvloop.run(_Run(gateway).crowd(count, sends=sends)) for count in (many // 4, many)]
            few, all_ = sides
            details = {**all_, "quarter": few}
            what = "a quarter of them"
            yield Figure(
                f"crowd_{name}", all_["cpu_us"], "us/link", few["cpu_us"], what, 1.5, at_most=True, details=details
            )
            yield Figure(f"crowd_{name}_held", all_["longest_ms"], "ms", target=20.0, at_most=True, details=details)
