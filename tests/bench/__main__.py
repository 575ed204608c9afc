"""`python -m tests.bench`: speed and memory against baselines, written to build/bench.json (issue 3, section 8).

The exit code is 0 when every case ran: a missed target is reported, not an error. docs/benchmarks.md says how
each figure is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from tests.bench.cases import CASES
from tests.bench.effort import QUICK, Effort
from tests.bench.figures import Figure
from tests.bench.running import NotMeasured
from tests.support.parts import ROOT

OUTPUT = ROOT / "build" / "bench.json"


def main(arguments: list[str]) -> int:
    """Runs the cases asked for and writes what was measured."""
    options = _parser().parse_args(arguments)
    effort = QUICK if options.quick else Effort()
    figures: list[Figure] = []
    failed: dict[str, str] = {}
    for name in options.only or CASES:
        try:
            for figure in CASES[name](effort):
                print(figure.line(), flush=True)
                figures.append(figure)
        except (NotMeasured, AssertionError, OSError) as error:
            failed[name] = str(error)
            print(f"{name:26} NOT MEASURED: {str(error).partition(chr(10))[0]}", flush=True)
    write(options.output, figures, failed, quick=options.quick)
    return 1 if failed else 0


def write(output: Path, figures: list[Figure], failed: dict[str, str], *, quick: bool) -> None:
    """Writes the report: name to value, baseline, ratio and how they came about."""
    report: dict[str, Any] = {figure.name: figure.as_json() for figure in figures}
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()}
    report["run"] = {**machine, "quick": quick, "not_measured": failed}
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps(report, indent=2) + "\n")
    missed = [figure.name for figure in figures if figure.met is False]
    disturbed = [figure.name for figure in figures if figure.disturbed]
    print(f"{os.path.relpath(output)}: {len(figures)} figures, targets missed: {', '.join(missed) or 'none'}")
    if disturbed:
        print(f"other processes took part of the machine, measure again: {', '.join(disturbed)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="show that all can be measured; figures mean little")
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the report goes (build/bench.json)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
