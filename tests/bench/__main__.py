"""`python -m tests.bench`: speed and memory against baselines, written to build/bench.json (issue 3, section 8).

Every case runs in a process of its own (`tests.bench.single`), so none is affected by what another one started: Spark's
Java lives as long as its process. The exit code is 0 when every case ran; a case that failed is named, and the others
are measured and written all the same. A missed target is reported, not an error. docs/benchmarks.md says how each
figure is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tests.bench import against, targets
from tests.bench.cases.catalogue import CASES
from tests.bench.shapes import shapes
from tests.support.project.parts import ROOT

OUTPUT = ROOT / "build" / "bench.json"
_LIMIT = 3600.0
"""Seconds that a case may take."""
_NAMED = 40
"""Figures that the summary names; with each of fifty messages there are hundreds."""
_EACH = "each"
SHAPED = "relays", "crossing", "replies", "kafka", "links", "journal", "tls", "scan"
"""Groups that are measured with each recorded message by itself, if none is named."""


def main(arguments: list[str]) -> int:
    """Runs the cases asked for and writes what was measured."""
    options = _parser().parse_args(arguments)
    if options.against is not None:
        return _against(options)
    figures: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    took: dict[str, float] = {}
    for name in _cases(options):
        start = time.monotonic()
        found, error = measured(name, *_how(options, name))
        took[name] = round(time.monotonic() - start, 1)
        figures += found
        if error is not None:
            failed[name] = error
            print(f"{name:26} NOT MEASURED: {error.strip().partition(chr(10))[0]}", flush=True)
    write(options.output, figures, failed, quick=options.quick, took=took)
    if options.targets:
        print(targets.table(figures))
    return 1 if failed else 0


def _cases(options: argparse.Namespace) -> Collection[str]:
    """The groups of cases asked for, or those that are measured without being named."""
    usual = targets.CASES if options.targets else SHAPED if _EACH in options.shape else CASES
    return options.only or usual


def _how(options: argparse.Namespace, case: str = "") -> list[str]:
    chosen = [each for name in options.shape for each in (shapes.names() if name == _EACH else [name])]
    if options.targets:
        chosen = chosen or list(targets.CASES.get(case, ()))
    each = ["--each"] if _EACH in options.shape else []
    effort = ["--quick"] if options.quick else each or (["--brief"] if options.targets else [])
    return [*effort, *(f"--shape={name}" for name in chosen)]


def _shape(name: str) -> str:
    if name not in (_EACH, *shapes.USUAL):
        try:
            shapes.chosen(name)
        except KeyError as error:
            raise argparse.ArgumentTypeError(error.args[0]) from None
    return name


def _against(options: argparse.Namespace) -> int:
    cases = options.only or against.USUAL
    if odd := [case for case in cases if case not in against.ALIKE]:
        print(f"{', '.join(odd)}: --against compares {', '.join(against.ALIKE)}", file=sys.stderr)
        return 2
    failed: dict[str, str] = {}

    def measure(name: str, env: dict[str, str]) -> list[dict[str, Any]]:
        found, error = measured(name, "--once", *_how(options), env=env)
        if error is not None:
            failed[name] = error
            print(f"{name:26} NOT MEASURED: {error.strip().partition(chr(10))[0]}", flush=True)
        return found

    folder = against.work_tree(options.against)
    found = against.compare(cases, folder, measure, 1 if options.quick else against.TIMES)
    against.write(against.OUTPUT if options.output == OUTPUT else options.output, options.against, found, failed)
    return 1 if failed else 0


def measured(name: str, *how: str, env: Mapping[str, str] | None = None) -> tuple[list[dict[str, Any]], str | None]:
    """The figures of a case, measured in a process of its own, and why they are not all of its figures."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "case.json"
        command = [sys.executable, "-m", "tests.bench.single", name, str(output), *how]
        where: dict[str, Any] = {"cwd": ROOT, "env": {**os.environ, **(env or {})}}
        try:
            code = subprocess.run(command, check=False, timeout=_LIMIT, **where).returncode
        except subprocess.TimeoutExpired:
            return [], f"no end after {_LIMIT:g} s"
        if not output.exists():
            return [], f"its process ended with exit code {code}"
        report = json.loads(output.read_text())
        return report["figures"], report["failed"]


def write(
    output: Path, figures: list[dict[str, Any]], failed: dict[str, str], *, quick: bool, took: dict[str, float]
) -> None:
    """Writes the report: name to value, baseline, ratio and how they came about, and the seconds each case took."""
    report: dict[str, Any] = {figure["name"]: figure for figure in figures}
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()}
    report["run"] = {**machine, "quick": quick, "not_measured": failed, "seconds": took}
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps(report, indent=2) + "\n")
    print(f"seconds: {', '.join(f'{name} {each:.0f}' for name, each in took.items())}; {sum(took.values()):.0f} in all")
    missed = [figure["name"] for figure in figures if figure["met"] is False]
    print(f"{os.path.relpath(output)}: {len(figures)} figures, targets missed: {_some(missed) or 'none'}")
    for doubt, text in (
        ("disturbed", "other processes took part of the machine, measure again"),
        ("generator_bound", "the load generator was the limit, the gateway may be faster"),
    ):
        if doubted := [figure["name"] for figure in figures if figure[doubt]]:
            print(f"{text}: {_some(doubted)}")
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)


def _some(names: list[str]) -> str:
    """Names as a list of the first few; the report has all of them."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="show that all can be measured; figures mean little")
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="CASE", help=f"of {', '.join(CASES)}")
    goals = f"measure {', '.join(targets.CASES)} briefly, and print every target"
    parser.add_argument("--targets", action="store_true", help=goals)
    instead = f"in place of {' and '.join(shapes.USUAL)}: clients, messages, or `{_EACH}`"
    turns = f"one after the other in short turns, of {', '.join(SHAPED)} if not --only"
    shape = f"what messages look like, {instead}: {turns}"
    parser.add_argument("--shape", nargs="+", type=_shape, default=[], metavar="NAME", help=shape)
    usual = ", ".join(against.USUAL)
    parser.add_argument("--against", metavar="REV", help=f"compare with the gateway of a commit (usually {usual})")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the report goes (build/bench.json)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
