"""Rows of kind `push` in the journal: what subscriptions were sent, by owner and place, with metadata only."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.gateway.gateway import Gateways
from tests.support.gateway.journal import JournalReader, Rows, table, those
from tests.support.servers.embedded_kafka import EmbeddedKafka
from tests.support.servers.http_sink import http_sink, status
from tests.support.subscriptions.api import PATH, ApiClient, EventWriter, api_port, sink_ports, subscription_policy

TOPIC = "scopegate.journal"


@pytest.mark.row("CE-1-2")
async def test_the_journal_tells_what_subscriptions_were_sent(
    tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways
) -> None:
    document = subscription_policy(tmp_path_factory.mktemp("journal"), topics={"orders": 1, TOPIC: 1})
    document.scope()["subscriptions"][0]["events"] = ["events/orders"]
    document.data["gateway"]["journal"] = {"kafka": "main", "topic": TOPIC, "interval": "200ms"}
    gateway = start_gateway(document.text)
    api, first = ApiClient(api_port(document)), sink_ports(document)[0]
    kafka = EmbeddedKafka()
    kafka.found(gateway)
    reader = JournalReader(kafka.bootstrap, TOPIC)
    push = {"kind": "push", "user": "billing", "protocol": "HTTP", "manager": "orders"}

    def has_all_counts(rows: Rows) -> bool:
        return table(rows, "events", **push) == {"matched": 5, "delivered": 3, "refused": 2}

    try:
        async with http_sink(lambda request: status(400 if request.path == "/no" else 204), port=first) as sink:
            for id, path in (("a", "/hook?token=hidden"), ("b", "/no"), ("c", "/other")):
                made = await api.ask("POST", PATH, {"id": id, "protocol": "HTTP", "sink": sink.url + path})
                assert made.status == 201, made.body
            writer = EventWriter(gateway)
            writer.write("orders", "one", data='{"own": "business"}')
            await sink.wait_for(3)
            assert (await api.ask("DELETE", f"{PATH}/c")).status == 200  # what it was sent stays counted
            writer.write("orders", "two")
            await asyncio.to_thread(reader.wait, has_all_counts, "rows about all events")
    finally:
        await asyncio.to_thread(reader.close)

    (row, *_) = those(reader.rows, **push)
    assert (row["scope"], row["sink"], row["streams"]) == ("edge", f"http://127.0.0.1:{first}", ["events/orders"])
    assert row["from_ms"] <= row["to_ms"]
    assert those(reader.rows, **push)[-1]["subscriptions"] == 2
    for hidden in ("hook", "hidden", "business"):
        assert hidden not in reader.text
