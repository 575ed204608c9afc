"""Gateways from a warm parent: a process that has imported the product forks for each `scopegate run`.

Importing takes a gateway a second of processor time, with probes for coverage three, and the suite starts hundreds. The
parent only imports, it runs nothing: a child is the same program with the same arguments, environment and folder as the
command's. What the start of the command itself does is shown where it is the point (`warm=False`, tests of the
installed command).

A request is one message on a Unix socket: JSON, with four file descriptors. Three become the child's input, output and
errors. On the fourth the parent writes the child's process id, and its wait status when it has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

CONSTANTS = "SCOPEGATE_TEST_CONSTANTS"
"""Names constants of the product that a child has other values for, as `shortened` writes them."""
IMPORTS = "SCOPEGATE_TEST_IMPORTS"
"""Names a file to which a child adds the modules that it imports itself."""
USUAL: Final = {
    "gateway.server.gateway._CLOSING": 0.5,
    "bridges.kafka.clusters.cluster.TIMEOUT": 6.0,
    "gateway.state.redis.TIMEOUT": 6.0,
}
"""Of every gateway: scripted peers do not answer its close, and it would wait for each of them; and a Kafka or Redis
that stands still for a few seconds on a busy machine is not away."""
OFTEN: Final = {"bridges.kafka.clusters.cluster.REFRESH": 0.5}
"""Gateways that soon see what has become of topics."""
IMPATIENT: Final = {"bridges.kafka.clusters.cluster.TIMEOUT": 1.0}
"""Gateways that soon give up a Kafka that does not answer."""
PATIENT: Final = {"gateway.state.redis.TIMEOUT": 30.0, "gateway.state.counters.redis_store.PATIENCE": 60.0}
"""Gateways that do not soon give up a Redis that stands still, as all on a busy machine may."""
_NUMBER = struct.Struct("=i")
MODULES: Final = (
    "gateway.server.process", "gateway.cli.main", "gateway.cli.run", "gateway.observability.http.server",
    "gateway.server.admin.administration", "gateway.http.listener",
    "gateway.connectors.connector", "gateway.forwarding.worker",
    "gateway.journal.recorder", "gateway.journal.writer", "gateway.amqp.sasl.user_file",
    "gateway.state.redis", "gateway.state.counters.redis_store", "gateway.state.leases.redis_store",
    "gateway.state.subscriptions.redis_store", "gateway.state.termini.redis_store",
    "bridges.kafka.bridge", "bridges.eventhubs.dialect",
    "bridges.cloudevents.service", "bridges.cloudevents.samples", "bridges.cloudevents.sinks.http.factory",
    "uvloop", "uvicorn.lifespan.off", "uvicorn.protocols.http.auto", "uvicorn.protocols.websockets.auto",
    "confluent_kafka.admin", "cryptography.x509", "encodings.ascii", "encodings.idna", "encodings.utf_8_sig",
)  # fmt: skip
"""With what a gateway imports only when its policy wants it: coverage makes importing all the more expensive."""
_LONGEST = 1 << 20


def shortened(constants: Mapping[str, float]) -> dict[str, str]:
    """Return the environment of a gateway with other constants, `gateway.tasks._RECOVERED` for example.

    Waits and limits that no policy sets are smaller in it, for tests of what follows them.
    """
    return {CONSTANTS: json.dumps({**USUAL, **constants})}


class WarmChild:
    """A forked process, with the part of `subprocess.Popen` that the suite uses."""

    returncode: int | None = None

    def __init__(self, status: int) -> None:
        self._status = status
        found = os.read(status, _NUMBER.size)
        assert found, "the warm parent has ended: its log is build/logs/*-warm.log"
        (self.pid,) = _NUMBER.unpack(found)

    def poll(self) -> int | None:
        """Return the exit code (negative: the signal), or None while the child runs."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; raises `subprocess.TimeoutExpired`."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("scopegate", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the child has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may end just now, as with `subprocess`
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None and _readable(self._status, seconds):
            found = os.read(self._status, _NUMBER.size)
            os.close(self._status)
            assert found, "the warm parent has ended: its log is build/logs/*-warm.log"
            self.returncode = os.waitstatus_to_exitcode(_NUMBER.unpack(found)[0])
        return self.returncode


def _readable(descriptor: int, seconds: float | None) -> bool:
    """Wait for something to read; `select` refuses the descriptors of a test with a thousand sockets."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else 1000 * seconds))


class WarmParent:
    """The parent of this process's gateways, started by the first of them."""

    def __init__(self, log: Path, root: Path) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, log.open("ab") as output:
            self._parent = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=root, pass_fds=[theirs.fileno()],
            )  # fmt: skip

    def start(self, arguments: Sequence[str], output: int, env: Mapping[str, str], cwd: Path | None) -> WarmChild:
        """Start `scopegate` with these arguments; `output` is the descriptor of its log."""
        with Path(os.devnull).open() as nothing:
            return self.start_with(arguments, (nothing.fileno(), output, output), env, cwd)

    def start_with(
        self, arguments: Sequence[str], streams: tuple[int, int, int], env: Mapping[str, str], cwd: Path | None
    ) -> WarmChild:
        """Start `scopegate` with these arguments; `streams` are the descriptors of its input, output and errors."""
        ours, theirs = os.pipe()
        request = json.dumps([list(arguments), dict(env), str(cwd or Path.cwd())]).encode()
        try:
            socket.send_fds(self._socket, [request], [*streams, theirs])
        finally:
            os.close(theirs)
        return WarmChild(ours)

    @property
    def control(self) -> int:
        """The descriptor of the socket, for a child that asks as well."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the parent and what it has forked."""
        self._socket.close()
        self._parent.wait(30)


def serve(control: socket.socket) -> list[str]:
    """Fork for each request; return in a child, with its arguments; end with the other end of the socket."""
    for name in MODULES:
        importlib.import_module(name)
    importlib.import_module(
        "gateway.filters.parse.filter_set"
    ).prepare()  # a gateway does so in a thread when it has started
    importlib.import_module(
        "policies.schema"
    ).json_schema()  # builds all sections of policies, of which a gateway builds those in its file
    children: dict[int, tuple[int, int]] = {}  # by descriptor of the process: its id, and where its status goes
    while True:
        ready, _, _ = select.select([control, *children], [], [])
        for process in [each for each in ready if isinstance(each, int)]:
            _ended(process, *children.pop(process))
        if control in ready:
            request, descriptors, _, _ = socket.recv_fds(control, _LONGEST, 4)
            if not request:
                _end_all(children)
            *streams, status = descriptors
            arguments, env, folder = json.loads(request)
            if (pid := os.fork()) == 0:
                for descriptor in (control.detach(), status, *children, *(each for _, each in children.values())):
                    os.close(descriptor)
                return _become(arguments, env, folder, streams)
            for stream in streams:
                os.close(stream)
            os.write(status, _NUMBER.pack(pid))
            children[os.pidfd_open(pid)] = pid, status


class Noted:
    """Finds no module, but writes down which one is looked for."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.touch()

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> None:
        """Be a finder of `sys.meta_path`."""
        with self._file.open("a") as names:
            names.write(f"{name}\n")


def _ended(process: int, pid: int, status: int) -> None:
    """Tell whoever asked for a child how it ended."""
    _, code = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(status, _NUMBER.pack(code))
    os.close(status)
    os.close(process)


def _end_all(children: Mapping[int, tuple[int, int]]) -> None:
    """End with the test process: nothing that was started stays."""
    for pid, _ in children.values():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    sys.exit(0)


def _become(arguments: Sequence[str], env: Mapping[str, str], folder: str, streams: Sequence[int]) -> list[str]:
    """Make a forked process what the command would be: input, output, errors, environment, folder, name."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(env)
    for place, value in json.loads(os.environ.pop(CONSTANTS, "{}")).items():
        module, _, name = place.rpartition(".")
        assert isinstance(getattr(sys.modules[module], name), float | int), f"{place} is no constant to change"
        setattr(sys.modules[module], name, value)
    if noted := os.environ.pop(IMPORTS, ""):
        sys.meta_path.insert(0, Noted(Path(noted)))
    time.tzset()
    os.chdir(folder)
    return ["scopegate", *arguments]


def end_with(main: Callable[[], object]) -> NoReturn:
    """Run a program and end as the interpreter does, but without taking all that was imported to pieces.

    That would be the most expensive part of a short gateway's life: a fork has to copy each page that it writes to.
    """
    code: object = None
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    sys.argv = serve(socket.socket(fileno=int(sys.argv[1])))
    from gateway.cli.main import main

    end_with(main)
