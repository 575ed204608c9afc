"""A drain that comes while messages wait for room in the peer's session is answered once they are sent (2.6.7, 2.5.6).

Each of those receivers has taken two of ten messages when its session is full, and asks for all credit back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer

MESSAGES, TAKEN, CREDIT = 10, 2, 100
pytestmark = pytest.mark.row("CORE-13", part="a full session")


def sender(served: Served, address: str) -> Peer:
    """A peer that may send; to a relay, from the other scope."""
    peer = Peer(served.core if address.startswith("svc/") else served.edge)
    peer.start()
    peer.attach_sender(address.replace("svc/", "services/"))
    peer.until("flow", handle=0)
    return peer


def send(peer: Peer, count: int) -> None:
    """Send messages and wait until the gateway has read them."""
    for _ in range(count):
        peer.transfer(message(b"drained"))
    peer.flow(0, delivery_count=peer.last_delivery + 1, echo=True)
    peer.until("flow", handle=0, delivery_count=peer.last_delivery + 1)


def full(served: Served, address: str, taken: int = TAKEN, drain: bool = True, **fields: Any) -> tuple[Peer, Peer]:
    """A sender and a receiver whose session is full after some messages; if it drains, nothing has answered that."""
    receiver = served.peer()
    receiver.attach_receiver(address, **fields)
    if log := address.startswith("events/"):
        sends = logged(served, address)
    receiver.flow(0, link_credit=CREDIT, incoming_window=taken)
    if not log:
        sends = sender(served, address)
        send(sends, MESSAGES)
    take(receiver, taken)
    if drain:
        ask(receiver, taken)
    return sends, receiver


def logged(served: Served, address: str) -> Peer:
    """A sender whose messages are all in a log, so that they are read at once."""
    sends = sender(served, address)
    for number in range(MESSAGES):
        sends.transfer(message(b"drained"))
        sends.until("disposition", first=number, state="accepted")
    return sends


def ask(peer: Peer, taken: int = TAKEN, window: int = 0, limit: int = CREDIT, drain: bool = True) -> None:
    """A flow that has nothing sent unless its `window` is open; whatever answers it is sent before the echo."""
    peer.flow(0, delivery_count=taken, link_credit=limit - taken, incoming_window=window, drain=drain, echo=not window)
    if not window:
        peer.expect("flow", handle=0, delivery_count=taken, link_credit=limit - taken, drain=drain)


def take(peer: Peer, count: int) -> Frame:
    """The next messages; returns the last."""
    frames = [peer.expect("transfer") for _ in range(count)]
    return frames[-1]


def drained(peer: Peer, limit: int = CREDIT) -> None:
    """The next frame gives all credit back."""
    peer.expect("flow", handle=0, delivery_count=limit, link_credit=0, drain=True)


def by_session(peer: Peer) -> None:
    peer.flow()
    take(peer, MESSAGES - TAKEN)


def step_by_step(peer: Peer) -> None:
    for _ in range(MESSAGES - TAKEN):
        peer.flow(incoming_window=1)
        take(peer, 1)


def by_link(peer: Peer) -> None:
    ask(peer, window=1000)
    take(peer, MESSAGES - TAKEN)


OPENED: dict[str, Callable[[Peer], None]] = {
    "by a flow of the session": by_session,
    "step by step": step_by_step,
    "by another drain": by_link,
}
KINDS = {"a direct node": "chat", "many direct nodes": "news", "a log": "events", "a relay": "svc"}


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_answer_follows_the_last_message(served: Served, kind: str, opened: Callable[[Peer], None]) -> None:
    """Afterwards the link is as before: new credit brings the next message."""
    sends, receiver = full(served, "events/orders" if kind == "events" else f"{kind}/full-session")
    with sends, receiver:
        opened(receiver)
        drained(receiver)
        receiver.flow(0, link_credit=1, delivery_count=CREDIT)
        send(sends, 1)
        take(receiver, 1)


@pytest.mark.parametrize("mode", [0, 1], ids=["unsettled", "settled"])
def test_one_message_is_left(served: Served, mode: int) -> None:
    sends, receiver = full(served, "chat/one-left", MESSAGES - 1, snd_settle_mode=mode)
    with sends, receiver:
        receiver.flow()
        take(receiver, 1)
        drained(receiver)


def test_a_part_of_a_message_is_left(served: Served) -> None:
    with served.peer(max_frame_size=512) as receiver:
        receiver.attach_receiver("chat/part")
        receiver.flow(0, link_credit=CREDIT, incoming_window=1)
        with sender(served, "chat/part") as sends:
            sends.transfer(message(b"x" * 1200))
            assert take(receiver, 1).more
            receiver.flow(0, link_credit=CREDIT, incoming_window=1, drain=True)
            assert take(receiver, 1).more
            receiver.flow()
            assert not take(receiver, 1).more
            drained(receiver)


def test_a_drain_that_is_taken_back_leaves_the_credit(served: Served) -> None:
    sends, receiver = full(served, "chat/withdrawn")
    with sends, receiver:
        ask(receiver, drain=False)
        receiver.flow()
        take(receiver, MESSAGES - TAKEN)
        send(sends, 1)
        take(receiver, 1)
        ask(receiver, MESSAGES + 1, 1000)
        drained(receiver)


@pytest.mark.parametrize("limit", [CREDIT + 5, CREDIT - 5])
def test_all_credit_goes_back_if_it_changes_meanwhile(served: Served, limit: int) -> None:
    sends, receiver = full(served, "chat/changes")
    with sends, receiver:
        ask(receiver, limit=limit)
        receiver.flow()
        take(receiver, MESSAGES - TAKEN)
        drained(receiver, limit)


def test_credit_that_is_taken_back_is_not_returned(served: Served) -> None:
    """None is left, so there is nothing to tell; the next message needs new credit."""
    sends, receiver = full(served, "chat/taken-back")
    with sends, receiver:
        ask(receiver, limit=MESSAGES)
        receiver.flow()
        take(receiver, MESSAGES - TAKEN)
        send(sends, 1)
        receiver.flow(0, delivery_count=MESSAGES, link_credit=1)
        take(receiver, 1)


def test_a_message_that_comes_later_waits_for_new_credit(served: Served) -> None:
    """It was not available when the drain was answered, and the credit is promised to the receiver."""
    sends, receiver = full(served, "chat/later")
    with sends, receiver:
        send(sends, 1)
        receiver.flow()
        take(receiver, MESSAGES - TAKEN)
        drained(receiver)
        receiver.flow(0, link_credit=1, delivery_count=CREDIT)
        take(receiver, 1)


def test_credit_beyond_what_goes_back_can_be_used(served: Served) -> None:
    sends, receiver = full(served, "chat/beyond")
    with sends, receiver:
        send(sends, 1)
        ask(receiver, limit=CREDIT + 1)
        receiver.flow()
        take(receiver, MESSAGES - TAKEN + 1)
        drained(receiver, CREDIT + 1)


def test_a_link_that_ends_owes_nothing(served: Served) -> None:
    sends, receiver = full(served, "chat/ends")
    with sends, receiver:
        receiver.detach()
        receiver.until("detach", handle=0)
        receiver.attach_receiver("chat/ends", name="again")
        receiver.flow(0, link_credit=5, drain=True)
        drained(receiver, 5)
        receiver.close()
        receiver.until("close", error=None)


def test_a_session_that_ends_owes_nothing(served: Served) -> None:
    sends, receiver = full(served, "chat/session-ends")
    with sends, receiver:
        receiver.end()
        receiver.until("end")
        receiver.begin().expect("begin")
        receiver.flow()
        receiver.close()
        receiver.expect("close", error=None)


@pytest.mark.parametrize("address", ["chat/empty", "events/orders"])
def test_a_drain_without_credit_is_answered(served: Served, address: str) -> None:
    """There is nothing to advance: the answer tells the state (2.6.7). It is given each time, and once."""
    with served.peer() as receiver:
        receiver.attach_receiver(address)
        receiver.flow(0, link_credit=0, drain=True)
        drained(receiver, 0)
        receiver.flow(0, link_credit=3, drain=True)
        drained(receiver, 3)
        for _ in range(2):
            receiver.flow(0, link_credit=0, delivery_count=3, drain=True)
            drained(receiver, 3)
        receiver.close()
        receiver.expect("close", error=None)


def test_the_answer_to_a_drain_of_ours_is_not_answered(served: Served) -> None:
    """It looks like a drain without credit. Two gateways would answer each other for ever."""
    with sender(served, "events/orders") as sends:
        sends.flow(0, link_credit=0, drain=True)
        sends.close()
        sends.expect("close", error=None)
