"""What gateways store of subscriptions in Redis: read there, written by the thousand, and freed of a dead gateway."""

from __future__ import annotations

import re

import redis

from bridges.cloudevents.dispatch.stored.remote_records import RemoteRecords
from gateway.state.redis_connections import redis_client
from gateway.state.termini.redis_store import RedisTermini
from tests.support.gateway.process import PATIENCE
from tests.support.servers.servers import Redis


def copy_subscriptions(server: Redis, id: str, count: int) -> None:
    """Store so many more subscriptions of the form of one, whose filter is for the subject `of-{id}`."""
    with redis.Redis.from_url(server.url) as client:
        (key,) = (each for each in client.keys("*subs:*") if re.fullmatch(rb".*subs:edge/[^:]*", each))
        _, owner, text = client.hget(key, id).split(b"\n", 2)
        pipe, name = client.pipeline(), id.encode()
        for number in range(count):
            other = b"%s-%05d" % (name, number)
            document = text.replace(b'"%s"' % name, b'"%s"' % other).replace(b"of-%s" % name, b"of-%s" % other)
            pipe.hset(key, other, b"%d\n%s\n%s" % (number + 2, owner, document))
        pipe.set(key + b":revision", count + 1)
        pipe.hset(key + b":owners", owner, count + 1)
        pipe.execute()


async def stored_progress(server: Redis, manager: str, id: str, address: str) -> tuple[int, int] | None:
    """How many records of a stream a subscription has passed, and how many of these still wait, as it is written.

    `manager`: its name in the scope `edge`; None: nothing is written.
    """
    client = redis_client(server.url, timeout=PATIENCE, connect_timeout=PATIENCE)
    try:
        found, _ = await RemoteRecords(RedisTermini(client), f"edge/{manager}").read(id)
    finally:
        await client.aclose()
    if found is None or address not in found.streams:
        return None
    positions = found.streams[address].positions.values()
    return sum(each.next for each in positions), sum(len(each.unfinished) for each in positions)


def end_leases(server: Redis) -> None:
    """Take all gateways for dead: another one need not wait until the leases of one that was killed have ended."""
    server.command("DEL", "scopegate:members")
