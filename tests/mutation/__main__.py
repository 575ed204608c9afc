"""Break the product in `--count` places, one at a time, and say which breaks no test notices.

    python -m tests.mutation --count 150 --seed 14
    python -m tests.mutation --only gateway/nodes/meeting.py --count 40

Mutants are drawn from the rooms of `TARGETS`, in equal shares; each is tried in a copy of the tree against the room's
tests, quick ones first, until one fails. Survivors are printed with their place: each is a gap in the tests or changes
nothing that anybody can see. The exit code is 0; build/mutants.json has every result.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.targets import TARGETS, Target
from tests.support.parts import ROOT

KEPT = ("gateway", "bridges", "policies", "tests", "docs", "deploy", "pyproject.toml", "Makefile", "README.md")
TIME = 600.0
"""Seconds for all tests of one mutant: a mutant that hangs is noticed, too."""


class Trial(NamedTuple):
    """A mutant, where it stands, and what its tests said."""

    file: str
    mutant: Mutant
    tests: tuple[str, ...]


def main() -> None:
    """Draw, try and report."""
    options = arguments()
    trials = drawn(options.seed, options.count, options.only)
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(options.workers):
            copies.put(copied(Path(folder) / str(number)))
        with ThreadPoolExecutor(options.workers) as pool:
            results = list(pool.map(lambda trial: told(trial, copies), trials))
    report(options.seed, trials, results)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="tests.mutation", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=150, help="mutants to try (default: 150)")
    parser.add_argument("--seed", type=int, default=14, help="draws the same mutants of the same source (default: 14)")
    parser.add_argument("--workers", type=int, default=2, help="mutants tried at a time (default: 2)")
    parser.add_argument("--only", action="append", default=[], help="a file or folder to draw from; may be repeated")
    return parser.parse_args()


def drawn(seed: int, count: int, only: list[str]) -> list[Trial]:
    """Return the mutants to try, spread over the rooms."""
    random_ = random.Random(seed)
    rooms = [list(of_target(target, only)) for target in TARGETS]
    rooms = [room for room in rooms if room]
    for room in rooms:
        random_.shuffle(room)
    share = -(-count // len(rooms))
    chosen = [trial for room in rooms for trial in room[:share]]
    return sorted(random_.sample(chosen, min(count, len(chosen))))


def of_target(target: Target, only: list[str]) -> Iterator[Trial]:
    """Yield every mutant of a room."""
    for path in sorted(found for pattern in target.files for found in ROOT.glob(pattern)):
        name = str(path.relative_to(ROOT))
        if only and not any(name.startswith(each) for each in only):
            continue
        for mutant in mutants(path.read_text()):
            yield Trial(name, mutant, target.tests)


def copied(folder: Path) -> Path:
    """Return a copy of what the tests need; built modules come along, fetched parts are shared."""
    folder.mkdir()
    for name in KEPT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(source, folder / name)
    (folder / "build").mkdir()
    (folder / "build" / "parts").symlink_to((ROOT / "build" / "parts").resolve())
    return folder


def told(trial: Trial, copies: SimpleQueue[Path]) -> str:
    """Try one mutant in a free copy; print and return what became of it."""
    folder = copies.get()
    path = folder / trial.file
    source = path.read_text()
    began = time.monotonic()
    try:
        path.write_text(trial.mutant.apply(source))
        result = tried(folder, trial.tests)
    finally:
        path.write_text(source)
        copies.put(folder)
    place = f"{trial.file}:{trial.mutant.line}"
    print(f"{result:10} {time.monotonic() - began:5.0f} s  {place}: {trial.mutant.what}", flush=True)
    return result


def tried(folder: Path, tests: tuple[str, ...]) -> str:
    """Run the tests against the mutant: `killed`, `survived`, or `timeout`, which counts as noticed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=TIME, check=False)
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode not in (0, 1, 2, 3, 4):
        raise SystemExit(f"pytest ended with {done.returncode}: {done.stdout.decode()[-2000:]}")
    return "survived" if done.returncode == 0 else "killed"


def report(seed: int, trials: list[Trial], results: list[str]) -> None:
    """Print the counts and the survivors with the lines they change; write build/mutants.json."""
    print(f"seed {seed}: {dict(Counter(results))}")
    rows = []
    for trial, result in zip(trials, results, strict=True):
        old = (ROOT / trial.file).read_text()[trial.mutant.start : trial.mutant.end]
        rows.append({"place": f"{trial.file}:{trial.mutant.line}", "result": result, "what": trial.mutant.what,
                     "old": old, "new": trial.mutant.text})  # fmt: skip
        if result == "survived":
            print(f"  {trial.file}:{trial.mutant.line}: {trial.mutant.what}: {old!r} -> {trial.mutant.text!r}")
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "mutants.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
