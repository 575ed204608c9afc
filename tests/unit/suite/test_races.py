"""The list of suspects names tests that there are; with random waits, processes do what they did, later."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from tests.races import delays
from tests.races.suspects import SUSPECTS
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
