"""What a worker of pytest-xdist runs: the first one collects the tests, the others are forked from it when it has.

execnet runs this file instead of `xdist.remote`, in a process of the worker that has imported nothing of the suite.
That of a worker behind the first is not to: it waits for the fork and hands on what the run and the fork say to each
other. Where no fork comes, it collects the tests itself.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from execnet.gateway_base import Message, dumps_internal

FORKING: Final = "forking"
"""Under this name the first worker's input holds the socket at which the others ask for a fork of it."""
FORKED: Final = "forked"
"""Under this one, the process ids of its forks."""
BASE: Final = "basetemp"
_PATIENCE: Final = 30.0
_SIZE: Final = struct.Struct("!I")
_END: Final = "the run is over"


class BegunChannel:
    """A channel whose first object has been received already."""

    def __init__(self, channel: Any, first: object) -> None:
        self._channel = channel
        self._first = first

    def receive(self) -> object:
        """Return the first object."""
        return self._first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


def framed(data: bytes) -> bytes:
    """Return bytes with their number before them."""
    return _SIZE.pack(len(data)) + data


def frames(link: socket.socket, take: Callable[[bytes], None]) -> None:
    """Hand over what comes until the other side closes."""
    with link.makefile("rb") as stream:
        while len(size := stream.read(_SIZE.size)) == _SIZE.size:
            take(stream.read(*_SIZE.unpack(size)))


def address(run: str) -> str:
    """Where the first worker of a run listens: a name that ends with it."""
    return f"\0scopegate-workers-{run}"


def listening(run: str, others: int) -> socket.socket:
    """Let the other workers of a run ask for a fork."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address(run))
    listener.listen(others)
    return listener


def asked(run: str, about: object) -> socket.socket | None:
    """Ask the first worker for a fork; None if it does not listen."""
    link = socket.socket(socket.AF_UNIX)
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            link.connect(address(run))
        except OSError:
            time.sleep(0.05)
        else:
            link.sendall(json.dumps(about).encode() + b"\n")
            return link
    return None


def hand_on(channel: Any, link: socket.socket) -> bool:
    """Say to the run what the fork says and the other way round until it ends; tell whether there was a fork."""
    began = False

    def to_fork(item: object) -> None:
        try:
            if item == _END:
                link.shutdown(socket.SHUT_WR)
            else:
                link.sendall(framed(dumps_internal(item)))
        except OSError:  # it has ended
            return

    def to_run(data: bytes) -> None:
        nonlocal began
        if not began:
            began = True
            channel.setcallback(to_fork, endmarker=_END)
        channel.gateway._send(Message.CHANNEL_DATA, channel.id, data)  # written as the channel would write it

    frames(link, to_run)
    return began


def work(channel: Any, given: tuple[Any, ...]) -> None:
    """Be a worker as pytest-xdist has them; a fork ends here, and its parent behind it."""
    sys.path[:] = given[3] or sys.path
    remote = Path(str(find_spec("xdist").origin)).with_name("remote.py")  # pytest imports xdist itself, as a plugin
    code = compile(remote.read_text(), str(remote), "exec")
    process = os.getpid()
    try:
        exec(code, {"__name__": "__channelexec__", "channel": BegunChannel(channel, given)})
    finally:
        if os.getpid() != process:
            threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
            atexit._run_exitfuncs()
            os._exit(0)
        for fork in given[0].get(FORKED, ()):
            os.waitpid(fork, 0)


def leave() -> None:
    """End as forks do: what libraries say of objects that are left at the end of a process concerns no test."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def begin(channel: Any) -> None:
    """Be the worker that the run asks for."""
    atexit.register(leave)  # the first that is registered is the last that is called
    given = channel.receive()
    about, _, options, _ = given
    run, workers = about["testrunuid"], [f"gw{number}" for number in range(about["workercount"])]
    if about["workerid"] in workers[1:] and (link := asked(run, [about, options.get(BASE)])):
        if hand_on(channel, link):
            return
    elif about["workerid"] in workers[:1] and workers[1:]:
        about[FORKING] = listening(run, len(workers) - 1)
    work(channel, given)


if __name__ == "__channelexec__":
    begin(channel)  # type: ignore[name-defined]  # noqa: F821  # execnet puts it there
