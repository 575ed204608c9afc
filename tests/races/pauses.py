"""Random pauses of the processes of a run, servers and Java included: what a machine with too much to do does."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LONGEST = 0.3
"""Seconds of a pause; most are much shorter."""
_BETWEEN = 0.03
"""Seconds between two pauses, on average: one of the processes stands still most of the time."""
_LOOK = 1.0
"""Seconds between two looks at what runs."""


def _state(stat: Path) -> tuple[str, int]:
    """The letter of its state, and its parent."""
    letter, above = stat.read_text().rpartition(")")[2].split()[:2]
    return letter, int(above)


def descendants(parent: int) -> list[int]:
    """The processes that a process has started, and those that they have started (Linux)."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            children.setdefault(_state(stat)[1], []).append(int(stat.parent.name))
    found = [parent]
    for process in found:
        found.extend(children.get(process, ()))
    return found[1:]


def pause(process: int, seconds: float) -> None:
    """Stop a process, and let it go on; it may end meanwhile, and one that a test has stopped before stays so.

    One that a test stops in these moments goes on with the others: such a test may fail for that alone.
    """
    with suppress(OSError):
        if _state(Path(f"/proc/{process}/stat"))[0] == "T":
            return
        os.kill(process, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(process, signal.SIGCONT)


@contextmanager
def pausing() -> Iterator[None]:
    """Pause processes that we have started, one at a time, until the end."""
    over, own = threading.Event(), os.getpid()

    def go_on() -> None:
        looked, found = 0.0, list[int]()
        while not over.wait(random.expovariate(1 / _BETWEEN)):
            if time.monotonic() - looked > _LOOK:
                looked, found = time.monotonic(), descendants(own)
            if found:
                pause(random.choice(found), _LONGEST * random.random() ** 3)

    thread = threading.Thread(target=go_on, name="pauses")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
