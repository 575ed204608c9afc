"""Input that proton takes in several pieces: when its events are handled (decision 111)."""

from __future__ import annotations

import pytest

from gateway.amqp.engine.dispatcher import Dispatcher
from tests.support.amqp.frames import AMQP_HEADER, framed, performative, target
from tests.support.amqp.messages import message
from tests.unit.gateway.amqp.engine.test_engine import Taking


@pytest.mark.parametrize(("last", "times"), [(b"", 2), (framed(performative("detach", handle=0)), 10)])
def test_the_events_of_large_input_wait_for_each_other(
    last: bytes, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """proton takes 8 KiB at once. A few events cost as much as many; control frames are looked at piece by piece."""
    dispatched, dispatch = list[bool](), Dispatcher.dispatch
    monkeypatch.setattr(Dispatcher, "dispatch", lambda self: dispatched.append(dispatch(self)) or dispatched[-1])
    owner = Taking()
    begin = performative("begin", next_outgoing_id=0, incoming_window=100, outgoing_window=100)
    attach = performative("attach", name="a", handle=0, role=False, target=target("q"), initial_delivery_count=0)
    owner.say(AMQP_HEADER + framed(performative("open", container_id="p")) + framed(begin) + framed(attach))
    fields = {"handle": 0, "delivery_tag": b"t", "settled": True}
    body = message(bytes(6000))
    data = b"".join(framed(performative("transfer", **fields, delivery_id=n) + body) for n in range(10))
    dispatched.clear()
    owner.say(data + last)
    assert len(owner.node.found) == 10
    assert dispatched.count(False) == times  # on a busy machine, a call may have left events to another one
    owner.engine.lost(None)
    owner.engine.free()


def test_an_error_at_the_begin_of_large_input_ends_the_connection_at_once() -> None:
    """proton takes nothing behind it: no later piece of the input would make the engine look."""
    owner = Taking()
    begin = performative("begin", next_outgoing_id=0, incoming_window=100, outgoing_window=100)
    owner.say(AMQP_HEADER + framed(performative("open", container_id="p")) + framed(begin))
    fields = {"handle": 7, "delivery_tag": b"t", "settled": True}  # nothing is attached there
    body = message(bytes(6000))
    answers = owner.say(b"".join(framed(performative("transfer", **fields, delivery_id=n) + body) for n in range(4)))
    assert [frame.kind for frame in answers] == ["close"]
    assert owner.error is not None
    owner.engine.lost(None)
    owner.engine.free()
