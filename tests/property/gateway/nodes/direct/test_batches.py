"""A direct node does the same with messages that come together as with single ones."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.amqp.link.handlers import Transfer
from gateway.amqp.link.outcomes import ACCEPTED, RELEASED
from gateway.errors import NOT_ALLOWED, AmqpError
from gateway.links.link_context import link_context
from gateway.nodes.direct.node import DirectNode
from gateway.response.crossing import Crossing
from tests.support.amqp.direct import Loop, Wire
from tests.support.plugins.examples import examples

ELSEWHERE = link_context("elsewhere")


class PeerWire(Wire):
    """A link of a peer, with the calls for several messages."""

    def forward(
        self, messages: list[Transfer], start: int, origin: object, changed: list[bytes] | None = None
    ) -> int:
        end = start + (len(messages) if changed is None else len(changed))
        while start < min(end, len(messages)) and self.credit > 0 and not messages[start][2]:
            self.send(messages[start][1] if changed is None else changed.pop(0), (origin, messages[start][0]))
            start += 1
        return start

    def accept_all(self, deliveries: list[Any]) -> None:
        for delivery in deliveries:
            self.settle(delivery, ACCEPTED)


def changed(data: bytes) -> bytes:
    if data.startswith(b"no"):
        raise AmqpError(NOT_ALLOWED, "not this one")
    return b"changed " + data


def usual(messages: list[Transfer], start: int, end: int) -> list[bytes]:
    """`changed` for messages up to one that it has to look at."""
    found = []
    for _, data, settled in messages[start:end]:
        if settled or not data.startswith(b"yes"):
            break
        found.append(changed(data))
    return found


class Step(NamedTuple):
    """Messages of a sender, or new credit, or outcomes of a receiver, or its end."""

    kind: str
    which: int
    count: int
    names: tuple[tuple[bytes, bool], ...]


NAMES = st.tuples(st.sampled_from([b"yes", b"look", b"no"]), st.booleans() | st.just(False))
STEPS = st.builds(
    Step,
    st.sampled_from(["send", "send", "credit", "outcomes", "block", "leave"]),
    st.integers(0, 1),
    st.integers(0, 6),
    st.lists(NAMES, min_size=1, max_size=6).map(tuple),
)
FEW = st.integers(1, 2)
TRANSFORMS = {
    "none": lambda origin, target: None,
    "single": lambda origin, target: changed,
    "several": lambda origin, target: Crossing(changed, usual),
}


class Bench:
    """A node with links, and what became of every message."""

    def __init__(self, transform: str, senders: int, receivers: int, *, elsewhere: bool) -> None:
        self.loop = Loop()
        make: Any = TRANSFORMS[transform]
        self.node = DirectNode("a", make, unused=lambda _: None, soon=self.loop.soon)
        self.senders = [PeerWire(incoming=True) for _ in range(senders)]
        self.receivers = [PeerWire(incoming=False) for _ in range(receivers)]
        for wire in self.receivers:
            wire.context = ELSEWHERE if elsewhere else wire.context
        for wire in (*self.receivers, *self.senders):
            self.node.attach(wire)  # type: ignore[arg-type]
        self.sent = 0

    def room(self, step: Step) -> int:
        """What the sender of a step may send."""
        return max(self.senders[step.which % len(self.senders)].granted, 0)

    def do(self, step: Step, *, together: bool) -> None:
        getattr(self, f"_{step.kind}")(step, together)
        while self.loop.turn():
            pass

    def _send(self, step: Step, together: bool) -> None:
        sender = self.senders[step.which % len(self.senders)]
        numbered = enumerate(step.names if sender.open else (), self.sent)
        lot = [(b"%d" % at, b"%b %d" % (name, at), settled) for at, (name, settled) in numbered]
        self.sent += len(lot)
        if together and lot:
            sender.granted -= len(lot)
            sender.handler.on_transfers(lot)
            return
        for each in lot:
            if sender.open:
                sender.granted -= 1
                sender.handler.on_transfer(*each)

    def _credit(self, step: Step, together: bool) -> None:
        receiver = self.receivers[step.which % len(self.receivers)]
        if receiver.open:
            receiver.engine.blocked = False
            receiver.flow(receiver.window + step.count)

    def _block(self, step: Step, together: bool) -> None:
        self.receivers[step.which % len(self.receivers)].engine.blocked = True

    def _outcomes(self, step: Step, together: bool) -> None:
        receiver = self.receivers[step.which % len(self.receivers)]
        taken = [context for context in receiver.contexts[: step.count] if context is not None]
        del receiver.contexts[: step.count]
        if not receiver.open or not taken:
            return
        receiver.handler.on_outcome(taken[0], RELEASED)
        if together and taken[1:]:
            receiver.handler.on_accepted(taken[1:])
        for context in () if together else taken[1:]:
            receiver.handler.on_outcome(context, ACCEPTED)

    def _leave(self, step: Step, together: bool) -> None:
        wires = [*self.senders, *self.receivers]
        wire = wires[step.count % len(wires)]
        if wire.open and step.which:
            wire.leave()

    def seen(self) -> Any:
        names = {id(wire): number for number, wire in enumerate(self.senders)}
        contexts = [[each and (names[id(each[0])], each[1]) for each in wire.contexts] for wire in self.receivers]
        return (
            [wire.got for wire in self.receivers],
            contexts,
            [wire.outcomes for wire in self.senders],
            [wire.granted for wire in self.senders if wire.open and len(self.senders) == 1],
            [wire.window for wire in self.receivers],
            len(self.node.waiting),
        )


YES, NO = (b"yes", False), (b"no", False)


@example("several", 1, 1, True, [Step("credit", 0, 3, (YES,)), Step("send", 0, 0, (YES, NO, YES))])
@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(sorted(TRANSFORMS)), FEW, FEW, st.booleans(), st.lists(STEPS, max_size=14))
def test_messages_that_come_together_have_the_same_fate(
    transform: str, senders: int, receivers: int, elsewhere: bool, steps: list[Step]
) -> None:
    ours, single = (Bench(transform, senders, receivers, elsewhere=elsewhere) for _ in range(2))
    for each in steps:  # of several senders, one may get its credit somewhat later
        step = each._replace(names=each.names[: min(ours.room(each), single.room(each))])
        ours.do(step, together=True)
        single.do(step, together=False)
        assert ours.seen() == single.seen(), step
