"""The leases of a gateway that was killed: they end at once, though they last for as long as it may stand still."""

from __future__ import annotations

import json
from typing import Final

from tests.support.gateway.gateway import Gateway
from tests.support.servers.servers import Redis

LASTING: Final = "20s"
"""A lease that a busy machine does not take from a gateway."""
_END: Final = """
local about = redis.call('HGETALL', 'scopegate:about')
local ended = 0
for at = 1, #about, 2 do
  if cjson.decode(about[at + 1]).gateway == ARGV[1] then
    ended = ended + redis.call('ZREM', 'scopegate:members', about[at])
    redis.call('HDEL', 'scopegate:about', about[at])
  end
end
redis.call('PUBLISH', 'scopegate:groups', '*')
return ended
"""
"""What time does to the session of a process that has gone (`gateway/state/leases/redis_store.py`)."""


def kill_for_good(gateway: Gateway, redis: Redis) -> None:
    """Kill a gateway, if it still runs, and let its session in Redis be over."""
    if gateway.process.alive:
        gateway.kill()
        name = json.loads(gateway.policy.read_text())["gateway"]["id"]
        assert int(redis.command("EVAL", _END, "0", name)) == 1, f"{name} had no session"
