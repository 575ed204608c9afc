"""Consumer groups as operators see them: the gateway's HTTP page and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.support.gateway.gateway import Gateway
from tests.support.gateway.process import NO_SUCH_PROXY, wait_until


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
