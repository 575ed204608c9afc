"""Every way to fill the memory at once: the gateway stays within its budget, and a bystander hardly notices.

The small form is for the suite. `SCOPEGATE_MEMORY=1GiB` is the whole of it, which `make soak` runs: it has
to stay below 1 GiB, and 99 of 100 of the bystander's messages have their outcome within 100 ms.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import pytest

from tests.bench.running import resident_kib
from tests.support.amqp.links import passes, receiving, sending
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, Process, wait_until
from tests.support.project.parts import ROOT

BIG = bool(os.environ.get("SCOPEGATE_MEMORY"))
MEMORY, CONNECTIONS, SECONDS, SLOW = ("1GiB", 12, 20, 0.1) if BIG else ("192MiB", 3, 6, PATIENCE)
"""Of the process; connections of each kind; how long it lasts; what 99 of 100 round trips take at most, seconds.

The small form only asks that the bystander is served at all: how fast is for a quiet machine.
"""
NICE = os.environ.get("SCOPEGATE_FLOOD_NICE", "19")
"""The flood's priority; 0: that of everybody else, which leaves the gateway a part of two cores."""
MOST = 1024 if BIG else 192
"""MiB that may be resident."""
HEAP = (16 + 24) * 1024
"""KiB that the heap may keep however little the flood came to on a busy machine: 16 MiB are not worth a trim
(`gateway.held.allocator`), and what is freed between blocks in use cannot be given back."""


@pytest.fixture
def flood() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for each in started:
        each.discard()


def test_every_way_at_once_stays_within_the_budget(start_gateway: Gateways, flood: list[Process]) -> None:
    document = Document(memory=MEMORY)
    gateway = start_gateway(document.text, warm=False)  # what is resident is its own, not shared with a parent
    receiver, sender = receiving(document.edge, "chat/bystander", 1_000_000), sending(document.edge, "chat/bystander")
    pid, idle = gateway.process.pid, resident_kib(gateway.process.pid)
    command = [
        "nice",
        "-n",
        NICE,
        sys.executable,
        "-m",
        "tests.support.gateway.flood",
        str(document.edge),
        str(CONNECTIONS),
    ]
    flood.append(Process("flood", command, cwd=ROOT))
    times, highest, end = list[float](), 0, time.monotonic() + SECONDS
    held_back = lambda: gateway.metrics().get("scopegate_held_back_total", 0)  # noqa: E731
    # Whoever is nice gets little done on a busy machine: it goes on until enough of them were held back.
    while time.monotonic() < end or (held_back() <= CONNECTIONS and time.monotonic() < end + PATIENCE):
        begun = time.monotonic()
        passes(sender, receiver, len(times))
        times.append(time.monotonic() - begun)
        highest = max(highest, resident_kib(pid))
        time.sleep(0.005)
    metrics = gateway.metrics()
    held = sum(value for name, value in metrics.items() if name.startswith("scopegate_held_bytes{"))
    slow = sorted(times)[-len(times) // 100]
    print(f"{highest // 1024} MiB at most, {held / 2**20:.0f} held; p99 {slow * 1000:.1f} ms of {len(times)}")
    assert highest < MOST * 1024
    assert metrics["scopegate_held_back_total"] > CONNECTIONS
    assert slow < SLOW
    flood.pop().discard()
    wait_until(lambda: gateway.metrics()["scopegate_held_deliveries"] <= 2, "all is let go of")
    left = max((highest - idle) // 3, HEAP)
    wait_until(lambda: resident_kib(pid) < idle + left, f"at most {(idle + left) // 1024} MiB resident again")
    print(f"{idle // 1024} MiB idle, {resident_kib(pid) // 1024} MiB afterwards")
    passes(sender, receiver, len(times))
