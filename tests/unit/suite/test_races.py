"""The list of suspects names tests that there are; with random waits, processes do what they did, later."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.races import delays, pauses
from tests.races.suspects import SUSPECTS
from tests.support.gateway.process import wait_until
from tests.support.project.parts import ROOT

PROGRAM = """
import select, socket, time
here, there = zip(*(socket.socketpair() for _ in range(2)))
poll = select.epoll()
for each in there:
    poll.register(each, select.EPOLLIN)
begun = time.monotonic()
for each in here:
    for number in range(200):
        each.send(b"%03d" % number)
print(time.monotonic() - begun)
print(*sorted({len(poll.poll(0)) for _ in range(100)}))
begun = time.monotonic()
for number in range(5000):
    time.monotonic()
print(time.monotonic() - begun)
print([each.recv(2000) for each in there] == 2 * [b"".join(b"%03d" % number for number in range(200))])
"""


def test_there_are_thirty_and_each_is_a_test() -> None:
    assert len(set(SUSPECTS)) == len(SUSPECTS) == 30
    for suspect in SUSPECTS:
        file, _, name = suspect.partition("::")
        tests = {
            each.name
            for each in ast.parse((ROOT / file).read_text()).body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in tests, suspect


def told(environment: dict[str, str]) -> tuple[str, str, float, float]:
    command = [sys.executable, "-S", "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    sending, heard, asking, unchanged = done.stdout.splitlines()
    return heard, unchanged, float(sending), float(asking)


def test_a_process_waits_and_hears_of_one_of_two(tmp_path: Path) -> None:
    heard, unchanged, sending, asking = told(delays.environment(tmp_path / "delays.so"))
    assert (heard, unchanged) == ("1 2", "True")
    assert sending > 0.02  # twelve waits of 10 ms are usual
    assert asking > 0.02  # fifteen


def test_without_them_it_hears_of_both() -> None:
    without = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # this run may have them
    assert told(without)[:2] == ("2", "True")


def test_a_process_of_a_process_stands_still_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent that only waits, and its child, which counts: both are stopped at times, and none stays so."""
    stopped, seen, kill = set[int](), set[int](), os.kill

    def noted(process: int, number: int) -> None:
        (stopped.add if number == signal.SIGSTOP else stopped.discard)(process)
        if number == signal.SIGSTOP:
            seen.add(process)
        kill(process, number)

    monkeypatch.setattr(os, "kill", noted)
    script = "sleep 60 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert {parent.pid, child} <= set(pauses.descendants(os.getpid()))
            with pauses.pausing():
                wait_until(lambda: {parent.pid, child} <= seen, "pauses of both")
            assert stopped == set()
        finally:
            kill(child, signal.SIGKILL)


def test_processes_that_have_ended_or_are_stopped_stay_so() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: state(process.pid) == "T", "it to stand still")
        pauses.pause(process.pid, 0.0)
        assert state(process.pid) == "T"
        process.kill()
    pauses.pause(process.pid, 0.0)


def state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
