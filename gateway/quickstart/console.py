"""Chapter 5: what an operator sees of the gateway that has just been used, by the command and in a browser."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from gateway.quickstart.checks import PATIENCE, Checks
from gateway.quickstart.ports import Ports
from gateway.quickstart.server import COMMAND
from gateway.quickstart.terminal_output import WIDTH, TerminalOutput, cut

_COLUMNS: Final = WIDTH - 8


def show(place: Ports, screen: TerminalOutput, checks: Checks) -> None:
    """Run `scopegate status`; nothing where the admin API has no port."""
    admin = place.binds.get("admin")
    if admin is None or place.token is None:
        return
    screen.heading("5  Operators see what runs")
    screen.step("operator", "scopegate status", f"--admin http://{admin}")
    done = subprocess.run(  # noqa: S603 - this very program
        [sys.executable, "-m", COMMAND, "status", "--admin", f"http://{admin}"],
        env={**place.environ, "SCOPEGATE_ADMIN_TOKEN": place.token}, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    checks.equal("it answers whoever has the token", (done.returncode, done.stderr), (0, ""))
    screen.code("\n".join(cut(line, _COLUMNS) for line in done.stdout.splitlines()))
    shown = [line.split() for line in done.stdout.splitlines()]
    checks.equal("every part is ready", [row[0] for row in shown if row[1:2] == ["NO"]], [])


def address(place: Ports) -> str | None:
    """The address of the console for a browser, with the token."""
    admin = place.binds.get("admin")
    return None if admin is None or place.token is None else f"http://{admin}/#token={place.token}"
