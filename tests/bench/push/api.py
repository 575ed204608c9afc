"""The API of subscriptions: what operations and changes cost among 10,000 subscriptions."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample
from tests.bench.push.gateway import PushGateway, gateway_of
from tests.bench.running import Watch, cpu_seconds
from tests.support.servers.kafka import FastKafka

_OPERATIONS: Final = 200
"""Of each kind."""


class ApiCases:
    """One client on one connection."""

    def __init__(self, gateway: PushGateway, topic: str, many: int) -> None:
        self._gateway, self._topic, self._many = gateway, topic, many
        self._connection = http.client.HTTPConnection(gateway.api.removeprefix("http://"), timeout=60)

    def figures(self) -> Iterator[Figure]:
        """The first Creates make the subscriptions; what follows is among them."""
        few = self._timed(_OPERATIONS, lambda number: self._create(f"few-{number}"))
        made = self._timed(self._many - _OPERATIONS, lambda number: self._create(f"s-{number}"))
        yield Figure("api_create", made["rate"], "ops/s", None, "", 200, details=made)
        read = self._timed(10 * _OPERATIONS, lambda number: self._ask("GET", f"/few-{number % _OPERATIONS}"))
        yield Figure("api_retrieve", read["rate"], "ops/s", None, "", 2000, details=read)
        listed = self._timed(1, lambda _: self._ask("GET", ""))
        yield Figure("api_list", listed["seconds"], "s", None, "", 2.0, True, listed)
        change = self._timed(_OPERATIONS, lambda number: self._create(f"more-{number}"))
        details: dict[str, Any] = {**change, "few": few}
        yield Figure("change", change["cpu_ms"], "ms", few["cpu_ms"], "among 200", 2.0, True, details)

    def _create(self, id: str) -> None:
        wanted = {"dialect": "basic", "filters": [{"type": "exact", "property": "subject", "value": f"of-{id}"}]}
        body = {"id": id, "protocol": "HTTP", "sink": f"http://127.0.0.1:{self._gateway.sink}/in", "filter": wanted}
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
    """Create, Retrieve, a list of all, and a change among many."""
    broker = FastKafka()
    try:
        topic = broker.create_topic()
        many = min(10_000, max(2 * _OPERATIONS, effort.records // 60))
        with gateway_of(broker, [topic]) as gateway:
            yield from ApiCases(gateway, topic, many).figures()
    finally:
        broker.stop()
