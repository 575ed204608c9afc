"""Runs the pieces of a measurement: load generator, baselines, and what /proc says about a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.figures import Sample
from tests.support.parts import ROOT
from tests.support.process import Process, answers, free_port

_TICK = os.sysconf("SC_CLK_TCK")


class NotMeasured(Exception):
    """A case could not run; the text says why."""


def module(name: str, *arguments: str, seconds: float = 180.0) -> str:
    """Runs a module of the bench to its end and returns what it printed."""
    command = [sys.executable, "-m", f"tests.bench.{name}", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"{name}: no end after {seconds:g} s") from None
    if done.returncode:
        raise NotMeasured(done.stderr.strip()[-500:] or f"{name} ended with {done.returncode}")
    return done.stdout


def load(plan: dict[str, Any], measured: int | None = None) -> Sample:
    """One run of the load generator; `measured` is the process whose processor time per message counts."""
    before = cpu_seconds(measured) if measured else 0.0
    result: dict[str, Any] = json.loads(module("loadgen", json.dumps(plan)))
    if result["not_accepted"]:
        raise NotMeasured(f"{result['not_accepted']} messages were not accepted")
    if not result["messages"]:
        raise NotMeasured("no message arrived in the measured time")
    sample = {key: float(result[key]) for key in ("rate", "p50_us", "p99_us")}
    sample["loadgen_busy"] = result["cpu_seconds"] / result["seconds"]
    if measured:
        sample["cpu_seconds"] = cpu_seconds(measured) - before
    return sample


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def resident_kib(pid: int) -> int:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


class StockRelay:
    """The baseline relay as a child process."""

    def __init__(self) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "tests.bench.stock_relay", str(self.port)]
        self.process = Process("stock-relay", command, cwd=ROOT)
        self.process.wait_ready(lambda: answers(self.port), "the stock relay to listen")

    def close(self) -> None:
        """Ends the child."""
        self.process.discard()
