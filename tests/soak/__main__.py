"""Draw the next thing to try until the time is up; stop at the first failure.

    python -m tests.soak --minutes 20 --seed 7
    python -m tests.soak --kinds deep fuzz

What can be drawn: tests/soak/steps.py. The seed is printed and stands for the order of everything. A step that the end
of the time interrupts is no failure; one that takes more than its share (`--share`, seconds) is ended and counted as
cut short. A step with a time of its own (kind `whole`) is left out where less is left. The exit code is 1 after a
failure, and the command that repeats it is printed last.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.soak.steps import Step, Steps, all_makers
from tests.support.project.parts import ROOT

LOGS: Final = ROOT / "build" / "soak"
GRACE: Final = 90.0
"""Seconds that a step has to end its servers when it is interrupted."""
MOST: Final = 600
"""Seconds that one step takes at most, however long the whole is, unless it has a time of its own."""
MANY: Final = 20
"""Steps that are left out because too little time is left, before it ends."""


def run(step: Step, seconds: float, log: Path) -> str:
    """Do one step with its output in `log`; return `passed`, `failed` or `cut short`."""
    with log.open("wb") as output:
        output.write(f"{step.shown()}\n".encode())
        output.flush()
        child = subprocess.Popen(
            [sys.executable, *step.arguments], cwd=ROOT, env={**os.environ, **step.env},
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=hear_interrupts,
        )  # fmt: skip
        try:
            return "failed" if child.wait(seconds) else "passed"
        except subprocess.TimeoutExpired:
            return "cut short"
        finally:
            end(child)


def hear_interrupts() -> None:
    """Let a child be interrupted, even if the shell of the whole ignores interrupts, as it does in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def end(child: subprocess.Popen[bytes]) -> None:
    """Interrupt a step as a keyboard would, so that it stops its servers; then kill what is left of it."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def soak(steps: Steps, seconds: float, share: float) -> int:
    """Go on until the time is up or something fails; return the exit code."""
    begun, done = time.monotonic(), Counter[str]()
    LOGS.mkdir(parents=True, exist_ok=True)
    while (left := begun + seconds - time.monotonic()) > 0:
        step, log = steps.draw(), LOGS / f"{sum(done.values()) + 1:03}.log"
        if step.seconds is not None and step.seconds > left:
            print(f"{step.name} is left out: it may take {step.seconds} s", flush=True)
            done["left out"] += 1
            if done["left out"] > MANY:
                break
            continue
        started = time.monotonic()
        outcome = run(step, min(left, step.seconds or share), log)
        done[outcome] += 1
        print(f"{started - begun:6.0f} s  {outcome:9} {time.monotonic() - started:5.0f} s  {step.name}", flush=True)
        if outcome == "failed":
            print(f"\n{log.read_text(errors='replace')[-20_000:]}\nDo it again: {step.shown()}")
            return 1
    print(", ".join(f"{count} {outcome}" for outcome, count in done.items()) or "nothing done: no time")
    return 0


def main() -> int:
    """Read the command line and go."""
    makers = all_makers()
    parser = argparse.ArgumentParser(prog="tests.soak", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None, help="do what an earlier run did")
    parser.add_argument("--share", type=int, default=None, help="seconds that one step may take")
    parser.add_argument("--kinds", nargs="+", choices=[*makers], default=[*makers])
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    share = options.share or min(MOST, max(60, int(options.minutes * 60 / 5)))
    print(f"MINUTES={options.minutes:g} SEED={seed}", flush=True)
    steps = Steps({kind: makers[kind] for kind in options.kinds}, seed, share)
    return soak(steps, options.minutes * 60, share)


if __name__ == "__main__":
    sys.exit(main())
