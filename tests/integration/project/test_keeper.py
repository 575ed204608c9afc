"""Servers that all workers share: one of each, and none is left however a run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway import process
from tests.support.gateway.process import PATIENCE, answers, wait_until
from tests.support.project.parts import ROOT
from tests.support.servers import keeper
from tests.support.servers.keeper import Keeper, ask
from tests.support.servers.servers import Redis

RUN = """
import sys, time
from pathlib import Path
from tests.support.servers import keeper
kept = keeper.Keeper(Path(sys.argv[1]), Path.cwd())
print(keeper.ask("redis")["port"], flush=True)
time.sleep(600)
"""


def test_everybody_hears_of_the_same_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(keeper.VARIABLE)
    kept = Keeper(tmp_path / "log", ROOT)
    try:
        first = ask("redis")
        assert ask("redis") == first
        with pytest.raises(AssertionError, match="KeyError: 'postgres'"):
            ask("postgres")
        assert answers(first["port"])
    finally:
        kept.close()
    assert not answers(first["port"])


def test_nothing_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if name != keeper.VARIABLE}
    run = [sys.executable, "-c", RUN, str(tmp_path / "log")]
    with subprocess.Popen(run, cwd=ROOT, env=own, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        port = int(running.stdout.readline())
        assert answers(port)
        running.kill()
    wait_until(lambda: not answers(port), "the end of its Redis")


def test_what_a_killed_process_left_is_swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "WORK", tmp_path)
    with subprocess.Popen(["true"]) as ended:
        pass
    folder = tmp_path / f"{ended.pid}-redis-0"
    folder.mkdir()
    with (
        subprocess.Popen(["sleep", "600"], cwd=folder) as left,
        subprocess.Popen(["sleep", "600"], cwd=tmp_path) as other,
    ):
        process.sweep()
        assert left.wait(PATIENCE) == -signal.SIGKILL
        assert other.poll() is None
        other.kill()
    assert not folder.exists()


def test_workers_have_databases_of_their_own(redis_server: Redis) -> None:
    redis_server.empty()
    redis_server.command("SET", "k", "1")
    other = Redis.at(redis_server.port, 63)
    other.empty()
    assert (redis_server.command("GET", "k"), other.command("GET", "k")) == ("1", "")
