"""File descriptors used up (B11): new AMQP connections are closed and counted, health checks go on."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from tests.support.amqp.links import connected
from tests.support.amqp.peer import Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways

REASON = 'scopegate_bad_input_total{reason="no-file-descriptors"}'


def limit(gateway: Gateway, room: int) -> None:
    """Leave the process room for so many more descriptors."""
    process = gateway.process.pid
    highest = max(int(name) for name in os.listdir(Path("/proc") / str(process) / "fd"))
    hard = resource.prlimit(process, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(process, resource.RLIMIT_NOFILE, (highest + room, hard))


def test_new_connections_are_closed_and_health_is_reachable(start_gateway: Gateways) -> None:
    document = Document()
    document.scope()["listen"][0]["limits"] = {"handshake": "10m"}  # those that are kept open nothing
    gateway = start_gateway(document.text)
    living = connected(document.edge)
    limit(gateway, 80)
    kept, dropped = list[Peer](), 0
    for _ in range(120):
        peer = Peer(document.edge)
        try:
            peer.sasl_anonymous()
            kept.append(peer)
        except (AssertionError, OSError):
            dropped += 1
    assert dropped > 30
    gateway.wait_metric(REASON, lambda value: value >= dropped)
    assert gateway.wait_log("bad input", reason="no-file-descriptors")["peer"].startswith("127.0.0.1:")
    assert gateway.get("/healthz")[0] == 200
    living.attach_sender("chat/alive")
    for peer in kept:
        peer.disconnect()
    gateway.wait_metric("scopegate_connections", lambda value: value <= 1)
    assert connected(document.edge)
