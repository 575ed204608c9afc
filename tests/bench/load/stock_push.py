"""What a competent Python service does: `consume(500)`, aiohttp with eight connections, a commit after each batch.

`python -m tests.bench.load.stock_push BOOTSTRAP TOPIC URL COUNT WAIT [CA]` posts COUNT events in binary mode, one
request each, and prints its processor time. `consume` waits for 500 events, at most WAIT
seconds. CA: the file of an authority.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time

import aiohttp
from confluent_kafka import Consumer, Message, TopicPartition

CONNECTIONS = 8


def headers(message: Message) -> dict[str, str]:
    """The headers of the HTTP binding: those of the record by another prefix, percent-encoding left out."""
    named = {name: (content or b"").decode() for name, content in message.headers() or []}
    return {name.replace("ce_", "ce-", 1): value for name, value in named.items()}


async def push(bootstrap: str, topic: str, url: str, count: int, wait: float, ca: str | None) -> None:
    """Read, post and commit, batch after batch."""
    settings = {"group.id": f"stock-{topic}", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1}
    consumer = Consumer({**settings, "bootstrap.servers": bootstrap})
    consumer.assign([TopicPartition(topic, 0, 0)])
    room = asyncio.Semaphore(CONNECTIONS)
    tls = ssl.create_default_context(cafile=ca) if ca else True
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls)) as session:

        async def post(message: Message) -> None:
            async with room, session.post(url, data=message.value(), headers=headers(message)) as answer:
                assert answer.status == 204
                await answer.read()

        done = 0
        while done < count:
            batch = await asyncio.to_thread(consumer.consume, min(500, count - done), wait)
            await asyncio.gather(*(post(message) for message in batch))
            if batch:
                consumer.commit(asynchronous=False)
            done += len(batch)
    consumer.close()


if __name__ == "__main__":
    asyncio.run(push(*sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5]), *sys.argv[6:] or [None]))
    print(time.process_time())
