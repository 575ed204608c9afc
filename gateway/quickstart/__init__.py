"""`scopegate quickstart`: a gateway with two scopes and an embedded Kafka, and real clients that use it.

The gateway is a child process, used over its sockets; the clients are proton's own Container and an ordinary Kafka
consumer. Every step is verified; the first failure ends the quickstart with exit code 1.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple, NoReturn

import policies
from gateway import __version__
from gateway.quickstart import attach, console, crossing, events, subscriptions
from gateway.quickstart.checks import Checks, StepFailed
from gateway.quickstart.clients import ClientError
from gateway.quickstart.ports import NotUsable, Ports, read_place
from gateway.quickstart.server import NotStarted, Server
from gateway.quickstart.terminal import own_terminal
from gateway.quickstart.terminal_output import TerminalOutput
from policies.model.kafka import EMBEDDED
from policies.text.diagnostics import PolicyErrors

__all__ = ["QUICKSTART", "Tour", "run"]
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class Tour(NamedTuple):
    """The contents: the example policy, the title, the chapters, and the text when it continues to serve."""

    example: str
    title: str
    show: Callable[[Ports, str, TerminalOutput, Checks], None]
    attach: Callable[[Ports, Server, str, TerminalOutput], None]


def _chapters(place: Ports, bootstrap: str, screen: TerminalOutput, checks: Checks) -> None:
    crossing.show(place, screen, checks)
    events.show(place, bootstrap, screen, checks)
    subscriptions.show(place, bootstrap, screen, checks)
    console.show(place, screen, checks)


QUICKSTART: Final = Tour(
    "quickstart.yaml", "one gateway, two AMQP address scopes, one Kafka", _chapters, attach.show
)


class _Asked(Exception):
    """A signal asked the quickstart to end."""


def run(once: bool, policy: Path | None = None, tour: Tour = QUICKSTART) -> int:
    """Run all chapters, then continue to serve unless `once`; 0 only if every step was verified."""
    screen = TerminalOutput(sys.stdout)
    with ExitStack() as stack:
        stack.enter_context(own_terminal())
        path = policy or stack.enter_context(as_file(files(policies) / "examples" / tour.example))
        try:
            server = Server(place := read_place(path.resolve()))
            stack.callback(server.discard)
            with _signals():
                return _until_asked(place, server, screen, once, tour)
        except (NotStarted, NotUsable, PolicyErrors) as error:
            sys.stderr.write(f"{error}\n")
            return 1


def _until_asked(place: Ports, server: Server, screen: TerminalOutput, once: bool, tour: Tour) -> int:
    try:
        return _journey(place, server, screen, once, tour)
    except _Asked:
        return _end(server, screen)


def _journey(place: Ports, server: Server, screen: TerminalOutput, once: bool, tour: Tour) -> int:
    screen.title(f"ScopeGate {__version__}: {tour.title}")
    seconds = server.start()
    bootstrap = _bootstrap(place, server)
    screen.say(
        f"Scope edge at amqp://{place.edge}, scope core at amqp://{place.core}, Kafka at {bootstrap}; "
        f"ready after {seconds:.1f} s."
    )
    checks = Checks(screen)
    try:
        tour.show(place, bootstrap, screen, checks)
    except (StepFailed, ClientError) as error:
        return _failed(error, server, screen)
    screen.gap()
    screen.say(f"All {checks.count} claims were verified.")
    if once:
        return _end(server, screen)
    tour.attach(place, server, bootstrap, screen)
    code = server.wait()
    sys.stderr.write(f"the gateway ended by itself with {code}:\n{server.tail()}\n")
    return 1


def _bootstrap(place: Ports, server: Server) -> str:
    """The address for Kafka clients; an embedded cluster chooses its port, which `/readyz` shows."""
    for name, servers in place.clusters.items():
        if servers != EMBEDDED:
            return servers
        details = (detail for part_name, detail in server.details.items() if name in part_name)
        if found := re.search(r" at (\S+:\d+)", " ".join(details)):
            return found[1]
    return "nowhere: the policy has no Kafka"


def _failed(error: StepFailed | ClientError, server: Server, screen: TerminalOutput) -> int:
    if isinstance(error, StepFailed):
        screen.failed(error.claim)
        screen.table([("expected", error.expected), ("got", error.got)])
    else:
        screen.failed(str(error))
    sys.stderr.write(f"The last lines of the gateway's log:\n{server.tail()}\n")
    return 1


def _end(server: Server, screen: TerminalOutput) -> int:
    """Drain the gateway; a second Ctrl-C ends at once."""
    screen.gap()
    screen.say("Draining ...")
    ended = server.stop()
    screen.say("done." if ended else "The gateway did not end in good order.")
    return 0 if ended else 1


@contextmanager
def _signals() -> Iterator[None]:
    """End in order on the first signal; on a second one at once."""

    def ask(number: int, frame: FrameType | None) -> NoReturn:
        for each in _ENDING:
            signal.signal(each, signal.SIG_DFL)
        raise _Asked

    before = {number: signal.signal(number, ask) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
