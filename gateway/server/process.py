"""The process: loads the policy, serves it, reloads on SIGHUP or a changed file, drains on SIGTERM (DESIGN 3)."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.config.credential_files import CredentialFilesError
from gateway.config.policy import load
from gateway.observability.logs import configure_logs
from gateway.server.composition import check_cluster, make_cluster, make_subscriptions
from gateway.server.gateway import Gateway
from gateway.tasks import Work, off_loop
from policies.load.diagnostics import PolicyErrors
from policies.rules import CompiledPolicy

_WATCH: Final = 1.0
"""Seconds between looks at the policy file."""
_GARBAGE: Final = (25_000, 1, 2_000)
"""Thresholds of the garbage collector: it looks at new objects when there are 25,000, and again with as many more.
50,000 take less than 10 ms, and everybody waits. It looks at all objects hardly ever."""
_PATIENCE: Final = 30.0
"""Seconds that the policy and the files that it names may take to be read."""
_ENDING: Final = "the gateway is shutting down; the next start reads the file"
SIGNAL, CHANGED = "signal", "changed file"
"""Why there is a reload, for the log."""
Stamp = tuple[int, int, int]
"""What tells one state of a file from another: date in ns, size in bytes, inode."""
_UNREADABLE: Final = (
    f"the policy, or a file that it names, could not be read within {_PATIENCE:.0f} s: a pipe, or a file system "
    "that does not answer? Put it right, and reload"
)


def run(path: Path) -> int:
    """`scopegate run`: serve until SIGTERM or SIGINT; 0 after an orderly end, 1 when the policy is wrong."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it would end a process that has no handler yet
    try:
        policy, seen = read(path)
    except PolicyErrors as errors:
        sys.stderr.write(f"{errors}\n")
        return 1
    configure_logs(style=policy.model.gateway.log)
    return run_loop(lambda: _serve(policy, seen))


def read(path: Path) -> tuple[CompiledPolicy, Stamp | None]:
    """The policy, and what its file was before it was read: a change meanwhile is noticed. Raises PolicyErrors."""
    seen = _stamp(path)
    return load(path), seen


def run_loop(main: Callable[[], Work[int]]) -> int:
    """Run a coroutine as this process, on uvloop where it is installed."""
    prepare_process()
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())


def prepare_process() -> None:
    """Allow as many sockets as the system does, and keep what was imported out of garbage collection.

    A crash in C says on stderr where it happened.
    """
    with suppress(OSError, ValueError):  # no stderr
        faulthandler.enable()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_GARBAGE)


async def _serve(policy: CompiledPolicy, seen: Stamp | None) -> int:
    service = Gateway(policy, make_cluster, check_cluster, make_subscriptions)
    process = GatewayProcess(
        service, policy.file, seen
    )  # before anybody can connect: from then on the end is an orderly one
    try:
        await service.start()
    except (OSError, CredentialFilesError) as error:
        service.report.log.error("cannot start", problems=str(error).splitlines())
        await service.stop(0)
        return 1
    service.supervisor.keep(process.watch, "policy-watch")
    await process.ended()
    await service.stop(service.policy.model.gateway.drain.seconds)
    return 0


class GatewayProcess:
    """Signals and the policy file of a running service."""

    def __init__(self, service: Gateway, path: Path, seen: Stamp | None) -> None:
        """`seen`: what the file was before the policy that is served was read."""
        self._service = service
        self._path = path
        self._stop = asyncio.Event()
        self._reload = asyncio.Event()
        self._asked = False
        self._seen = seen
        self._looking: asyncio.Task[Stamp | None] | None = None
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._on_stop)

    def _on_stop(self) -> None:
        if self._stop.is_set():  # a second signal does not wait for anybody
            os._exit(1)
        self._stop.set()

    async def ended(self) -> None:
        """Wait for the first signal to stop."""
        await self._stop.wait()

    async def watch(self) -> None:
        """Reload on SIGHUP, or when the policy file has another content or date: one at a time, each from its start.

        A signal that comes while a reload reads its files is followed by another reload, so the last file wins.
        """
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reload.wait(), _WATCH)
            if reason := await self._due():
                await self._answer(reason)
            elif not self._stop.is_set():
                await self._service.listening.again()

    async def _due(self) -> str | None:
        """Why to reload now, if so; the file is looked at after the last signal, or its change would count again."""
        while True:
            self._asked = self._asked or self._reload.is_set()
            self._reload.clear()
            stamp = await self._stamped()
            if not self._reload.is_set():
                break
        changed = stamp != self._seen and stamp is not None
        reason = SIGNAL if self._asked else CHANGED if changed else None
        if reason:
            self._asked, self._seen = False, stamp
        return reason

    async def _answer(self, reason: str) -> None:
        self._service.policy_state.reason = reason
        try:
            await self._apply()
        except Exception as error:  # a bug: it must not be the last reload
            self._service.policy_state.broken(error)

    async def _stamped(self) -> Stamp | None:
        """What the policy file is now; as before where its file system does not answer."""
        if self._looking is None:
            self._looking = self._service.supervisor.start(off_loop(_stamp, self._path), "policy-look")
        done, _ = await asyncio.wait({self._looking}, timeout=_PATIENCE)
        if not done:  # it is waited for again: a thread for each look would be one more each time
            return self._seen
        looked, self._looking = self._looking, None
        return looked.result()

    async def _apply(self) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                policy = await off_loop(load, self._path)
                credentials = await self._service.load(policy)
            if self._stop.is_set():  # what listens or dials now would never be closed in good order
                raise CredentialFilesError([_ENDING])
        except PolicyErrors as errors:
            self._service.policy_state.refused(str(errors).splitlines())
        except CredentialFilesError as errors:
            self._service.policy_state.refused(errors.problems)
        except TimeoutError:
            self._service.policy_state.refused([_UNREADABLE])
        else:
            await self._service.apply(policy, credentials)


def _stamp(path: Path) -> Stamp | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
