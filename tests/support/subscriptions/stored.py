"""Subscriptions written into Redis by the thousand, as the gateway stores them."""

from __future__ import annotations

import re

import redis

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
