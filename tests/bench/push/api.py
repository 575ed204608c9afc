"""The API of subscriptions: what operations and changes cost among 10,000 subscriptions."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample
from tests.bench.push.gateway import CountingSink, PushGateway, fill, gateway_of
from tests.bench.push.http import EIGHT, produce_paced
from tests.bench.running import Watch, bare, cpu_seconds, resident_kib
from tests.support.gateway.process import hold
from tests.support.servers.kafka import FastKafka, KafkaBroker
from tests.support.servers.servers import Redis
from tests.support.subscriptions.stored import copy_subscriptions

_OPERATIONS: Final = 200
"""Of each kind."""
_BUSY_RATE: Final = 5000
_BUSY_SECONDS: Final = 4
"""Events a second, and seconds, of the deliveries under which operations are timed."""
_LOOK: Final = 0.02
"""Seconds between two looks at what the gateway has done."""


class ApiCases:
    """One client on one connection."""

    def __init__(self, gateway: PushGateway, broker: KafkaBroker, topics: tuple[str, str], many: int) -> None:
        """`topics`: one for the subscriptions, and one whose events are pushed meanwhile."""
        self._gateway, self._broker, self._many = gateway, broker, many
        self._topic, self._busy = topics
        self._connection = http.client.HTTPConnection(gateway.api.removeprefix("http://"), timeout=60)

    def figures(self) -> Iterator[Figure]:
        """The first Creates make the subscriptions; what follows is among them."""
        few = self._timed(_OPERATIONS, lambda number: self.create(f"few-{number}"))
        made = self._timed(self._many - _OPERATIONS, lambda number: self.create(f"s-{number}"))
        yield Figure("api_create", made["rate"], "ops/s", None, "", 200, details=made)
        read = self._timed(10 * _OPERATIONS, lambda number: self._ask("GET", f"/few-{number % _OPERATIONS}"))
        yield Figure("api_retrieve", read["rate"], "ops/s", None, "", 2000, details=read)
        listed = self._timed(1, lambda _: self._ask("GET", ""))
        yield Figure("api_list", listed["seconds"], "s", None, "", 2.0, True, listed)
        change = self._timed(_OPERATIONS, lambda number: self.create(f"more-{number}"))
        details: dict[str, Any] = {**change, "few": few}
        yield Figure("change", change["cpu_ms"], "ms", few["cpu_ms"], "among 200", 2.0, True, details)
        busy = self._under_load()
        yield Figure("api_under_load_p99", busy["p99_ms"], "ms", None, "", 50.0, True, busy)

    def unmatched(self, broker: KafkaBroker, count: int) -> Figure:
        """Events that no filter matches; they are written while the gateway stands still."""
        pid = self._gateway.process.pid
        hold(pid)
        try:
            fill(broker, self._topic, count)
        finally:
            os.kill(pid, signal.SIGCONT)
        watch, before, begun = Watch(), cpu_seconds(pid), time.perf_counter()
        while self._gateway.ask("GET", "/few-0/status")["behind"]["offsets"]:
            time.sleep(_LOOK)
        seconds = time.perf_counter() - begun
        alone = bare("consume", broker.bootstrap, self._topic, str(count))
        cpu = (cpu_seconds(pid) - before) * 1e6 / count
        details = {"cpu_us": cpu, "others_cores": watch.others_cores(), "bare": alone}
        rate, peer = count / seconds, alone["rate"]
        return Figure("filters_none", rate, "rec/s", peer, "bare consume(500)", 0.25, details=details)

    def _under_load(self) -> Sample:
        """Creates and Retrieves in turn, while another topic's events are pushed."""
        count, taken = _BUSY_RATE * _BUSY_SECONDS, list[float]()
        sink, id = CountingSink(self._gateway.sink, count), self._gateway.create(self._busy, EIGHT)
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(produce_paced, self._broker, self._busy, count, _BUSY_RATE)
            while not writing.done():
                begun = time.perf_counter()
                if len(taken) % 2:
                    self._ask("GET", f"/few-{len(taken) % _OPERATIONS}")
                else:
                    self.create(f"busy-{len(taken)}")
                taken.append(time.perf_counter() - begun)
            pushed = self._gateway.measured(count, sink, [id])
        return {**pushed, "p99_ms": sorted(taken)[int(len(taken) * 0.99)] * 1e3, "operations": float(len(taken))}

    def create(self, id: str) -> None:
        """A subscription to one event that never comes."""
        wanted = {"dialect": "basic", "filters": [{"type": "exact", "property": "subject", "value": f"of-{id}"}]}
        body = {"id": id, "protocol": "HTTP", "sink": f"http://127.0.0.1:{self._gateway.sink}/in", "filter": wanted}
        body["config"] = {"address": f"events/{self._topic}"}
        self._ask("POST", "", body)

    def _ask(self, method: str, path: str, body: object = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        self._connection.request(method, f"/subscriptions{path}", data, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        found = answer.read()
        assert answer.status in (200, 201), found

    def _timed(self, count: int, operation: Callable[[int], None]) -> Sample:
        watch, before, begun = Watch(), cpu_seconds(self._gateway.process.pid), time.perf_counter()
        for number in range(count):
            operation(number)
        seconds = time.perf_counter() - begun
        return {
            "rate": count / seconds,
            "seconds": seconds,
            "cpu_ms": (cpu_seconds(self._gateway.process.pid) - before) * 1e3 / count,
            "others_cores": watch.others_cores(),
        }


def subscription_api(effort: Effort) -> Iterator[Figure]:
    """Create, Retrieve, a list of all, a change among many; events that none matches; and a start with many."""
    broker = FastKafka()
    many = min(10_000, max(2 * _OPERATIONS, effort.records // 60))
    try:
        topics = broker.create_topic(), broker.create_topic()
        with gateway_of(broker, topics) as gateway:
            cases = ApiCases(gateway, broker, topics, many)
            yield from cases.figures()
            yield cases.unmatched(broker, max(2_000, effort.records // 10))
        yield from start_with_many(broker, many)
    finally:
        broker.stop()


def start_with_many(broker: KafkaBroker, many: int) -> Iterator[Figure]:
    """A gateway that starts with so many subscriptions in Redis: seconds until all are delivered, and their memory."""
    state, topic = Redis(), broker.create_topic()
    try:
        with gateway_of(broker, [topic], state=state.url) as gateway:
            cases = ApiCases(gateway, broker, (topic, topic), 1)
            cases.create("one")
            one = resident_kib(gateway.process.pid)
            gateway.stop()
            copy_subscriptions(state, "one", many)
            watch, begun = Watch(), time.perf_counter()
            gateway.restart()
            while f"delivering {many + 1} of" not in gateway.get("/readyz")[1]:
                time.sleep(_LOOK)
            seconds, cpu = time.perf_counter() - begun, cpu_seconds(gateway.process.pid)
            grown = (resident_kib(gateway.process.pid) - one) / 1024
            details = {"cpu_s": cpu, "others_cores": watch.others_cores()}
            yield Figure("subscriptions_10000_start", seconds, "s", None, "", 5.0, True, details)
            yield Figure("subscriptions_10000_memory", grown, "MiB", None, "", 100.0, True, details)
    finally:
        state.kill()
