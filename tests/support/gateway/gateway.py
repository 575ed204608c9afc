"""The real command `scopegate run FILE` as a child process, with helpers for tests."""

from __future__ import annotations

import atexit
import contextlib
import functools
import http.client
import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.support.amqp.peer import Peer
from tests.support.gateway.process import LOGS, LONGEST, PATIENCE, Process, Timeout, answers, fresh_folder, wait_until
from tests.support.gateway.warm import CONSTANTS, WarmParent, shortened
from tests.support.project.parts import ROOT

SCOPEGATE = "from gateway.cli.main import main; main()"
"""What the installed `scopegate` script does; the suite runs the tree it stands in."""


RELOADED = "policy reloaded"
_COUNTS = ("logins_revoked", "links_closed")


class Gateway:
    """One running gateway; `policy` is its file."""

    script = SCOPEGATE
    unready = ""
    """What `/readyz` said last."""
    looks = LONGEST
    """Seconds between two looks at whether it is ready, at most."""

    def __init__(
        self, policy: str | Path, *, env: Mapping[str, str] | None = None, ready: bool = True, warm: bool = False
    ) -> None:
        self.policy = policy if isinstance(policy, Path) else written(policy)
        self._ready = ready
        self._warm = warm and "PYTHONPATH" not in (env or {})  # who sets it wants other modules imported
        assert self._warm or CONSTANTS not in (env or {}), "the constants of a cold start are its own"
        self._env = {"PYTHONPATH": str(ROOT), **(shortened({}) if self._warm else {}), **(env or {})}
        self.process = self._run()

    def _run(self) -> Process:
        self._counted = 0
        document = YAML(typ="safe").load(self.policy.read_text())
        http: str | None = (document.get("gateway") or {}).get("http")
        assert http, "a test's policy says where its `http` is, or off: two workers would meet at the default port"
        self.http = None if http == "off" else http
        self.ports = list(listening_ports(document))
        process = self._process(["run", str(self.policy)])
        try:
            ready = self.is_ready if self._ready else self.listens
            process.wait_ready(ready, "the gateway to serve", longest=self.looks)
        except Timeout as error:
            raise Timeout(f"{error}\n/readyz: {self.unready}") from None
        return process

    def _process(self, arguments: list[str]) -> Process:
        where: dict[str, Any] = {"env": self._env, "cwd": self.policy.parent}
        if self._warm:
            return Process("gateway", arguments, start=warm_parent().start, **where)
        return Process("gateway", [sys.executable, "-c", self.script, *arguments], **where)

    def is_ready(self) -> bool:
        """Tell whether every part of the gateway is ready (`/readyz`), or it listens where it has no HTTP."""
        if not self.http:
            return self.listens()
        status, self.unready = self.get("/readyz")
        return status == 200 and all(part["ready"] for part in json.loads(self.unready)["parts"].values())

    def listens(self) -> bool:
        """Tell whether every AMQP listener accepts connections."""
        return all(answers(port) for port in self.ports)

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a page of the gateway's HTTP listener; 0 when there is no answer."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=PATIENCE / 2) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, http.client.HTTPException):  # the latter: it was killed in the middle of its answer
            return 0, ""

    def metrics(self) -> dict[str, float]:
        """Return every sample: `name` summed over its labels, and `name{label="value",…}` for each."""
        return samples(self.get("/metrics")[1])

    def log(self) -> list[dict[str, Any]]:
        """Return the log lines; what is not JSON comes as `{"raw": line}`."""
        return self.log_from(0)

    def log_from(self, line: int) -> list[dict[str, Any]]:
        """Return the log lines from the one with this number on."""
        return self.process.lines.read()[line:]

    def wait_log(
        self, event: str, *, after: int = 0, seconds: float = PATIENCE, **fields: object
    ) -> dict[str, Any]:
        """Wait for a line with this event and these fields among the lines from `after` on; return it."""

        wanted, looked = {"event": event, **fields}, after

        def found() -> dict[str, Any] | None:
            nonlocal looked
            lines = self.log_from(looked)
            looked += len(lines)
            return next((line for line in lines if wanted.items() <= line.items()), None)

        return present(wait_until(found, f"log line {event} {fields or ''}", seconds))

    def wait_metric(self, name: str, accept: Callable[[float], bool], seconds: float = PATIENCE) -> float:
        """Wait until a sample has an acceptable value (absent counts as 0); return it."""
        value = 0.0

        def accepted() -> bool:
            nonlocal value
            value = self.metrics().get(name, 0.0)
            return accept(value)

        wait_until(accepted, f"metric {name}", seconds)
        return value

    def hup(self, policy: str | None = None) -> int:
        """Write a new policy if one is given, send SIGHUP, return the number of log lines before it."""
        before = len(self.log())
        if policy is not None:  # in one step: the gateway looks at the file by itself, too
            beside = self.policy.with_name("next.yaml")
            beside.write_text(policy)
            beside.replace(self.policy)
        self.process.send_signal(signal.SIGHUP)
        return before

    def reload(self, policy: str | None = None, *, ok: bool = True) -> dict[str, Any]:
        """Reload and wait until the gateway says that it did (or, with `ok=False`, that it refused).

        It may have noticed a changed file by itself as well: that is another reload, and the one for the signal comes
        last. The line that is returned counts what all reloads since the last call have closed.
        """
        before = self.hup(policy)
        event = RELOADED if ok else "policy reload rejected, keeping the current policy"
        last = self.wait_log(event, after=before, reason="signal")
        lines = self.log()
        found = [line for line in lines[self._counted :] if line.get("event") == RELOADED]
        self._counted = len(lines)
        return {**last, **{name: sum(line[name] for line in found) for name in _COUNTS if name in last}}

    def stop(self, seconds: float = PATIENCE) -> None:
        """Ask for an orderly end (SIGTERM) and check that the exit code is 0."""
        self.process.send_signal(signal.SIGTERM)
        self.ended(seconds)

    def ended(self, seconds: float = PATIENCE) -> None:
        """Wait for an orderly end that was asked for, and check that the exit code is 0."""
        try:
            code = self.process.wait(seconds)
        finally:
            self.process.discard()
        assert code == 0, f"exit code {code}\n{self.process.tail()}"

    def kill(self) -> None:
        """End the gateway at once (SIGKILL)."""
        self.process.end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again with the same policy file, after `stop` or `kill`."""
        assert not self.process.alive
        self.process = self._run()


@functools.cache
def warm_parent() -> WarmParent:
    """Return this process's warm parent; it ends with it."""
    LOGS.mkdir(parents=True, exist_ok=True)
    parent = WarmParent(LOGS / f"{os.getpid()}-warm.log", ROOT)
    atexit.register(parent.close)
    return parent


def written(policy: str) -> Path:
    """Write a policy text to a folder of its own."""
    path = fresh_folder("gateway") / "policy.yaml"
    path.write_text(policy)
    return path


def listening_ports(document: dict[str, Any]) -> Iterator[int]:
    """Yield the port of each listener of a policy document."""
    for scope in document["scopes"].values():
        listeners = scope.get("listen") or []
        for listener in listeners if isinstance(listeners, list) else [listeners]:
            bind = listener if isinstance(listener, str) else listener["bind"]
            yield int(str(bind).rpartition(":")[2])


def samples(exposition: str) -> dict[str, float]:
    """Return what Prometheus would read: `name` summed over its labels, and `name{label="value",…}` for each.

    Tests ask for it a thousand times, and `prometheus_client.parser` takes 40 ms for a page of ours.
    """
    found: dict[str, float] = {}
    for line in exposition.split("\n"):
        if line and not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            name, labelled, labels = sample.partition("{")
            found[name] = found.get(name, 0.0) + float(value)
            if labelled:
                found[f"{name}{{{unescaped(labels)}"] = float(value)
    return found


def unescaped(labels: str) -> str:
    """Return labels with their values as they are."""
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], labels) if "\\" in labels else labels


def present(value: dict[str, Any] | None) -> dict[str, Any]:
    """Narrow a value that a wait has shown to be there."""
    assert value is not None
    return value


class Gateways:
    """Starts gateways for one test or module and ends each that still runs, in good order."""

    def __init__(self) -> None:
        self._started: list[Gateway] = []

    def __call__(
        self, policy: str | Path, *, env: Mapping[str, str] | None = None, ready: bool = True, warm: bool = True
    ) -> Gateway:
        """Start a gateway; `ready=False` waits for its listeners only (a backend may be down).

        `warm=False` starts it as the command does, from nothing.
        """
        gateway = Gateway(policy, env=env, ready=ready, warm=warm)
        self._started.append(gateway)
        return gateway

    def close(self) -> None:
        """Stop what still runs, all at the same time; the first that does not end well is the error.

        The test is over: a gateway would wait two seconds for peers that do not answer its close.
        """
        with contextlib.ExitStack() as stack:
            for gateway in self._started:
                Peer.disconnect_from(gateway.ports)
                stack.callback(gateway.ended if gateway.process.alive else gateway.process.discard)
                gateway.process.send_signal(signal.SIGTERM)
