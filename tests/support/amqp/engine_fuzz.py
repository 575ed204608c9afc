"""Hostile peers against the engine and real nodes in this process: `python -m tests.support.amqp.engine_fuzz EXAMPLES`.

A child process of the test, because a fault in C ends the process. Whatever a peer sends, in pieces of any size,
nothing is raised, the connection stays open or ends with an AMQP error, and a bystander's message passes afterwards.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Described, Symbol, Uint, Ulong
from gateway.amqp.engine.engine import Engine
from gateway.amqp.link.config import EngineConfig
from gateway.amqp.link.link import Link
from gateway.errors import AmqpError
from gateway.nodes.base import GatewayContext
from gateway.nodes.factories import NODE_FACTORIES
from gateway.nodes.scope import Scope, ScopeOptions
from gateway.routing.response_router import AdmissionContext
from gateway.routing.transforms import TransformRegistry
from gateway.state import MemoryCounterStore
from policies.rules import ScopeRules
from tests.support.amqp.frames import (
    AMQP_HEADER,
    Frame,
    composite,
    framed,
    parse,
    performative,
    receive_all,
    source,
    target,
)
from tests.support.amqp.messages import message
from tests.support.gateway.policy import load_text

POLICY = """
scopes:
  edge:
    addresses:
      - {match: "chat/**", direct: balanced}
      - {match: "news/**", direct: multicast}
    access: [{who: "*", may: [send, receive], on: "**"}]
"""
CONFIG = EngineConfig("gw", max_frame_size=4096, channel_max=3, max_links=6, max_message_size=5000)


class Side:
    """One accepted connection of a scope, without a socket."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.engine = Engine(CONFIG, self, server=True)
        self.engine.peer.scope = scope.name
        self.output = b""
        self.closed = False

    def feed(self, data: bytes) -> None:
        receive_all(self.engine, data)
        self.flush()

    def flush(self) -> None:
        self.output += self.engine.take()
        self.engine.dispatch()

    def frames(self) -> list[Frame]:
        """What the gateway has said, every byte of it well-formed."""
        data, self.output = self.output.removeprefix(AMQP_HEADER), b""
        found = []
        while data:
            size = int.from_bytes(data[:4], "big")
            assert 8 <= size <= len(data), f"half a frame: {data[:16]!r}"
            if (frame := parse(data[:size])) is not None:
                found.append(frame)
            data = data[size:]
        return found

    def free(self) -> None:
        self.engine.lost(None)
        self.engine.free()

    # the engine's owner

    soon = None  # its links end at once

    def engine_dirty(self) -> None: ...
    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...
    def message_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_counted(self, link: Link) -> None: ...

    def engine_opened(self, engine: Engine) -> None:
        engine.open()

    def engine_closed(self, engine: Engine, error: AmqpError | None) -> None:
        assert not self.closed, "closed twice"
        self.closed = True

    def link_requested(self, link: Link) -> None:
        self._scope.attach(link)


class NoTimer:
    """The fuzzed scope limits no rates, so nothing ever waits for its turn."""

    def cancel(self) -> None:
        """Nothing to cancel."""


@functools.cache
def rules() -> ScopeRules:
    """The rules of the fuzzed scope, which nothing changes: reading them takes longer than most conversations."""
    return load_text(POLICY, with_secrets=False).scopes["edge"]


def make_scope() -> Scope:
    names = itertools.count()
    waits = AdmissionContext(MemoryCounterStore(), lambda: 0, lambda: 0.0, lambda _seconds, _call: NoTimer())
    transforms = TransformRegistry(None, 0, ("edge",), lambda: 0)
    scopes: dict[str, Scope] = {}
    context = GatewayContext(
        scopes, {}, transforms, lambda: f"name-{next(names)}", waits, lambda _: None, NODE_FACTORIES
    )
    scopes["edge"] = Scope("edge", rules(), context, ScopeOptions(anonymous=True, temporary=True))
    return scopes["edge"]


OPENED = AMQP_HEADER + framed(performative("open", container_id="peer"))
BEGUN = framed(performative("begin", next_outgoing_id=0, incoming_window=100, outgoing_window=100))

small = st.integers(0, 4)
numbers = st.one_of(small, st.sampled_from([7, 255, 256, 2**31 - 1, 2**31, 2**32 - 1]))
flags = st.sampled_from([None, True, False])
addresses = st.sampled_from([None, "", "chat/a", "chat/b", "news/a", "$temp/name-0", "$replies.edge", "x" * 900, "\0"])
junk = st.sampled_from(
    [None, Symbol("text"), b"\xff", Uint(7), 3.5, [1], {}, {Symbol("a"): 1}, Described(Ulong(0x99), [])]
)
nothing = st.just(b"")
states = st.one_of(
    st.sampled_from(["accepted", "released", "rejected", "modified"]).map(composite),
    st.just(composite("received", section_number=0, section_offset=0)),
    st.just(composite("rejected", error=composite("error", condition="a:b", info={Symbol("k"): [1, 2]}))),
    st.just(composite("modified", message_annotations={Symbol("x-opt-a"): 1})),
    junk,
)
messages = st.one_of(
    st.sampled_from([b"", b"\xff", message(b"m"), message(b"m", to="chat/a"), b"x" * 6000]), st.binary(max_size=40)
)


@st.composite
def termini(draw: st.DrawFn, make: Any) -> Any:
    if draw(small) == 0:
        return draw(junk)
    return make(draw(addresses), dynamic=draw(flags))


def frame(kind: str, payload: Any = nothing, **fields: Any) -> st.SearchStrategy[bytes]:
    """Frames of one kind; now and then a field holds something else."""
    names = sorted(fields)
    plain = st.tuples(*(fields[name] for name in names)).map(lambda values: dict(zip(names, values, strict=True)))
    odd = st.tuples(plain, st.sampled_from(names), junk).map(lambda made: {**made[0], made[1]: made[2]})
    channels = st.sampled_from([0, 0, 0, 0, 1, 3, 9])
    return st.tuples(st.one_of(plain, plain, plain, odd), channels, payload).map(
        lambda made: framed(performative(kind, **made[0]) + made[2], made[1])
    )


names = st.sampled_from(["a", "b", "c", ""])
FRAMES = st.one_of(
    frame(
        "attach",
        name=names,
        handle=small,
        role=st.booleans(),
        source=termini(source),
        target=termini(target),
        initial_delivery_count=st.one_of(st.none(), numbers),
        snd_settle_mode=st.sampled_from([None, 0, 1, 2]),
        rcv_settle_mode=st.sampled_from([None, 0, 1]),
    ),
    frame(
        "transfer",
        messages,
        handle=small,
        delivery_id=st.one_of(st.none(), numbers),
        delivery_tag=st.binary(max_size=4),
        settled=flags,
        more=flags,
        aborted=flags,
        state=states,
    ),
    frame(
        "flow",
        next_incoming_id=st.one_of(st.none(), numbers),
        incoming_window=numbers,
        next_outgoing_id=numbers,
        outgoing_window=numbers,
        handle=st.one_of(st.none(), small),
        delivery_count=st.one_of(st.none(), numbers),
        link_credit=st.one_of(st.none(), numbers),
        drain=flags,
        echo=flags,
    ),
    frame(
        "disposition",
        role=st.booleans(),
        first=numbers,
        last=st.one_of(st.none(), numbers),
        settled=flags,
        state=states,
    ),
    frame("detach", handle=small, closed=flags),
    frame(
        "begin",
        remote_channel=st.sampled_from([None, None, 0]),
        next_outgoing_id=numbers,
        incoming_window=numbers,
        outgoing_window=numbers,
    ),
    frame("end", error=st.none()),
    frame("close", error=st.none()),
    frame("open", container_id=st.just("again")),
    st.just(framed(b"")),
    st.binary(min_size=1, max_size=30).map(framed),
)


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    """Frames after open and begin, now and then with some bytes changed, lost or doubled."""
    said = bytearray(b"".join(draw(st.lists(FRAMES, max_size=25))))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        if said:
            at = draw(st.integers(0, len(said) - 1))
            end = at + draw(st.integers(0, 9))
            said[at:end] = draw(st.one_of(st.just(b""), st.binary(max_size=5), st.just(bytes(said[at:end]) * 2)))
    return OPENED + BEGUN + bytes(said)


def pieces(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """Cut as TCP may cut."""
    start = 0
    for size in itertools.cycle(sizes or [len(data) or 1]):
        if start >= len(data):
            return
        yield data[start : start + size]
        start += size


cuts = st.lists(st.integers(1, 300), max_size=4)


def survive(data: bytes, sizes: list[int]) -> None:
    """Say it all; the connection is open or ended with an error, and the bystanders' message passes."""
    scope = make_scope()
    receiver, sender, hostile = bystander(scope, receives=True), bystander(scope, receives=False), Side(scope)
    for number, piece in enumerate(pieces(data, sizes)):
        hostile.feed(piece)
        hostile.engine.tick(1000 + number)
        receiver.flush()
        sender.flush()
    hostile.flush()
    said = hostile.frames()
    if hostile.closed:
        assert said[-1].kind == "close", said
        assert not hostile.engine.faulted or said[-1].error["condition"].startswith("amqp:"), said
        assert not hostile.engine.links
    transfer = performative("transfer", handle=0, delivery_id=0, delivery_tag=b"0") + message(b"bystander")
    sender.feed(framed(transfer))
    receiver.flush()
    assert receiver.frames()[-1].payload == message(b"bystander")
    for side in (hostile, receiver, sender):
        side.free()
    assert not scope.direct_nodes, "a node is left behind"
    assert not len(scope.temporaries), "a temporary node is left behind"


def bystander(scope: Scope, *, receives: bool) -> Side:
    side = Side(scope)
    termini = {"source": source("chat/bystander")} if receives else {"target": target("chat/bystander")}
    attach = performative("attach", name="x", handle=0, role=receives, initial_delivery_count=0, **termini)
    side.feed(OPENED + BEGUN + framed(attach))
    if receives:
        windows = {"incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}
        side.feed(framed(performative("flow", handle=0, link_credit=1, delivery_count=0, **windows)))
    return side


def main(examples: int, drawing: int = 0) -> None:
    """Try this many of each kind; another seed draws others."""
    profile = settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=False
    )

    @seed(drawing)
    @profile
    @given(conversations(), cuts)
    def conversation(data: bytes, sizes: list[int]) -> None:
        survive(data, sizes)

    @seed(drawing)
    @profile
    @given(st.binary(max_size=200), cuts, st.sampled_from([b"", AMQP_HEADER, OPENED, OPENED + BEGUN]))
    def noise(data: bytes, sizes: list[int], before: bytes) -> None:
        survive(before + data, sizes)

    conversation()
    noise()
    print(f"survived {2 * examples}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
