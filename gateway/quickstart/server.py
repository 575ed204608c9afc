"""The gateway of the quickstart: `scopegate run` as a child process, in a folder with its log."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.http.opener import direct
from gateway.observability.readiness import PartReport, ReadinessReport
from gateway.quickstart.checks import PATIENCE
from gateway.quickstart.ports import Ports

COMMAND: Final = f"{__name__.rpartition('.quickstart.')[0]}.cli.main"
"""The module of the command line, wherever this package is installed."""
_DRAINED: Final = 60.0
_LOOK: Final = 0.02
_TAIL: Final = 15
_PARENT_DEATH_SIGNAL: Final = 1


class NotStarted(Exception):
    """The gateway does not serve; the text is one line."""


class Server:
    """The child; `start` returns when it is ready."""

    def __init__(self, place: Ports) -> None:
        self._place: Final = place
        self._folder = Path(tempfile.mkdtemp(prefix="scopegate-quickstart-"))
        self.log: Final = self._folder / "gateway.log"
        self._child: subprocess.Popen[bytes] | None = None
        self.details: Final[dict[str, str]] = {}
        """What each part said of itself when all were ready."""

    def start(self) -> float:
        """Start the gateway; returns the seconds until it was ready."""
        for what, bind in self._place.binds.items():
            _check_free(what, bind)
        begin = time.monotonic()
        # A session of its own: Ctrl-C reaches the quickstart alone, which then ends the gateway in order.
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, "-m", COMMAND, "run", str(self._place.policy)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self._place.environ),
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        while not (found := self.parts())[0]:
            self._check_waiting(begin)
            time.sleep(_LOOK)
        self.details.update((name, part["detail"]) for name, part in found[1].items())
        return time.monotonic() - begin

    def _check_waiting(self, begin: float) -> None:
        if (code := self.ended()) is not None:
            raise NotStarted(f"the gateway ended with {code} before it was ready:\n{self.tail()}")
        if time.monotonic() - begin > PATIENCE:
            parts = json.dumps(self.parts()[1])
            raise NotStarted(f"the gateway is not ready after {PATIENCE:.0f} s: {parts}\n{self.tail()}")

    def parts(self) -> tuple[bool, dict[str, PartReport]]:
        """The result of `/readyz`: whether all parts are ready, and each; a gateway serves without Kafka, too."""
        answer = _get(f"http://{self._place.http}/readyz")
        parts = {} if answer is None else answer.get("parts") or {}
        return bool(parts) and all(part["ready"] for part in parts.values()), parts

    def ended(self) -> int | None:
        """The exit code of a gateway that has ended."""
        return None if self._child is None else self._child.poll()

    def wait(self) -> int:
        """Wait until it ends by itself."""
        assert self._child is not None
        return self._child.wait()

    def stop(self) -> bool:
        """Drain and end; returns whether it ended in order."""
        if self._child is None or self._child.poll() is not None:
            return False
        self._child.send_signal(signal.SIGTERM)
        try:
            return self._child.wait(_DRAINED) == 0
        except subprocess.TimeoutExpired:
            return False

    def discard(self) -> None:
        """End the process and remove its folder."""
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_TAIL:])


def _check_free(what: str, bind: str) -> None:
    """Raise if the port is in use, with one clear line."""
    host, _, port = bind.rpartition(":")
    host = host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            raise NotStarted(f"{bind} ({what}) cannot be used: {error.strerror}. {_advice(bind, port)}") from None


def _advice(bind: str, port: str) -> str:
    if _get(f"http://{bind}/readyz"):
        return "A ScopeGate serves there, perhaps another quickstart: end it (Ctrl-C) and try again."
    return (
        f"See who has it with `ss -ltnp 'sport = :{port}'` and end that (another quickstart?), or give a copy of "
        "the policy with other ports: --policy FILE."
    )


def _get(url: str) -> ReadinessReport | None:
    """The result of `/readyz` of a gateway; None if there is no answer."""
    try:
        with direct().open(url, timeout=2) as response:
            text = response.read()
    except urllib.error.HTTPError as error:
        text = error.read()
    except OSError:
        return None
    with suppress(ValueError):
        answer = json.loads(text)
        return answer if isinstance(answer, dict) else None  # type: ignore[return-value]
    return None


def _end_with_parent() -> None:
    """In the child: end with the quickstart, even if it is killed (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
