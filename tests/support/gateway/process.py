"""A server of the suite as a child process: its log is a file, it is always stopped, and waiting has a deadline."""

from __future__ import annotations

import atexit
import contextlib
import gc
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from tests.support.gateway.log_lines import LogLines
from tests.support.project.parts import ROOT

LOGS = ROOT / "build" / "logs"
WORK = ROOT / "build" / "run"
KEEPING = "SCOPEGATE_TEST_KEEPING"
"""Set in the process that keeps what all workers share (tests/support/servers/keeper.py)."""
UNMEASURED = {"SCOPEGATE_COVERAGE": ""}
"""Environment of a child below `tests` that adds nothing to the coverage: probes would take its imports seconds."""
NO_SUCH_PROXY = {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
"""Environment with a proxy that is not there (port 9, discard): who asks it has no answer."""
T = TypeVar("T")
_numbers = itertools.count(1)

PATIENCE = float(os.environ.get("SCOPEGATE_TEST_PATIENCE", "60"))
"""Seconds that a test waits for what must come before it fails: on a busy machine everything takes its time."""
_SHORTEST, LONGEST = 0.01, 0.1
"""Seconds between two looks at what a test waits for, at first and when it takes long."""
_SHORT = 80
"""Bytes of a folder in whose path and the name of a socket the kernel finds room: it has 107."""
_PATIENT = 0.25
"""How much longer than it takes a wait may last, as a part of what it takes."""


class Timeout(AssertionError):
    """Something did not happen in time; the text says what."""


def fork() -> int:
    """As `os.fork`; the child collects no garbage.

    What tests have left there may wait for threads that a child does not have, or crash without them: clients of Kafka.
    """
    child = os.fork()
    if child == 0:
        gc.disable()
    return child


def wait_until(condition: Callable[[], T], what: str, seconds: float = PATIENCE, longest: float = LONGEST) -> T:
    """Return the first true value of `condition`, or fail naming what was waited for.

    It is asked less often the longer it takes: an answer may cost a gateway a page of metrics. `longest`: seconds
    between two looks, at most.
    """
    begun = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - begun
        if waited > seconds:
            raise Timeout(f"not within {seconds} s: {what}")
        time.sleep(min(max(waited * _PATIENT, _SHORTEST), longest))
    return value


def _free_ports() -> Iterator[int]:
    """Yield ports nobody listens on, each once, below the range the kernel gives to outgoing connections.

    Each worker of pytest-xdist has ports of its own, and so has the keeper of what they share: one may choose a port
    before another has bound it.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    candidates = list(range(14000, 15000) if KEEPING in os.environ else range(15000, 32000)[worker::workers])
    random.shuffle(candidates)
    for port in candidates:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            yield port


_PORTS = _free_ports()


def free_port() -> int:
    """Return a port of the loopback interface that this run has not used yet."""
    return next(_PORTS)


def ports(count: int) -> list[int]:
    """Return several free ports, for templating a policy: `edge, core, http = ports(3)`."""
    return [free_port() for _ in range(count)]


def answers(port: int) -> bool:
    """Tell whether something accepts connections on a loopback port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE):
        return True
    return False


def sweep() -> None:
    """Remove what runs that are over have left under build/run and build/logs; end what still runs there."""
    for path in (*WORK.glob("*-*"), *LOGS.glob("*-*")):
        owner = path.name.split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            if not path.is_dir():
                path.unlink(missing_ok=True)
                continue
            for pid in _users(path):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(path, ignore_errors=True)


def _users(folder: Path) -> Iterator[int]:
    """Yield processes that run in a folder, or were given a path below it."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            given = f"{folder}/".encode() in (process / "cmdline").read_bytes()
            if given or Path(os.readlink(process / "cwd")).is_relative_to(folder):
                yield int(process.name)


def fresh_folder(name: str) -> Path:
    """Return a new empty folder under build/run."""
    WORK.mkdir(parents=True, exist_ok=True)
    for number in range(10_000):
        folder = WORK / f"{os.getpid()}-{name}-{number}"
        if not folder.exists():
            folder.mkdir()
            return folder
    raise RuntimeError(f"no free name under {WORK}")


def socket_folder(name: str) -> Path:
    """Return a new empty folder for sockets, whose paths are short: not below a project that has a long one."""
    folder = fresh_folder(name)
    if len(os.fsencode(folder)) <= _SHORT:
        return folder
    folder = Path(tempfile.mkdtemp(prefix="scopegate-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _thread_state(task: Path) -> str:
    """Return the kernel's letter for what a thread does (`proc(5)`); T for one that has just ended."""
    with contextlib.suppress(OSError):
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    return "T"


def is_stopped(pid: int) -> bool:
    """Tell whether every thread of a process stands still, or none is left: the kernel stops one after the other."""
    with contextlib.suppress(OSError):
        return all(_thread_state(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir())
    return True


def resident(pid: int) -> int:
    """Return the bytes of memory that a process has."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def hold(pid: int) -> None:
    """SIGSTOP for a process that is nobody's child here, until it stands still with all its threads."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), f"process {pid} to stop")


class Child(Protocol):
    """What is asked of a child process: `subprocess.Popen`, or one of a warm parent."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int) -> None: ...

    def kill(self) -> None: ...


Start = Callable[[Sequence[str], int, Mapping[str, str], Path | None], Child]
"""Starts a command with its output to a descriptor, an environment and a folder."""


def _started(command: Sequence[str], output: int, env: Mapping[str, str], cwd: Path | None) -> Child:
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, cwd=cwd)


def end_of(text: str, lines: int = 40, width: int = 400) -> str:
    """Return the end of a text, each line cut off at a width."""
    return "\n".join(line[:width] for line in text.splitlines()[-lines:])


class Process:
    """One child with its log; `running` holds all of them, for the report of a failed test and the end."""

    running: ClassVar[list[Process]] = []

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        start: Start = _started,
    ) -> None:
        self.name = name
        LOGS.mkdir(parents=True, exist_ok=True)
        # Its own: what another of the same name says, now or late, is not taken for what this one has said.
        self.log_file = LOGS / f"{os.getpid()}-{name}-{next(_numbers)}.log"
        self.log_file.unlink(missing_ok=True)  # of a run that is over and had the same process id
        self.lines = LogLines(self.log_file)
        with self.log_file.open("ab") as log:
            self._child = start(command, log.fileno(), {**os.environ, **(env or {})}, cwd)
        Process.running.append(self)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Tell whether the child still runs."""
        return self._child.poll() is None

    def text(self) -> str:
        """Return everything this child has written."""
        return self.log_file.read_bytes().decode(errors="replace")

    def tail(self, lines: int = 40, width: int = 400) -> str:
        """Return the end of the log, each line cut off at a width."""
        return end_of(self.text(), lines, width)

    def wait_ready(
        self, condition: Callable[[], object], what: str, seconds: float = 2 * PATIENCE, longest: float = LONGEST
    ) -> None:
        """Wait for a condition; a child that ended instead is an error with the end of its log."""
        try:
            wait_until(lambda: condition() or not self.alive, what, seconds, longest)
        except Timeout as error:
            self.discard()
            raise Timeout(f"{error}\n{self.tail()}") from None
        if not self.alive and not condition():  # a quick child may have met it and ended
            code = self._child.returncode
            self.discard()
            raise AssertionError(f"{self.name} ended with {code} before {what}\n{self.tail()}")

    def send_signal(self, number: int) -> None:
        """Send a signal to the child; after SIGSTOP it has stopped, with all its threads."""
        self._child.send_signal(number)
        if number == signal.SIGSTOP:
            wait_until(lambda: not self.alive or is_stopped(self.pid), f"{self.name} to stop")

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for the end and return the exit code (negative: the signal)."""
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Timeout(f"{self.name} still runs after {seconds} s\n{self.tail()}") from None

    def end(self, number: int = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        """Signal the child, wait for its end, return the exit code; a child that stays is killed."""
        self.send_signal(number)
        try:
            return self.wait(seconds)
        finally:
            self.discard()

    def discard(self) -> None:
        """Make sure the child is gone, and forget it."""
        if self.alive:
            self._child.kill()
            self._child.wait()
        if self in Process.running:
            Process.running.remove(self)


class Server(ABC):
    """A server on fixed ports and data: it can be stopped, killed and started again at the same address."""

    process: Process | None = None

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it serves."""

    def stop(self) -> None:
        """End the server in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again, after an orderly stop if it still runs."""
        self.stop()
        self.start()

    def _end(self, number: int) -> None:
        process, self.process = self.process, None
        if process is not None and process.alive:
            process.end(number)


def run_tool(name: str, command: Sequence[str], seconds: float = 2 * PATIENCE) -> None:
    """Run a step of a server's set-up to its end; an error carries the end of what it printed."""
    process = Process(name, command)
    try:
        code = process.wait(seconds)
    finally:
        process.discard()
    if code:
        raise AssertionError(f"{name} failed with {code}\n{process.tail()}")


@atexit.register
def _discard_all() -> None:
    for process in list(Process.running):
        process.discard()
