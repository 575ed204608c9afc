"""What an engine finds that proton holds, and what it does where that is too much."""

from __future__ import annotations

from cproton_ffi import lib

from tests.support.amqp.frames import framed, performative, target
from tests.support.amqp.messages import message
from tests.unit.gateway.amqp.engine.test_engine import receiving_crowd


def test_all_sessions_are_weighed_while_they_last() -> None:
    owner = receiving_crowd(2, 2, others=1)
    engine = owner.engine
    owner.wanting.update(owner.links)
    for link in owner.links:
        link.handler.on_credit()
    parts = framed(performative("transfer", handle=9, delivery_id=0, delivery_tag=b"1", more=True) + b"part")
    attach = performative("attach", name="in", handle=9, role=False, target=target("q"), initial_delivery_count=0)
    engine.receive(framed(attach, 0))
    owner.links[-1].grant(1)
    engine.receive(parts)
    sessions = list(engine._sessions._known)
    assert engine.weigh() == engine.tally.unread + engine.tally.unwritten + engine.tally.out_bytes
    assert engine.tally.unread == sum(map(lib.pn_session_incoming_bytes, sessions)) == len(b"part")
    assert engine.tally.unwritten == sum(map(lib.pn_session_outgoing_bytes, sessions)) == 4 * len(message(b"x"))
    engine._output.early.extend(b"early")
    engine.weigh()
    assert engine.tally.unwritten == 4 * len(message(b"x")) + len(b"early")
    engine.receive(framed(performative("end"), 1))
    while owner.steps:
        owner.steps.pop(0)()
    engine._output.early.clear()
    engine.weigh()
    assert engine.tally.unwritten == sum(map(lib.pn_session_outgoing_bytes, engine._sessions._known))
    assert len(engine._sessions.addresses) == len(engine._sessions._known) == 1
    engine.lost(None)
    engine.free()


def test_no_link_sends_while_its_session_has_too_much_to_write() -> None:
    owner = receiving_crowd(2)
    engine, (one, other) = owner.engine, owner.links
    one.send(bytes(8 * 2**20 - 100), None, True)
    engine.weigh()
    assert not engine.blocked
    one.send(bytes(200), None, True)
    engine.weigh()
    assert engine.blocked
    assert other.credit == 0
    engine.unblock()
    assert engine.blocked, "it is not written"
    owner.frames()
    engine.weigh()
    engine.unblock()
    assert not engine.blocked
    assert other.credit == 10
    engine.lost(None)
    engine.free()
