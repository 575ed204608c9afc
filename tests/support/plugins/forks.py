"""pytest plugin: one worker of pytest-xdist collects the tests, and the others are forked from it.

Collecting ten thousand tests, with all they import, takes fifteen seconds of processor time, which each worker would
take. Nothing has run when they are forked: no fixture, no server, no loop, no thread but those of execnet.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any, Final

import pytest
from execnet.gateway_base import dumps_internal, loads_internal

from tests.support.plugins import worker
from tests.support.plugins.worker import FORKED, FORKING, framed, frames

_PATIENCE: Final = 10.0
"""Seconds that a worker has to ask for its fork when all tests are collected: it does so when it starts."""


class Line:
    """What a fork has for its channel to the run: a socket to the process that would have been the worker."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._sending = threading.Lock()
        self._over = False

    def send(self, item: tuple[str, dict[str, Any]]) -> None:
        """Send an event."""
        self._over = self._over or item[0] == "workerfinished"
        with self._sending:
            self._link.sendall(framed(dumps_internal(item)))

    def setcallback(self, callback: Callable[[object], None], endmarker: object) -> None:
        """Hand over the run's commands from now on; without a run, the end is that of an interrupt."""

        def read() -> None:
            frames(self._link, lambda data: callback(loads_internal(data)))
            callback(endmarker)
            if not self._over:
                os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=read, daemon=True).start()


def pytest_xdist_getremotemodule() -> ModuleType:
    """Run ours in workers."""
    return worker


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> Generator[None]:
    """When all is collected, and says so, fork the first worker for each of the others."""
    yield
    if listener := getattr(session.config, "workerinput", {}).pop(FORKING, None):
        _fork_for_others(session, listener)


def _fork_for_others(session: pytest.Session, listener: socket.socket) -> None:
    ours = session.config.workerinput  # type: ignore[attr-defined]
    ours[FORKED] = []
    listener.settimeout(_PATIENCE)
    for _ in range(1, ours["workercount"]):
        try:
            link, _ = listener.accept()
        except TimeoutError:
            break
        link.settimeout(None)
        with link.makefile("rb") as stream:
            about, base = json.loads(stream.readline())
        if (pid := os.fork()) == 0:
            listener.close()
            _become(session, Line(link), about, base)
            return
        ours[FORKED].append(pid)
        link.close()
    listener.close()


def _become(session: pytest.Session, line: Line, about: dict[str, Any], base: str | None) -> None:
    """Be another worker: with its name, its folder and its channel, and with files of its own to capture output."""
    config: Any = session.config
    os.environ["PYTEST_XDIST_WORKER"] = about["workerid"]
    config.workerinput.clear()
    config.workerinput.update(about)
    config.option.basetemp = base
    config._tmp_path_factory = pytest.TempPathFactory.from_config(config, _ispytest=True)
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    (interactor,) = (each for each in config.pluginmanager.get_plugins() if type(each).__name__ == "WorkerInteractor")
    interactor.workerid = about["workerid"]
    interactor.channel = line
    interactor.pytest_sessionstart(session)
    interactor.pytest_collection_finish(session)
