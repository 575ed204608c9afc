"""`strict_annotations`: a message with an annotation that is not understood ends its link (3.2.10, CORE-1)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, Listener
from tests.support.gateway.crossing import Inbox, Outbox, connected
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

FOOTER = b"\x00\x53\x78\xc1\x07\x02\xa3\x03foo\x40"
REFUSED = {
    "delivery annotation": message(b"x", to="q/a", da={"foo": 1}),
    "message annotation": message(b"x", to="q/a", ma={"foo": 1}),
    "footer": message(b"x", to="q/a") + FOOTER,
}
FOLLOWING: dict[str, Any] = {"to": "q/a", "ma": {"x-opt-jms-msg-type": 5, "event-streams-group-key": "k"}}
TAKEN = message(b"x", da={"x-opt-hop": 1}, **FOLLOWING)
PASSED = message(b"x", **FOLLOWING)
POLICY = """
gateway: {{id: gw-strict, http: off, log: json}}
kafka: {{main: {{bootstrap: embedded, topics: {{orders: 3}}}}}}
scopes:
  edge:
    listen:
      - {{bind: "127.0.0.1:{strict}", strict_annotations: true}}
      - {{bind: "127.0.0.1:{plain}"}}
    addresses:
      - {{match: "events", kafka: main, topic: orders}}
      - {{match: "q/**", direct: balanced}}
      - {{match: echo, service: echo}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> tuple[int, int]:
    strict, plain = ports(2)
    start_module_gateway(POLICY.format(strict=strict, plain=plain))
    return strict, plain


@pytest.mark.row("CORE-1")
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("address", ["q/a", "events", "echo", None])
def test_what_is_not_understood_ends_the_link(
    place: tuple[int, int], address: str | None, kind: str, settled: bool
) -> None:
    strict, _ = place
    inbox, sender = Inbox(strict, "q/a"), Outbox(strict, address)
    sender.credit()
    detach = sender.fails(REFUSED[kind], settled=settled, delivery_tag=b"\x07")
    assert detach.error["condition"] == "amqp:not-implemented"
    assert detach.error["description"].startswith(f"the gateway does not understand the {kind} key")
    assert detach.error["info"] == {Symbol("delivery-tag"): b"\x07"}
    assert inbox.empty()


@pytest.mark.row("CORE-1")
def test_a_message_in_parts_is_looked_at_too(place: tuple[int, int]) -> None:
    sender, _receiver = Outbox(place[0], "q/d"), Inbox(place[0], "q/d")
    sender.credit()
    whole = REFUSED["delivery annotation"]
    sender.post(whole[:10], more=True)
    sender.peer.send("transfer", handle=0, payload=whole[10:])
    assert sender.peer.until("detach", closed=True).error.matches("amqp:not-implemented")


@pytest.mark.row("CORE-1")
def test_what_is_understood_or_may_be_ignored_passes(place: tuple[int, int]) -> None:
    strict, _ = place
    inbox, sender = Inbox(strict, "q/b"), Outbox(strict, "q/b")
    sender.credit()
    sender.post(TAKEN)
    assert inbox.take() == PASSED
    log = Outbox(strict, "events")
    assert log.send_with_credit(message(b"x", da={"event-streams-target-partition": Symbol("1")})).matches("accepted")


@pytest.mark.row("CORE-1")
def test_another_listener_of_the_scope_is_as_tolerant_as_ever(place: tuple[int, int]) -> None:
    _, plain = place
    inbox, sender = Inbox(plain, "q/c"), Outbox(plain, "q/c")
    sender.credit()
    sender.post(message(b"x", da={"foo": 1}, ma={"foo": 1}))
    assert inbox.take() == message(b"x", ma={"foo": 1})


@pytest.mark.row("CORE-1")
@pytest.mark.parametrize("settled", [False, True])
def test_a_container_is_held_to_it_on_the_link_of_a_relay(start_gateway: Gateways, settled: bool) -> None:
    with Listener() as listener:
        far = Far(start_gateway, listener, ", strict_annotations: true").accept()
        receiver = connected(far.core)
        receiver.attach("local", RECEIVER, source=frames.source("far/x"))
        handle = far.agree(far.attach())
        receiver.until("attach")
        receiver.flow(0, link_credit=5, delivery_count=0)
        far.peer.until("flow")
        far.peer.transfer(TAKEN, handle)
        assert receiver.until("transfer").payload == PASSED
        far.peer.transfer(REFUSED["footer"], handle, settled=settled)
        far.peer.until("detach", closed=True, error="amqp:not-implemented")
        receiver.until("detach", closed=True)


@pytest.mark.row("CORE-1")
def test_the_link_of_a_pull_stays_and_rejects(start_gateway: Gateways) -> None:
    """After a detach it would fetch the same message again."""
    with Listener() as listener:
        pull = "pull: [{from: jobs, to: here/jobs}]"
        far = Far(start_gateway, listener, f", strict_annotations: true, {pull}").accept()
        handle = far.agree(far.attach())
        inbox = Inbox(far.core, "here/jobs", credit=3)
        far.peer.until("flow")
        far.peer.transfer(REFUSED["footer"], handle)
        rejected = far.peer.until("disposition", role=RECEIVER).state
        assert rejected["error"]["condition"] == "amqp:not-implemented"
        far.peer.transfer(REFUSED["footer"], handle, settled=True)
        for _ in range(3):  # all of the credit is still there
            far.peer.transfer(TAKEN, handle)
            assert inbox.take() == PASSED
