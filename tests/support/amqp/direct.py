"""Links as a direct node sees them, without connections: many links, so that only the node's own work is measured."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gateway.amqp.codec.codec import Described, Symbol
from gateway.amqp.link.config import EngineConfig
from gateway.errors import AmqpError
from gateway.links.link_context import link_context
from gateway.nodes.direct.multicast import Multicast
from gateway.nodes.direct.node import DirectNode

HERE = link_context("here")


class Wire:
    """A link of either direction; `got` is what was sent on it, `outcomes` what its own deliveries ended with."""

    rejects = True
    presettled = draining = acquiring = False
    requester = None
    filter_rules = None

    def __init__(self, *, incoming: bool, where: str | None = None) -> None:
        given = {} if where is None else {Symbol("f"): Described(Symbol("amqp:sql-filter"), where)}
        self.incoming = incoming
        self.source = SimpleNamespace(filter=given)
        self.target = SimpleNamespace(capabilities=())
        self.engine = SimpleNamespace(blocked=False, config=EngineConfig(container_id="t"))
        self.context = HERE
        self.granted = self.window = self.grants = 0
        self.open = False
        self.handler: Any = None
        self.got: list[bytes] = []
        self.contexts: list[Any] = []
        self.outcomes: dict[Any, str] = {}
        self.returned = 0

    # what the node does

    def accept(self, handler: Any, **_: Any) -> None:
        self.handler, self.open = handler, True

    def grant(self, credit: int) -> None:
        self.granted += credit
        self.grants += 1

    def settle(self, delivery: Any, outcome: Any) -> None:
        if self.open:
            self.outcomes[delivery] = outcome.name

    scope, behind = "here", None

    def tag(self, delivery: Any) -> bytes:
        return b"tag"

    def message_refused(self, error: AmqpError) -> None:
        self.refused = error

    def fail(self, error: AmqpError) -> None:
        self.leave()

    def detach(self, error: AmqpError | None = None) -> None:
        if self.open:
            self.leave()

    def drop(self, delivery: Any) -> None:
        self.outcomes[delivery] = "dropped"

    @property
    def credit(self) -> int:
        return 0 if self.engine.blocked else self.window

    def send(self, data: bytes, context: Any, settled: bool = False) -> None:
        assert self.window > 0
        assert self.open
        self.window -= 1
        self.got.append(data)
        self.contexts.append(context)

    def drained(self) -> None:
        self.returned, self.window, self.draining = self.window, 0, False

    def take_unsettled(self) -> list[Any]:
        return []

    # what the peer does

    def flow(self, credit: int, *, drain: bool = False) -> None:
        """The receiver has this much credit now."""
        self.window, self.draining = credit, drain
        self.handler.on_credit()

    def transfer(self, data: bytes, *, settled: bool = False) -> bytes:
        """The sender uses one credit; its message is its delivery's name."""
        assert self.granted > 0
        self.granted -= 1
        self.handler.on_transfer(data, data, settled)
        return data

    def leave(self) -> None:
        """The link ends."""
        self.open = False
        self.handler.on_detach(None)


class Loop:
    """The turns of a loop: `soon` is for the next one."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def turn(self) -> bool:
        """Do what was left for the next turn; whether there was something."""
        calls, self.calls = self.calls, []
        for call in calls:
            call()
        return bool(calls)


class Node:
    """A direct node with its links."""

    def __init__(self, kind: type[DirectNode] = DirectNode, loop: Loop | None = None) -> None:
        self.loop = loop or Loop()
        self.meeting = kind("a", lambda origin, target: None, unused=lambda _: None, soon=self.loop.soon)

    def sender(self) -> Wire:
        return self._attached(Wire(incoming=True))

    def receiver(self, credit: int = 0, where: str | None = None) -> Wire:
        wire = self._attached(Wire(incoming=False, where=where))
        if credit:
            wire.flow(credit)
        return wire

    def _attached(self, wire: Wire) -> Wire:
        self.meeting.attach(wire)  # type: ignore[arg-type]
        return wire


def steps(call: Callable[[], Any]) -> int:
    """How many lines of Python a call takes: its work, whatever else the machine does.

    The garbage collector waits: what hears of it (Hypothesis does) would count.
    """
    count, collects = 0, gc.isenabled()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count


__all__ = ["Loop", "Multicast", "Node", "Wire", "steps"]
