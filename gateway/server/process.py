"""The process: loads the policy, serves it, reloads on SIGHUP or a changed file, drains on SIGTERM (docs/design.md)."""

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
from gateway.config.policy_state import ReloadOutcome
from gateway.config.watch import Stamp, Stamps, changed_files, named_stamps, stamp, stamps
from gateway.observability import service_manager
from gateway.observability.logs import configure_logs
from gateway.server.composition import check_cluster, make_cluster, make_subscriptions
from gateway.server.gateway import Gateway
from gateway.tasks import Work, off_loop, set_within
from policies.rules import CompiledPolicy
from policies.text.diagnostics import PolicyErrors

_WATCH_INTERVAL: Final = 1.0
"""Seconds between checks of the policy file."""
_GARBAGE: Final = (25_000, 1, 2_000)
"""Thresholds of the garbage collector: it scans the new objects at 25,000, and those that remain at twice as many,
which takes less than 10 ms and stops everything else. It almost never scans all objects by itself
(`gateway/held/garbage.py`)."""
_READ_TIMEOUT: Final = 30.0
"""Time limit in seconds for reading the policy and the files that it names."""
_SHUTTING_DOWN: Final = "the gateway is shutting down; the next start reads the file"
SIGNAL, REQUEST, CHANGED = "signal", "request", "changed file"
"""Reasons of a reload, for the log."""
_UNREADABLE: Final = (
    f"the policy, or a file that it names, could not be read within {_READ_TIMEOUT:.0f} s: a pipe, or a file system "
    "that does not answer? Put it right, and reload"
)


def run(path: Path) -> int:
    """`scopegate run`: serve until SIGTERM or SIGINT; 0 after an orderly end, 1 if the policy has mistakes."""
    # Its default action would end the process until there is a handler
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        policy, seen = read(path)
    except PolicyErrors as errors:
        sys.stderr.write(f"{errors}\n")
        return 1
    configure_logs(style=policy.model.gateway.log)
    return run_loop(lambda: _serve(policy, seen))


def read(path: Path) -> tuple[CompiledPolicy, Stamps]:
    """The policy, and the versions of its file and of those it names that were read. Raises PolicyErrors."""
    seen = stamp(path)
    policy = load(path)
    return policy, {path: seen, **named_stamps(policy)}


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
    """Raise the limit of file descriptors, exclude imported modules from garbage collection, and print crashes in C.
    """
    with suppress(OSError, ValueError):  # no stderr
        faulthandler.enable()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_GARBAGE)


async def _serve(policy: CompiledPolicy, seen: Stamps) -> int:
    service = Gateway(policy, make_cluster, check_cluster, make_subscriptions)
    # Its signal handlers exist before clients can connect: from then on the shutdown is an orderly one.
    process = service.steering = GatewayProcess(service, policy.file, seen)
    try:
        await service.start()
    except (OSError, CredentialFilesError) as error:
        service.report.log.error("cannot start", problems=str(error).splitlines())
        await service.stop(0)
        return 1
    service.supervisor.keep(process.watch, "policy-watch")
    service_manager.ready(f"serving the policy {policy.digest}")
    await process.ended()
    service_manager.stopping()
    model = service.policy.model.gateway
    await service.announce_stop(model.drain_delay.seconds)
    await service.stop(model.drain.seconds)
    return 0


class GatewayProcess:
    """Handles signals, and watches the policy file of a running gateway and the files that it names."""

    def __init__(self, service: Gateway, path: Path, seen: Stamps) -> None:
        """`seen`: the versions of the files that the present policy was made of."""
        self._service = service
        self._path = path
        self._stop = asyncio.Event()
        self._reload = asyncio.Event()
        self._signalled = False
        self._seen = seen
        self._reload_requests: list[asyncio.Future[ReloadOutcome]] = []
        self._stamp_task: asyncio.Task[dict[Path, Stamp | None]] | None = None
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._on_stop)

    def _on_stop(self) -> None:
        if self._stop.is_set():  # a second signal ends the process at once
            os._exit(1)
        self._stop.set()

    async def reload(self) -> ReloadOutcome:
        """Reload now, or when a reload in progress is over; returns how it ended."""
        answer: asyncio.Future[ReloadOutcome] = asyncio.get_running_loop().create_future()
        self._reload_requests.append(answer)
        self._reload.set()
        return await answer

    async def check(self) -> tuple[list[str], list[str]]:
        """The mistakes and warnings that a reload would find now; nothing is changed."""
        try:
            async with asyncio.timeout(_READ_TIMEOUT):
                policy = await off_loop(load, self._path)
                credentials = await self._service.load(policy)
        except PolicyErrors as errors:
            return str(errors).splitlines(), []
        except CredentialFilesError as errors:
            return errors.problems, []
        except TimeoutError:
            return [_UNREADABLE], []
        return [], [*map(str, policy.warnings), *credentials.warnings]

    def drain(self) -> None:
        """End the process in order, as SIGTERM does; once that has begun, nothing more happens."""
        self._stop.set()

    async def ended(self) -> None:
        """Wait for the first signal to stop."""
        await self._stop.wait()

    async def watch(self) -> None:
        """Reload on SIGHUP, or if a watched file has changed; one reload after the other.

        A signal during a reload is followed by another reload, so the last file wins.
        """
        while True:
            await set_within(self._reload, _WATCH_INTERVAL)
            if reason := await self._due():
                await self._answer(reason)
            elif not self._stop.is_set():
                await self._service.listening.retry_unbound()

    async def _due(self) -> str | None:
        """The reason to reload now, or None.

        The files are checked after the last signal, so that a change counts once.
        """
        while True:
            self._signalled = self._signalled or self._reload.is_set()
            self._reload.clear()
            now = await self._stamped()
            if not self._reload.is_set():
                break
        changed = changed_files(self._seen, now)
        reason = _reason(self._signalled, asked=bool(self._reload_requests), changed=bool(changed))
        if reason:
            self._signalled, self._seen = False, now
            self._service.policy_state.changed = [str(path) for path in changed]
        return reason

    async def _answer(self, reason: str) -> None:
        state, waiting = self._service.policy_state, self._reload_requests
        state.reason, self._reload_requests = reason, []
        service_manager.reloading()
        try:
            await self._apply()
        except Exception as error:  # unexpected: later reloads must still work
            state.broken(error)
        service_manager.ready(f"serving the policy {self._service.policy.digest}; {state.ready()[1]}")
        for answer in waiting:
            if not answer.done() and state.outcome is not None:
                answer.set_result(state.outcome)

    async def _stamped(self) -> Stamps:
        """The present versions of the watched files; the previous ones if a file system does not answer."""
        if self._stamp_task is None:
            self._stamp_task = self._service.supervisor.start(off_loop(stamps, [*self._seen]), "policy-look")
        done, _ = await asyncio.wait({self._stamp_task}, timeout=_READ_TIMEOUT)
        if not done:  # wait for the same thread again instead of starting one more each time
            return self._seen
        finished, self._stamp_task = self._stamp_task, None
        return finished.result()

    async def _apply(self) -> None:
        try:
            async with asyncio.timeout(_READ_TIMEOUT):
                policy = await off_loop(load, self._path)
                credentials = await self._service.load(policy)
                named = await off_loop(named_stamps, policy)
            if self._stop.is_set():  # nothing would close new listeners and connectors in order
                raise CredentialFilesError([_SHUTTING_DOWN])
        except PolicyErrors as errors:
            self._service.policy_state.refused(str(errors).splitlines())
        except CredentialFilesError as errors:
            self._service.policy_state.refused(errors.problems)
        except TimeoutError:
            self._service.policy_state.refused([_UNREADABLE])
        else:
            self._seen = {self._path: self._seen.get(self._path), **named}
            await self._service.apply(policy, credentials)


def _reason(signalled: bool, *, asked: bool, changed: bool) -> str | None:
    """The reason for a reload, or None; whoever asks sets the event that a signal sets."""
    if signalled:
        return REQUEST if asked else SIGNAL
    return CHANGED if changed else None
