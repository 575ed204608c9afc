"""What operators see of subscriptions: attempts, times, handshakes, refusals, filters; each series from the start."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.support.gateway.gateway import Gateways
from tests.support.gateway.policy import KEY
from tests.support.gateway.process import free_port
from tests.support.servers.http_sink import SunkRequest, http_sink, status
from tests.support.subscriptions.api import (
    PATH,
    ApiClient,
    EventWriter,
    api_port,
    eventually,
    http_rule,
    sink_ports,
    subscription_policy,
)

NEVER = {"type": "exact", "property": "id", "value": "never"}
KEYS = ("k", "key"), ("old", "old")
LABEL = 'manager="edge/orders"'
HTTP = f'{LABEL},protocol="HTTP"'
PREFIX = "scopegate_subscription"
AT_ZERO = {
    *(
        f'{PREFIX}_attempts_total{{class="{name}",{HTTP}}}'
        for name in ("done", "refused", "toolarge", "failed", "sinkfailed", "credential", "wait", "gone")
    ),
    *(
        f'{PREFIX}_events_total{{{LABEL},outcome="{name}",protocol="HTTP"}}'
        for name in ("matched", "delivered", "repeated", "refused", "deadlettered", "lost")
    ),
    *(f'{PREFIX}s{{{HTTP},state="{name}"}}' for name in ("pending", "active", "failing", "suspended", "ended")),
    *(
        f'{PREFIX}s_suspended{{{LABEL},reason="{name}"}}'
        for name in ("gone", "credential", "refusals", "unreachable", "policy", "operator")
    ),
    *(
        f'{PREFIX}_handshakes_total{{{LABEL},result="{name}"}}'
        for name in ("consented", "awaited", "refused", "unanswered", "limited", "confirmed")
    ),
    *(f'{PREFIX}_egress_refused_total{{{LABEL},reason="{name}"}}' for name in ("rule", "name", "address", "secret")),
    *(f'{PREFIX}_filters{{kind="{name}",{LABEL}}}' for name in ("indexed", "unindexed", "every")),
    *(f'{PREFIX}_readers{{kind="{name}",{LABEL}}}' for name in ("own", "shared")),
    f'{PREFIX}_sealed{{key="k",{LABEL}}}',
    f'{PREFIX}_sealed{{key="old",{LABEL}}}',
    *(f"{PREFIX}_{name}_seconds_count{{{HTTP}}}" for name in ("delivery", "attempt")),
    f"{PREFIX}_held_bytes{{{LABEL}}}",
    f"{PREFIX}_oldest_seconds{{{LABEL}}}",
}


def answer(request: SunkRequest) -> bytes:
    """By path; a request for consent is answered with it, or not."""
    if request.method == "OPTIONS":
        return status(200, "webhook-allowed-origin: *") if request.path != "/never" else status(200)
    return status({"/gone": 410, "/bad": 400}.get(request.path, 204))


@pytest.mark.row("CE-1-2")
async def test_every_series_counts_from_the_start_and_names_no_subscription(
    tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways
) -> None:
    folder = tmp_path_factory.mktemp("metrics")
    document = subscription_policy(folder, handshake={"origin": "gw.example"}, dialects=["basic", "filters", "sql"])
    (manager,) = document.scope()["subscriptions"]
    ports = sink_ports(document)
    manager["sinks"][0]["handshake"] = "on"
    (folder / "key").write_text(KEY)
    (folder / "old").write_text(KEY[::-1])
    document.data["keys"] = {"active": "k", "ring": {name: {"file": str(folder / file)} for name, file in KEYS}}
    manager["sinks"][2]["allow_plain_without_tls"] = True
    manager["sinks"].append(http_rule(free_port()) | {"to": "http://localhost:9", "networks": ["10.0.0.0/8"]})
    manager["sinks"].append(http_rule(free_port()) | {"to": "http://no-such-host.invalid"})
    gateway = start_gateway(document.text)
    api, found = ApiClient(api_port(document)), gateway.metrics()
    assert {name: found.get(name) for name in AT_ZERO} == dict.fromkeys(AT_ZERO, 0.0)

    async with http_sink(answer, port=ports[0]) as asked, http_sink(answer, port=ports[1]) as sink:

        async def create(id: str, url: str, **more: object) -> int:
            made = await api.ask("POST", PATH, {"id": id, "protocol": "HTTP", "sink": url, **more})
            return made.status

        secret = {"credentialtype": "PLAIN", "identifier": "u", "secret": "s"}
        assert await create("very-own-1", f"{asked.url}/now") == 201
        assert await create("very-own-2", f"{asked.url}/never") == 400
        assert await create("very-own-3", "http://elsewhere.example/") == 400
        assert await create("very-own-4", "http://localhost:9/") == 400
        assert await create("very-own-5", "http://no-such-host.invalid/") == 400
        assert await create("very-own-6", f"{sink.url}/in", sinkcredential=secret) == 400
        unindexed = {"dialect": "sql", "expression": "EXISTS subject OR id LIKE '%n%'"}
        assert await create("very-own-7", f"{sink.url}/gone", filter=unindexed) == 201
        indexed = {"dialect": "basic", "filters": [NEVER]}
        assert await create("very-own-8", f"{sink.url}/in", filter=indexed) == 201
        assert await create("very-own-9", f"{sink.url}/bad") == 201
        sealed = f"http://127.0.0.1:{ports[2]}/", {"dialect": "basic", "filters": [NEVER]}
        assert await create("very-own-10", sealed[0], filter=sealed[1], sinkcredential=secret) == 201
        EventWriter(gateway).write("orders", "one")
        await asked.wait_for(3)
        await sink.wait_for(2)

        async def counted() -> bool:
            seen = await asyncio.to_thread(gateway.metrics)
            of_events = [
                seen[f'{PREFIX}_events_total{{{LABEL},outcome="{name}",protocol="HTTP"}}']
                for name in ("delivered", "refused")
            ]
            return [*of_events, seen[f'{PREFIX}s_suspended{{{LABEL},reason="gone"}}']] == [1, 1, 1]

        await eventually(counted)
        found = {name: value for name, value in gateway.metrics().items() if name in AT_ZERO and value}

    text = gateway.get("/metrics")[1]
    oldest = found.pop(f"{PREFIX}_oldest_seconds{{{LABEL}}}")
    readers = [found.pop(f'{PREFIX}_readers{{kind="{kind}",{LABEL}}}', 0) for kind in ("own", "shared")]
    assert (sum(readers), readers[1] >= 2) == (5, True), readers
    assert 0 < oldest < 60
    assert found == {
        f'{PREFIX}_attempts_total{{class="done",{HTTP}}}': 1,
        f'{PREFIX}_attempts_total{{class="gone",{HTTP}}}': 1,
        f'{PREFIX}_attempts_total{{class="refused",{HTTP}}}': 1,
        f'{PREFIX}_events_total{{{LABEL},outcome="matched",protocol="HTTP"}}': 3,
        f'{PREFIX}_events_total{{{LABEL},outcome="delivered",protocol="HTTP"}}': 1,
        f'{PREFIX}_events_total{{{LABEL},outcome="refused",protocol="HTTP"}}': 1,
        f'{PREFIX}s{{{HTTP},state="active"}}': 4,
        f'{PREFIX}s{{{HTTP},state="suspended"}}': 1,
        f'{PREFIX}s_suspended{{{LABEL},reason="gone"}}': 1,
        f'{PREFIX}_handshakes_total{{{LABEL},result="consented"}}': 1,
        f'{PREFIX}_handshakes_total{{{LABEL},result="refused"}}': 1,
        f'{PREFIX}_egress_refused_total{{{LABEL},reason="rule"}}': 1,
        f'{PREFIX}_egress_refused_total{{{LABEL},reason="name"}}': 1,
        f'{PREFIX}_egress_refused_total{{{LABEL},reason="address"}}': 1,
        f'{PREFIX}_egress_refused_total{{{LABEL},reason="secret"}}': 1,
        f'{PREFIX}_sealed{{key="k",{LABEL}}}': 1,
        f'{PREFIX}_filters{{kind="indexed",{LABEL}}}': 1,
        f'{PREFIX}_filters{{kind="unindexed",{LABEL}}}': 1,
        f'{PREFIX}_filters{{kind="every",{LABEL}}}': 2,
        f"{PREFIX}_delivery_seconds_count{{{HTTP}}}": 1,
        f"{PREFIX}_attempt_seconds_count{{{HTTP}}}": 3,
    }
    assert "very-own" not in text
    assert {name for line in re.findall(rf"{PREFIX}\w*{{(.*)}}", text) for name in re.findall(r'(\w+)="', line)} == {
        "manager", "protocol", "class", "outcome", "state", "reason", "result", "kind", "le", "key",
    }  # fmt: skip
