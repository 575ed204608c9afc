"""Consumer groups as operators see them: the gateway's HTTP page and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.support.gateway.gateway import Gateway
from tests.support.gateway.process import NO_SUCH_PROXY, ports, wait_until
from tests.support.gateway.warm import shortened
from tests.support.plugins.fixtures import started


def serving(policy: str, kind: str, grace: float, **places: str) -> Iterator[Gateway]:
    """For a fixture: a gateway where links that are `owner` or `shared` have so many seconds for outcomes.

    Then they lose their partitions. `policy` has places for `edge` and `http`, and for what is given.
    """
    edge, http = ports(2)
    constants = shortened({f"bridges.kafka.groups.{kind}.GRACE": grace})
    for gateways in started():
        yield gateways(policy.format(edge=edge, http=http, **places), env=constants)


def group_state(gateway: Gateway, address: str, group: str) -> dict[str, Any]:
    """What the operator sees of a group."""
    status, text = gateway.get(f"/groups?scope=edge&address={address}&group={group}")
    assert status == 200, text
    found: dict[str, Any] = json.loads(text)
    return found


def wait_for_waiting(gateway: Gateway, group: str, count: int, address: str = "pend/queue") -> None:
    """Wait until so many links wait for a partition of the group, as the gateway shows it."""
    wait_until(lambda: group_state(gateway, address, group)["waiting"] == count, f"{count} links of {group} to wait")


def command(gateway: Gateway, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `scopegate groups` against the gateway, beside a proxy that could not ask it."""
    call = [sys.executable, "-m", "gateway.cli.main", "groups", "--http", str(gateway.http), "--scope", "edge"]
    environment = {**os.environ, **NO_SUCH_PROXY}
    return subprocess.run([*call, *options], capture_output=True, text=True, check=False, env=environment)
