"""JetStream as a sink: what a stream takes for a repetition, and a connection that is dead without notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import nats
import pytest

from bridges.cloudevents.delivery.answers import DeliveryOutcome
from bridges.cloudevents.sinks.nats.sink import message_id
from tests.integration.subscriptions.test_nats_sink import INFO, sink
from tests.support.cloudevents.answer_recorder import attempt, event
from tests.support.project.loops import on_both_loops
from tests.support.servers.sink_servers import NatsServer


@pytest.fixture
def server() -> Iterator[NatsServer]:
    made = NatsServer()
    yield made
    made.stop()


async def test_subjects_of_one_stream_get_each_event(server: NatsServer) -> None:
    """A stream looks for repetitions in all of its subjects: by the event alone, the second would be taken for one."""
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    await client.jetstream().add_stream(name="BOTH", subjects=["both.*"])
    for subject in ("both.one", "both.two"):
        async with sink(server.port, subject=subject, jetstream=True) as (made, received):
            made.send(attempt())
            assert (await received.next()).outcome is DeliveryOutcome.DONE
    stored = [(await client.jetstream().get_msg("BOTH", number)).subject for number in (1, 2)]
    assert stored == ["both.one", "both.two"]
    await client.close()


def test_other_events_are_no_repetitions() -> None:
    """Batches have no readable id, and wrapped records of a topic that was created again have those of before."""
    batch, later = (attempt(number=number).events[0]._replace(attributes={}) for number in (1, 2))
    other = event()._replace(attributes={**event().attributes, "time": "2026-11-30T00:00:00Z"})
    ids = [message_id("a", each) for each in (event(), other, batch, later)]
    assert ids == [message_id("a", each._replace(data=b"")) for each in (event(), other, batch, later)]
    assert len(set(ids)) == len(ids)


@asynccontextmanager
async def dead_at_first() -> AsyncIterator[tuple[int, list[int]]]:
    """A stream whose first connection is dead after its login; its port, and the messages of each connection."""
    messages: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(messages)
        messages.append(0)
        writer.write(INFO)
        while line := await reader.readline():
            if line.startswith(b"HPUB"):
                _, _, inbox, _, size = line.split()
                await reader.readexactly(int(size) + 2)
                messages[number] += 1
                answer = b'{"stream": "S", "seq": 1}'
                writer.write(b"MSG %b 1 %d\r\n%b\r\n" % (inbox, len(answer), answer) if number else b"")
            elif line.startswith(b"PING"):
                writer.write(b"PONG\r\n" if number or not messages[number] else b"")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], messages


@on_both_loops
async def test_a_dead_connection_to_a_stream_is_left() -> None:
    """The library asks a server after two minutes whether it is there; until then, each attempt was lost on it."""
    async with dead_at_first() as (port, messages), sink(port, timeout=0.2, jetstream=True) as (made, received):
        for number in range(50):
            made.send(attempt(number=number))
            answer = await received.next()
            if answer.outcome is DeliveryOutcome.DONE:
                break
    assert answer.outcome is DeliveryOutcome.DONE
    assert messages[1] >= 1, "on the next connection; one that takes too long there is repeated"
