"""Ten thousand subscriptions in one gateway: it starts in time, keeps its leases, and changes cost as with one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.bench.running import cpu_seconds, resident_kib
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import wait_until
from tests.support.servers.servers import Redis
from tests.support.subscriptions.api import PATH, ApiClient, api_port, sink_ports, subscription_policy
from tests.support.subscriptions.stored import copy_subscriptions

MANY = 10_000
PARTS = 60.0
"""Seconds of processor time that the start may take on a slow machine; on a quick one it takes five."""
MOST_MIB = 120.0
"""Memory of all of them; 100 are asked."""


def subscription(id: str, port: int) -> dict[str, Any]:
    """To one event that never comes."""
    wanted = {"dialect": "basic", "filters": [{"type": "exact", "property": "subject", "value": f"of-{id}"}]}
    return {"id": id, "protocol": "HTTP", "sink": f"http://127.0.0.1:{port}/", "filter": wanted}


def cost_of_creates(gateway: Gateway, api: ApiClient, port: int, name: str) -> float:
    """Processor seconds of the gateway for one of ten."""
    before = cpu_seconds(gateway.process.pid)
    for number in range(10):
        assert api.request("POST", PATH, subscription(f"{name}-{number}", port)).status == 201
    return (cpu_seconds(gateway.process.pid) - before) / 10


@pytest.mark.soak
@pytest.mark.row("CE-P-5")
def test_ten_thousand_subscriptions_start_in_one_go_and_change_as_one(
    tmp_path: Path, redis_server: Redis, start_gateway: Gateways
) -> None:
    document = subscription_policy(tmp_path, limits={"subscriptions": 2 * MANY, "user": 2 * MANY})
    document.data["gateway"]["state"] = redis_server.url
    gateway, api, port = start_gateway(document.text), ApiClient(api_port(document)), sink_ports(document)[0]
    assert api.request("POST", PATH, subscription("one", port)).status == 201
    alone = cost_of_creates(gateway, api, port, "few")
    few = resident_kib(gateway.process.pid) / 1024
    gateway.stop()
    copy_subscriptions(redis_server, "one", MANY)
    begun = time.monotonic()
    gateway.restart()

    def delivering() -> bool:
        return f"delivering {MANY + 11} of" in gateway.get("/readyz")[1]

    wait_until(delivering, "all subscriptions to be delivered", 3 * PARTS)
    took, cpu = time.monotonic() - begun, cpu_seconds(gateway.process.pid)
    lost = [line for line in gateway.log() if "lost" in line.get("event", "") or "taken over" in line.get("event", "")]
    assert (lost, cpu < PARTS) == ([], True)
    grown = resident_kib(gateway.process.pid) / 1024 - few
    assert grown < MOST_MIB
    among = cost_of_creates(gateway, api, port, "among")
    assert among <= 3 * alone + 0.01, (alone, among)
    print(
        f"{MANY} subscriptions: delivered {took:.1f} s after the start, {cpu:.1f} s of processor, {grown:.0f} MiB, "
        f"a Create {alone * 1e3:.1f} ms with ten, {among * 1e3:.1f} ms now"
    )
