"""The engine with no socket: what becomes of a connection whose protocol engine gives up, and of its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cproton_ffi import lib

from bridges.eventhubs.conditions import outcome_of
from gateway.amqp.engine.engine import Engine
from gateway.amqp.link.config import EngineConfig
from gateway.amqp.link.handlers import Incoming, LinkHandler
from gateway.amqp.link.link import Link
from gateway.errors import AmqpError
from tests.support.amqp.direct import steps
from tests.support.amqp.frames import AMQP_HEADER, Frame, framed, parse, performative, receive_all, source, target
from tests.support.amqp.messages import message


class Owner:
    """Opens at once, and keeps how the connection ended."""

    def __init__(self, **config: Any) -> None:
        self.engine = Engine(EngineConfig("gw", **config), self, server=True)
        self.error: AmqpError | None = None

    def say(self, data: bytes) -> list[Frame]:
        """Frames to the engine, and its answers."""
        receive_all(self.engine, data)
        return self.frames()

    def frames(self) -> list[Frame]:
        data, found = self.engine.take().removeprefix(AMQP_HEADER), []
        while data:
            size = int.from_bytes(data[:4], "big")
            if (frame := parse(data[:size])) is not None:
                found.append(frame)
            data = data[size:]
        return found

    def engine_opened(self, engine: Engine) -> None:
        engine.open()

    def engine_closed(self, engine: Engine, error: AmqpError | None) -> None:
        self.error = error

    soon = None  # its links end at once

    def engine_dirty(self) -> None: ...
    def link_requested(self, link: Link) -> None: ...
    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...
    def message_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_counted(self, link: Link) -> None: ...


def opened(**config: int) -> Owner:
    owner = Owner(**config)
    assert [frame.kind for frame in owner.say(AMQP_HEADER + framed(performative("open", container_id="p")))] == ["open"]
    return owner


def test_a_silence_of_proton_ends_the_connection(capfd: pytest.CaptureFixture[str]) -> None:
    owner = opened(channel_max=0)
    engine = owner.engine
    for _ in range(2):  # past the gateway's own count of channels: proton has one, and gives up at the second
        lib.pn_session_open(lib.pn_session(engine._connection))
    *_, close = owner.frames()
    assert (close.kind, close.error["condition"]) == ("close", "amqp:internal-error")
    assert owner.error is not None
    assert "process error" in str(owner.error.__cause__)
    assert "process" not in close.error["description"]
    assert engine.faulted
    assert engine.finished
    assert capfd.readouterr().err == ""
    engine.free()


class Node(Incoming):
    """Takes everything, and says nothing."""

    def __init__(self) -> None:
        self.found: list[bytes] = []

    def on_transfer(self, delivery: int, data: bytes, settled: bool) -> None:
        self.found.append(data)

    def on_detach(self, error: AmqpError | None) -> None: ...


class Taking(Owner):
    """Accepts every link."""

    def link_requested(self, link: Link) -> None:
        self.node = Node()
        link.accept(self.node)
        link.grant(10)


def transfers(*numbers: int, **fields: object) -> bytes:
    return b"".join(
        framed(performative("transfer", handle=0, delivery_id=n, delivery_tag=b"%d" % n, **fields) + message(b"%d" % n))
        for n in numbers
    )


def test_what_comes_at_the_end_of_a_drain_is_released_and_reaches_no_node() -> None:
    owner = Taking()
    begin = performative("begin", next_outgoing_id=0, incoming_window=100, outgoing_window=100)
    attach = performative("attach", name="a", handle=0, role=False, target=target("q"), initial_delivery_count=0)
    owner.say(AMQP_HEADER + framed(performative("open", container_id="p")) + framed(begin) + framed(attach))
    assert owner.say(transfers(0)) == []
    owner.engine.stop_granting()
    owner.engine.stop_taking()
    (disposition,) = owner.say(transfers(1, 2))
    assert (disposition.first, disposition.last, disposition.state.name) == (1, 2, "released")
    assert owner.say(transfers(3, settled=True)) == []
    assert owner.node.found == [message(b"0")]
    owner.engine.lost(None)
    owner.engine.free()


@pytest.mark.row("EH-11", part="messages at the end of a drain")
def test_a_peer_that_knows_two_outcomes_is_told_no_other_at_the_end_of_a_drain() -> None:
    owner = Taking(told_outcome=outcome_of)
    begin = performative("begin", next_outgoing_id=0, incoming_window=100, outgoing_window=100)
    attach = performative("attach", name="a", handle=0, role=False, target=target("q"), initial_delivery_count=0)
    owner.say(AMQP_HEADER + framed(performative("open", container_id="p")) + framed(begin) + framed(attach))
    owner.engine.stop_taking()
    (disposition,) = owner.say(transfers(0))
    assert (disposition.state.name, disposition.settled) == ("rejected", True)
    assert disposition.state["error"]["condition"] == "com.microsoft:server-busy"
    owner.engine.lost(None)
    owner.engine.free()


class Hosted(Owner, LinkHandler):
    """Takes every link, and does in steps what would take long."""

    def __init__(self, **config: int) -> None:
        self.steps: list[Callable[[], None]] = []
        self.detached = self.ended = 0
        super().__init__(**config)

    def soon(self, step: Callable[[], None]) -> None:
        self.steps.append(step)

    def link_requested(self, link: Link) -> None:
        link.accept(self)  # type: ignore[arg-type]  # no message comes

    def on_detach(self, error: AmqpError | None) -> None:
        self.detached += 1

    def link_ended(self, link: Link, error: AmqpError | None) -> None:
        self.ended += 1


def crowded(links: int, **config: int) -> Hosted:
    """A connection with many links."""
    owner = Hosted(max_links=links, **config)
    owner.say(AMQP_HEADER + framed(performative("open", container_id="p")))
    owner.say(framed(performative("begin", next_outgoing_id=0, incoming_window=9, outgoing_window=9)))
    terminus = {"source": source("a"), "target": target("a"), "initial_delivery_count": 0}
    for handle in range(links):
        owner.say(framed(performative("attach", name=f"l{handle}", handle=handle, role=False, **terminus)))
    return owner


@pytest.mark.parametrize("links", [5, 500])
def test_a_connection_that_is_closed_and_then_lost_is_given_back_once(links: int) -> None:
    """The steps of both came to the end of the links, and freed the connection's memory twice: a crash."""
    owner, freed = crowded(links), list[int]()
    owner.engine.close(AmqpError("amqp:connection:forced", "the gateway is shutting down"))
    owner.engine.lost(None)
    owner.engine.table.when_ended(lambda: freed.append(owner.ended))
    while owner.steps:
        owner.steps.pop(0)()
    assert freed == [links]
    owner.engine.free()


@pytest.mark.parametrize("links", [5, 500])
def test_the_links_of_a_lost_connection_end_in_steps(links: int) -> None:
    """Found as B5: 10,000 links of one connection held the loop for half a second when it closed."""
    owner = crowded(links)
    engine, most, steps = owner.engine, 0, 0
    engine.lost(None)
    engine.free()
    assert (owner.detached == links) == (links == 5)
    while owner.steps:
        before = owner.ended
        owner.steps.pop(0)()
        most, steps = max(most, owner.ended - before), steps + 1
    assert owner.detached == owner.ended == links
    assert most <= 20
    assert (steps >= 29) == (links == 500)  # and proton frees a hundred at a time


def test_a_session_that_begins_where_one_has_just_ended_finds_its_channel() -> None:
    """Its links end in steps, and the begin that comes with the end does not wait for them."""
    owner = crowded(500, channel_max=0)
    begin = performative("begin", next_outgoing_id=0, incoming_window=9, outgoing_window=9)
    kinds = [frame.kind for frame in owner.say(framed(performative("end")) + framed(begin))]
    assert kinds == ["end", "begin"]
    assert owner.detached == owner.ended == 500
    owner.engine.lost(None)
    owner.engine.free()


class Sending(Hosted):
    """Every link of it sends one message whenever it may, if it has one."""

    def __init__(self, **config: int) -> None:
        self.links: list[Link] = []
        self.wanting: set[Link] = set()
        super().__init__(**config)

    def link_requested(self, link: Link) -> None:
        self.links.append(link)
        link.accept(Pump(self, link))


class Pump(LinkHandler):
    """The handler of one of its links."""

    def __init__(self, owner: Sending, link: Link) -> None:
        self.owner, self.link = owner, link

    def on_credit(self) -> None:
        if self.link in self.owner.wanting and self.link.credit > 0:
            self.owner.wanting.discard(self.link)
            self.link.send(message(b"x"), None, True)

    def on_detach(self, error: AmqpError | None) -> None:
        self.owner.detached += 1


def receiving_crowd(*sessions: int, others: int = 0) -> Sending:
    """A connection with so many receivers, each with credit, in each session, and room for other links."""
    owner = Sending(max_links=sum(sessions) + others)
    owner.say(AMQP_HEADER + framed(performative("open", container_id="p")))
    terminus = {"source": source("a"), "target": target("a")}
    for channel, links in enumerate(sessions):
        windows = {"incoming_window": 10_000, "outgoing_window": 9}
        owner.say(framed(performative("begin", next_outgoing_id=0, **windows), channel))
        for handle in range(links):
            name = f"l{channel}-{handle}"
            owner.say(framed(performative("attach", name=name, handle=handle, role=True, **terminus), channel))
            flow = {"next_incoming_id": 0, "next_outgoing_id": 0, "delivery_count": 0, "link_credit": 10, **windows}
            owner.say(framed(performative("flow", handle=handle, **flow), channel))
    return owner


def test_the_end_of_a_session_costs_what_it_has_itself() -> None:
    """Found as B5: it walked over all links of its connection."""

    def cost(others: int) -> int:
        owner = receiving_crowd(others, 3)
        lines = steps(lambda: owner.engine.receive(framed(performative("end"), 1)))
        assert owner.detached == owner.ended == 3
        assert owner.engine.table.count == others
        owner.engine.receive(framed(performative("end"), 0))
        while owner.steps:
            owner.steps.pop(0)()
        assert owner.detached == others + 3
        assert owner.engine.table.count == 0
        return lines

    assert cost(240) < 1.5 * cost(60)


def test_room_in_the_socket_costs_what_was_to_be_sent() -> None:
    """Found as B5: every link of the connection was asked."""

    def cost(others: int) -> int:
        owner = receiving_crowd(others, 3)
        wanting = owner.links[-3:]
        owner.engine.pause(True)
        owner.wanting.update(wanting)
        for link in wanting:
            assert link.credit == 0
        lines = steps(lambda: owner.engine.pause(False))
        assert not owner.wanting
        assert [frame.kind for frame in owner.frames()] == ["transfer"] * 3
        return lines

    assert cost(240) < 1.5 * cost(60)


def test_links_that_waited_for_room_in_the_socket_go_on_in_steps() -> None:
    owner = receiving_crowd(500)
    owner.engine.pause(True)
    owner.wanting.update(owner.links)
    assert not any(link.credit for link in owner.links)
    owner.engine.pause(False)
    found = [500 - len(owner.wanting)]
    while owner.steps:
        before = len(owner.wanting)
        owner.steps.pop(0)()
        found.append(before - len(owner.wanting))
    assert not owner.wanting
    assert max(found) <= 100
    assert len(owner.frames()) == 500


def test_credit_that_comes_while_nothing_may_be_sent_is_used_afterwards() -> None:
    owner = receiving_crowd(2)
    first, second = owner.links
    owner.engine.choke(True)
    owner.wanting.update(owner.links)
    flow = {"next_incoming_id": 0, "incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}
    for handle in range(2):
        owner.say(framed(performative("flow", handle=handle, delivery_count=0, link_credit=20, **flow)))
    assert owner.wanting == {first, second}
    owner.say(framed(performative("detach", handle=1, closed=True)))
    owner.engine.choke(False)
    assert owner.wanting == {second}
    assert [frame.kind for frame in owner.frames()] == ["transfer"]


def test_enough_is_sent_at_once_and_the_rest_when_that_is_written() -> None:
    """Found as B3: a hundred links of one connection were sent a large message each before one was charged."""
    owner = receiving_crowd(6)
    engine, size = owner.engine, len(message(b"x"))
    engine.tally.write_limit = 2 * size - 1
    owner.wanting.update(owner.links)
    for link in owner.links:
        link.handler.on_credit()
    sent = []
    for _ in range(3):
        sent.append(len(owner.links) - len(owner.wanting))
        engine.unblock()
        assert engine.blocked, "nothing is written yet"
        owner.frames()
        engine.weigh()
        engine.unblock()
    assert sent == [2, 4, 6]
    assert not engine.blocked
    assert engine.tally.unflushed == 0
    assert engine.largest_output > 2 * size


@pytest.mark.parametrize("ours", [False, True], ids=["the peer closes", "we close"])
def test_a_connection_is_finished_when_its_close_is_written(ours: bool) -> None:
    owner = opened()
    engine = owner.engine
    assert not engine.finished
    if ours:
        engine.close()
    else:
        engine.receive(framed(performative("close")))
    assert not engine.finished
    assert [frame.kind for frame in owner.frames()] == ["close"]
    assert engine.finished
    engine._output.early.extend(b"more")
    assert not engine.finished
    engine.lost(None)
    engine.free()


def test_links_go_on_in_the_order_of_waiting_at_the_cost_of_those_that_do() -> None:
    def cost(waiting: int) -> int:
        owner = receiving_crowd(waiting)
        engine = owner.engine
        engine.tally.write_limit = 1
        owner.wanting.update(owner.links)
        owner.links[0].handler.on_credit()
        for link in reversed(owner.links[1:]):
            assert link.credit == 0
        owner.frames()
        lines = steps(engine.unblock)
        assert set(owner.links) - owner.wanting == {owner.links[0], owner.links[-1]}
        return lines

    assert cost(120) < 1.5 * cost(30)
