"""Fuzz the product: `python -m tests.fuzz --minutes 10` goes through all targets, so long each.

A copy of the tree, build/fuzzed, gets C modules that are compiled with AddressSanitizer, UndefinedBehaviorSanitizer and
counters of edges; Atheris does the same for Python, and libFuzzer drives both. What it finds is written to
build/fuzz/TARGET, and the command that shows it again is printed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.targets import NAMES
from tests.mutation.copies import copied
from tests.support.project.native import compile_modules
from tests.support.project.parts import ROOT

TREE = ROOT / "build" / "fuzzed"
FOUND = ROOT / "build" / "fuzz"
COUNTERS = ROOT / "tests" / "fuzz" / "counters.h"
SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fsanitize-undefined-trap-on-error")
FLAGS = (*SANITIZED, "-fsanitize-coverage=trace-pc,trace-cmp", "-include", str(COUNTERS))
LATEST = 0.7
"""Of the time that `--within` gives; starting and the last input take some, too."""
BOUNDS = ("-timeout=120", "-rss_limit_mb=4096", "-max_len=4096", "-detect_leaks=0", "-report_slow_units=120")
LIMITS = (*BOUNDS, "-print_final_stats=1", "-verbosity=0")


def runtime() -> Path:
    """Return Atheris's library of sanitizer and fuzzer, which has to be in a process before anything else."""
    found = importlib.util.find_spec("atheris")
    if found is None or found.origin is None:
        raise SystemExit("Atheris is missing: `make fuzz` installs it (requirements-fuzz.lock)")
    return Path(found.origin).parents[1] / "asan_with_fuzzer.so"


def prepare() -> None:
    """Copy the tree; only the modules compiled here are in it."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.parent.mkdir(exist_ok=True)
    copied(TREE)
    compile_modules(TREE, FLAGS, link=())


def fuzz(target: str, arguments: list[str]) -> int:
    """Run libFuzzer with these arguments; return its exit code."""
    env = os.environ | {
        "PYTHONPATH": str(TREE),
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": str(runtime()),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    }
    return subprocess.run([sys.executable, "-m", "tests.fuzz.run", target, *arguments], cwd=TREE, env=env).returncode


def search(target: str, seconds: int, seed: int) -> bool:
    """Look for faults; tell whether there is none. What reaches new code stays in build/fuzz."""
    folder = FOUND / target
    grown, kept = folder / "corpus", folder / "kept"
    grown.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(kept, ignore_errors=True)
    corpus.unpack(target, kept)
    limits = [*LIMITS, f"-max_total_time={seconds}", f"-seed={seed}", f"-artifact_prefix={folder}/"]
    print(f"{target}: {seconds} s, seed {seed}", flush=True)
    if fuzz(target, [*limits, str(grown), str(kept)]) == 0:
        return True
    for file in newest(folder):
        print(f"again: .venv/bin/python -m tests.fuzz --target {target} --replay {file.relative_to(ROOT)}")
    return False


def newest(folder: Path) -> list[Path]:
    """The input of the last finding, none where libFuzzer ended without one."""
    found = [file for file in folder.iterdir() if file.is_file() and not file.name.startswith("slow-unit")]
    return sorted(found, key=lambda file: file.stat().st_mtime)[-1:]


def keep(target: str) -> None:
    """Take what has been found to reach new code into the corpus that is kept, and only that."""
    folder, merged = FOUND / target, FOUND / target / "merged"
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    if fuzz(target, [*LIMITS, "-merge=1", str(merged), str(folder / "kept"), str(folder / "corpus")]) == 0:
        corpus.write(target, (file.read_bytes() for file in merged.iterdir()))


def main() -> int:
    """1 where a target failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="for each target")
    parser.add_argument("--within", type=float, help="seconds for all of it, compiling included, in place of minutes")
    parser.add_argument("--target", choices=NAMES, action="append")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--replay", type=Path, help="an input to try once")
    parser.add_argument("--keep", action="store_true", help="take what build/fuzz has found into tests/fuzz/corpus")
    asked = parser.parse_args()
    begun, targets = time.monotonic(), asked.target or NAMES
    prepare()
    if asked.replay:
        return 1 if fuzz(targets[0], [str(asked.replay.resolve())]) else 0
    if asked.keep:
        for target in targets:
            keep(target)
        return 0
    seconds = 60 * asked.minutes
    if asked.within:
        seconds = max(1.0, (LATEST * asked.within - (time.monotonic() - begun)) / len(targets))
    found = [target for target in targets if not search(target, round(seconds), asked.seed)]
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
