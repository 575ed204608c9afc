"""The lag of a link and of a group, measured on an embedded Kafka."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway import tasks
from gateway.server.metrics.lag import LagMeter
from tests.support.amqp.links import connected, sending
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer
from tests.support.gateway.document import Document
from tests.support.gateway.in_process import served
from tests.support.gateway.process import PATIENCE


async def test_a_rule_shows_its_slowest_link_and_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = Document()
    document.kafka("embedded", topics={"orders": 1})
    file = tmp_path / "policy.json"
    file.write_text(document.text)

    def clients() -> list[Peer]:
        reader, member = connected(document.edge), connected(document.edge)
        reader.attach_receiver("events/orders")
        member.attach_receiver("events/orders", properties={"event-streams-consumer-group": "said-by-a-peer"})
        member.flow(0, link_credit=2)
        sender = sending(document.edge, "events/orders")
        for number in range(5):
            sender.transfer(message(b"event %d" % number)).until("disposition", state="accepted")
        for _ in range(2):
            member.disposition(member.until("transfer").delivery_id, "accepted")
        return [sender, reader, member]

    async with served(file, monkeypatch) as start:
        service = (await start()).service
        await tasks.until(lambda: service.listeners, PATIENCE)
        peers = await asyncio.to_thread(clients)
        meter = LagMeter(service)

        async def measured() -> dict[str, float]:
            await meter.measure()
            return {name: value for name, _, value in meter.samples()}

        async with asyncio.timeout(PATIENCE):
            while (found := await measured()) != {"link_lag": 5.0, "group_lag": 3.0}:  # once its outcomes have come
                assert found["link_lag"] == 5
                await asyncio.sleep(0.05)
        for peer in peers:
            await asyncio.to_thread(peer.close)
