"""What systemd hears with `Type=notify-reload`: ready, each reload with its end, and the stop."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(PATIENCE)
        yield listening


def told(manager: socket.socket) -> dict[str, str]:
    """The next message."""
    return dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())


def test_systemd_hears_of_the_start_of_reloads_and_of_the_end(
    start_gateway: Gateways, manager: socket.socket
) -> None:
    document = Document()
    place = manager.getsockname()
    gateway = start_gateway(document.text, env={"NOTIFY_SOCKET": place})
    began = told(manager)
    assert began["READY"] == "1"
    assert began["STATUS"] == f"serving the policy {gateway.wait_log('serving')['digest']}"
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    document.scope()["addresses"].append({"match": "more/**", "direct": "balanced"})
    digest = gateway.reload(document.text)["digest"]
    last: dict[str, str] = {}
    while last.get("STATUS") != f"serving the policy {digest}; in force":
        reloading = told(manager)
        assert (reloading["RELOADING"], int(reloading["MONOTONIC_USEC"]) >= before) == ("1", True)
        last = told(manager)
        assert last["READY"] == "1"
    broken = document.but()
    broken.scope()["listen"][0]["bnid"] = 1
    gateway.reload(broken.text, ok=False)
    while not last["STATUS"].endswith("the last reload was refused"):
        assert told(manager)["RELOADING"] == "1"
        last = told(manager)
    gateway.stop()
    while "STOPPING" not in (last := told(manager)):
        assert {"RELOADING", "READY"} & set(last)
    assert last["STOPPING"] == "1"


def test_a_manager_that_is_not_there_does_no_harm(start_gateway: Gateways, tmp_path: Path) -> None:
    gateway = start_gateway(Document().text, env={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    gateway.reload()
    assert gateway.is_ready()
