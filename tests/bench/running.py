"""Runs the parts of a measurement: load generator, baselines, and readings of a process from /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.figures import Sample
from tests.support.gateway.process import Process, answers, free_port
from tests.support.project.parts import ROOT

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


@contextmanager
def background(name: str, *arguments: str) -> Iterator[None]:
    """Runs a module of the bench beside something else; ends it."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.bench.{name}", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def idle(port: int, connections: int, address: str, links: int = 1) -> Iterator[None]:
    """Connections with so many links each, which do nothing."""
    arguments = [str(port), str(connections), address, str(links)]
    command = [sys.executable, "-m", "tests.bench.load.idle", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdout
        assert child.stderr
        if child.stdout.readline().strip() != "ready":
            raise NotMeasured(f"{connections} idle connections: {child.stderr.read().strip()[-300:]}")
        yield


def load(plan: dict[str, Any], measured: int | None = None) -> Sample:
    """One run of the load generator; `measured` is the process whose processor time per message counts."""
    before, watch = (cpu_seconds(measured), loop_seconds(measured)) if measured else (0.0, 0.0), Watch()
    result: dict[str, Any] = json.loads(module("load.loadgen", json.dumps(plan)))
    if result["not_accepted"]:
        raise NotMeasured(f"{result['not_accepted']} messages were not accepted")
    if not result["messages"]:
        raise NotMeasured("no message arrived in the measured time")
    sample = {key: float(result[key]) for key in ("rate", "p50_us", "p99_us", "total")}
    sample["loadgen_busy"] = result["cpu_seconds"] / result["seconds"]
    sample["others_cores"] = watch.others_cores()
    if measured:
        sample["cpu_us"] = (cpu_seconds(measured) - before[0]) * 1e6 / result["total"]
        sample["loop_us"] = (loop_seconds(measured) - before[1]) * 1e6 / result["total"]
    return sample


def bare(job: str, *arguments: str) -> Sample:
    """One run of a Kafka baseline."""
    watch = Watch()
    first, second = map(float, module("kafka.baseline", job, *arguments).split())
    delays, cost = {"rate": 0.0, "p50_us": first, "p99_us": second}, {"rate": first, "cpu_us": second}
    return {**(delays if job == "latency" else cost), "others_cores": watch.others_cores()}


class Watch:
    """What processes that do not belong to the bench took of the machine since this was made."""

    def __init__(self) -> None:
        self._start, self._others = time.perf_counter(), self._now()

    def others_cores(self) -> float:
        """Cores taken by others, on average; time a host took from this machine included."""
        return (self._now() - self._others) / (time.perf_counter() - self._start)

    @staticmethod
    def _now() -> float:
        user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
        own = sum(os.times()[:4]) + sum(cpu_seconds(each.pid) for each in Process.running if each.alive)
        return (user + nice + system + sum(rest)) / _TICK - own


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def loop_seconds(pid: int) -> float:
    """Processor time of the main thread so far: the gateway's loop without the threads of librdkafka."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def resident_kib(pid: int) -> int:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


class StockRelay:
    """The baseline relay as a child process."""

    def __init__(self) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "tests.bench.load.stock_relay", str(self.port)]
        self.process = Process("stock-relay", command, cwd=ROOT)
        self.process.wait_ready(lambda: answers(self.port), "the stock relay to listen")

    def close(self) -> None:
        """Ends the child."""
        self.process.discard()
