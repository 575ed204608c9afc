"""The same cases with the gateway of another commit, in turns: `python -m tests.bench --against REV [--only CASE…]`.

The other commit gets a work tree of its own under build/against and its C modules are built there; libraries, load
generator and baselines are those of this commit. Sides alternate, so that other load on the machine affects both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.bench.bench_gateway import TREE
from tests.support.project.parts import ROOT

ALIKE: Final = (
    "crossing", "crowds", "journal", "kafka", "latency", "memory", "relays", "replies", "reply queue", "scan",
    "sharing",
)  # fmt: skip
"""Cases that measure the process of a gateway; the others measure what they import."""
USUAL: Final = ("relays", "replies", "kafka")
TIMES: Final = 3
"""How often each side of a case is measured; within each, every figure is measured once."""
OUTPUT: Final = ROOT / "build" / "bench-against.json"
Measure = Callable[[str, dict[str, str]], list[dict[str, Any]]]
"""The figures of a case, measured with these environment variables."""


def work_tree(revision: str) -> Path:
    """The commit, checked out and built; raises CalledProcessError where there is none, or where it cannot be built."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    folder = ROOT / "build" / "against" / commit[:12]
    built = folder / "build" / "built"
    if not built.exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--force", "--detach", str(folder), commit)
        command = [sys.executable, "-c", "from setuptools import setup; setup()", "-q", "build_ext", "--inplace"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        built.parent.mkdir(exist_ok=True)
        built.touch()
    return folder


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def compare(cases: Iterable[str], folder: Path, measure: Measure, times: int = TIMES) -> dict[str, dict[str, Any]]:
    """Measures each case with both gateways in turns; prints and returns what became of each figure."""
    found: dict[str, dict[str, Any]] = {}
    for case in cases:
        sides: tuple[list[dict[str, Any]], ...] = ([], [])
        for number in range(times):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                sides[side].extend(measure(case, {TREE: str(folder)} if side else {}))
        names = [{figure["name"]: None for figure in side} for side in sides]
        for name in filter(names[1].__contains__, names[0]):
            found[name] = compared(*([each for each in side if each["name"] == name] for side in sides))
            print(line(name, found[name]), flush=True)
    return found


def compared(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> dict[str, Any]:
    """One figure of both sides; `speed` above 1: better than the other commit, in what is measured, and per message.

    `loop_speed`: by processor time of the gateway's own loop, without the threads of client libraries.
    """
    values = [[float(figure["value"]) for figure in side] for side in (ours, theirs)]
    costs, loops = ([_details(side, key) for side in (ours, theirs)] for key in ("cpu_us", "loop_us"))
    speed = _ratio(*values) if ours[0]["unit"].endswith("/s") else _ratio(*reversed(values))
    return {
        "unit": ours[0]["unit"],
        "here": values[0],
        "there": values[1],
        "speed": speed,
        "cpu_speed": _ratio(*reversed(costs)),
        "loop_speed": _ratio(*reversed(loops)),
        "disturbed": any(figure["disturbed"] for figure in (*ours, *theirs)),
        "generator_bound": any(figure["generator_bound"] for figure in (*ours, *theirs)),
    }


def _details(side: list[dict[str, Any]], key: str) -> list[float]:
    return [float(value) for figure in side if (value := figure["details"].get(key))]


def _ratio(value: list[float], baseline: list[float]) -> float | None:
    return median(value) / median(baseline) if value and baseline and median(baseline) else None


def line(name: str, found: dict[str, Any]) -> str:
    """For people."""
    here, there = (median(found[side]) if found[side] else float("nan") for side in ("here", "there"))
    keys = "speed", "cpu_speed", "loop_speed"
    speed, cost, loop = (f"{found[key]:.2f}" if found[key] else "-" for key in keys)
    doubts = [text for key, text in (("disturbed", "DISTURBED"), ("generator_bound", "GENERATOR")) if found[key]]
    figures = f"{here:>12,.1f} here {there:>12,.1f} there {found['unit']:8}"
    speeds = f"speed {speed}, by processor time {cost}, of its loop {loop}"
    return f"{name:26} {figures} {speeds}  {' '.join(doubts)}".rstrip()


def write(output: Path, revision: str, found: dict[str, dict[str, Any]], failed: dict[str, str]) -> None:
    """Writes the report."""
    report = {**found, "run": {"against": revision, "load": os.getloadavg(), "not_measured": failed}}
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps(report, indent=2) + "\n")
