"""Break the product in `--count` places, one at a time, and say which breaks no test notices.

    python -m tests.mutation --count 150 --seed 14
    python -m tests.mutation --only gateway/nodes/direct/node.py --count 40
    python -m tests.mutation --again --reached

Mutants are drawn from the rooms of `ROOMS`, in equal shares. A first run without mutants finds out which tests reach
which functions (build/reached.json; `--reached` takes what an earlier run found). Then each mutant is tried in a copy
of the tree against the tests that reach its function, quick ones first, until one fails (`--most 60`: only as many as
take a minute). Survivors are printed with their place: each is a gap in the tests or changes nothing that anybody can
see. build/mutants.jsonl has a line for each result as it comes; a run goes on where an earlier one of the same seed
ended, and `--again` tries the survivors again. The exit code is 0.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from tests.mutation import reached
from tests.mutation.copies import copied, run
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.targets import ROOMS
from tests.support.project.parts import ROOT

RESULTS = ROOT / "build" / "mutants.jsonl"
STAGES = (15.0, 60.0, float("inf"))
"""Seconds of tests in each run of pytest for a mutant: most are noticed in the first, and the others are not read."""
GRACE, FACTOR = 180.0, 6.0
"""Seconds, and how many times as long as without a mutant, until tests count as hanging, which is noticed too."""


class Trial(NamedTuple):
    """A mutant and the module it stands in."""

    file: str
    mutant: Mutant
    source: str

    def described(self) -> dict[str, Any]:
        """Return what tells the mutant from others, also after lines above it have changed."""
        line = self.source.splitlines()[self.mutant.line - 1]
        column = self.mutant.start - self.source.rfind("\n", 0, self.mutant.start) - 1 - len(line) + len(line.lstrip())
        return {"place": f"{self.file}:{self.mutant.line}", "what": self.mutant.what,
                "old": self.source[self.mutant.start : self.mutant.end], "new": self.mutant.text,
                "line": line.strip(), "column": column}  # fmt: skip


def main() -> None:
    """Draw, try and report."""
    options = arguments()
    known = results()
    trials = choose_mutants(options.seed, options.count, options.only)
    if options.again:
        trials = [trial for trial in choose_mutants(0, 0, []) if known.get(key(trial.described())) == "survived"]
    elif known:
        trials = [trial for trial in trials if key(trial.described()) not in known]
    map_ = reached.kept() if options.reached else reached.find(options.workers)
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(options.workers):
            copies.put(copied(Path(folder) / str(number)))
        with ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(lambda trial: try_mutant(trial, map_, options.most, copies), trials))
    report()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="tests.mutation", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=150, help="mutants to try (default: 150)")
    parser.add_argument("--seed", type=int, default=14, help="draws the same mutants of the same source (default: 14)")
    parser.add_argument("--workers", type=int, default=2, help="mutants tried at a time (default: 2)")
    parser.add_argument("--only", action="append", default=[], help="a file or folder to draw from; may be repeated")
    parser.add_argument("--most", type=float, default=float("inf"), help="seconds of tests for a mutant, at rest")
    parser.add_argument("--reached", action="store_true", help="do not look anew which tests reach which functions")
    parser.add_argument("--again", action="store_true", help="try the survivors of earlier runs again")
    return parser.parse_args()


def choose_mutants(seed: int, count: int, only: list[str]) -> list[Trial]:
    """Return the mutants to try, spread over the rooms, in random order; all of them for a count of 0."""
    random_ = random.Random(seed)
    rooms = [list(of_room(room, only)) for room in ROOMS]
    rooms = [room for room in rooms if room]
    for room in rooms:
        random_.shuffle(room)
    if not count:
        return [trial for room in rooms for trial in room]
    share = -(-count // len(rooms))
    chosen = [trial for room in rooms for trial in room[:share]]
    return random_.sample(chosen, min(count, len(chosen)))


def of_room(patterns: tuple[str, ...], only: list[str]) -> Iterator[Trial]:
    """Yield every mutant of a room."""
    for path in sorted(found for pattern in patterns for found in ROOT.glob(pattern)):
        name = str(path.relative_to(ROOT))
        if not only or any(name.startswith(each) for each in only):
            source = path.read_text()
            yield from (Trial(name, mutant, source) for mutant in mutants(source))


def try_mutant(trial: Trial, map_: reached.Reached, most: float, copies: SimpleQueue[Path]) -> None:
    """Try one mutant in a free copy; print and keep what became of it."""
    folder = copies.get()
    path = folder / trial.file
    began = time.monotonic()
    tests, _ = soon(map_.tests_of(trial.file, trial.mutant.line, trial.source), map_.took, most)
    try:
        path.write_text(trial.mutant.apply(trial.source))
        result = tried(folder, tests, map_)
    finally:
        path.write_text(trial.source)
        copies.put(folder)
    seconds = round(time.monotonic() - began)
    print(f"{result:10} {seconds:5} s  {trial.file}:{trial.mutant.line}: {trial.mutant.what}", flush=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps({"result": result, "seconds": seconds, **trial.described(), "tests": tests}) + "\n")


def tried(folder: Path, tests: list[str], map_: reached.Reached) -> str:
    """Run the tests against the mutant: `killed`, `survived`, `timeout`, which counts as noticed, or `unreached`."""
    apart = [f"--deselect={name}" for name in map_.failed]
    left, result = tests, "unreached"
    for stage in STAGES:
        now, left = soon(left, map_.took, stage)
        if not now:
            break
        seconds = GRACE + FACTOR * sum(map_.took[name] for name in now)
        result = run(folder, ["-x", *apart, *now], seconds)
        if result != "passed":
            break
    return {"passed": "survived", "failed": "killed"}.get(result, result)


def soon(tests: list[str], took: dict[str, float], most: float) -> tuple[list[str], list[str]]:
    """Split tests into those that take so many seconds together, at least one, and the others."""
    sums = itertools.accumulate(took[name] for name in tests)
    number = max(1, sum(seconds <= most for seconds in sums))
    return tests[:number], tests[number:]


def key(described: dict[str, Any]) -> tuple[str, ...]:
    """Return what names a mutant in build/mutants.jsonl, whatever lines stand above it."""
    file = described["place"].partition(":")[0]
    return (file, *(described[name] for name in ("what", "old", "new", "line", "column")))


def results() -> dict[tuple[str, ...], str]:
    """Return the last result of every mutant that was tried."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {key(found): found["result"] for found in map(json.loads, lines)}


def report() -> None:
    """Print the counts, and the survivors with what they change."""
    last = {key(found): found for found in map(json.loads, RESULTS.read_text().splitlines())}
    print(dict(Counter(found["result"] for found in last.values())))
    for found in last.values():
        if found["result"] in ("survived", "unreached"):
            print(f"  {found['place']}: {found['what']}: {found['old']!r} -> {found['new']!r}")


if __name__ == "__main__":
    main()
