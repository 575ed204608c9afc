"""A peer that says very much at once: it is worked on in turns, and everybody else has theirs (B12)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.frames import framed, performative, target
from tests.support.amqp.messages import message
from tests.support.amqp.peer import SENDER, Peer

WINDOWS = {"next_outgoing_id": 0, "incoming_window": 100, "outgoing_window": 100}


def sessions() -> bytes:
    """One after the other, ended at once."""
    return (framed(performative("begin", **WINDOWS), 1) + framed(performative("end"), 1)) * 40_000


def refused_links() -> bytes:
    """Links to where there is nothing."""
    unknown = target("no/such")
    attach = performative("attach", name="a", handle=1, role=SENDER, target=unknown, initial_delivery_count=0)
    return (framed(attach) + framed(performative("detach", handle=1, closed=True))) * 10_000


def no_messages() -> bytes:
    """Transfers of what has no section that a message may have."""
    return b"".join(
        framed(performative("transfer", handle=0, delivery_id=n, delivery_tag=b"%d" % n) + b"\x00\x53\x99\x45")
        for n in range(40_000)
    )


def flood(peer: Peer, data: bytes, done: threading.Event) -> None:
    """Say it all, and read all answers, to the close."""
    connection = peer.detached()

    def say() -> None:
        with contextlib.suppress(OSError):
            connection.sendall(data + framed(performative("close")))

    connection.settimeout(60)
    threading.Thread(target=say, daemon=True).start()
    with contextlib.suppress(OSError):
        while connection.recv(1 << 20):
            pass
    done.set()


def rounds_meanwhile(served: Served, sender: Peer, receiver: Peer, data: bytes) -> int:
    """How many messages pass, one after the other, while another peer says all this."""
    done, rounds = threading.Event(), 0
    with served.peer() as hostile:
        hostile.attach_sender("events/orders")
        hostile.until("flow", handle=0)
        threading.Thread(target=flood, args=(hostile, data, done), daemon=True).start()
        while not done.is_set():
            sender.transfer(message(b"in turn"))
            transfer = receiver.until("transfer")
            receiver.disposition(transfer.delivery_id, "accepted")
            sender.until("disposition", first=sender.last_delivery)
            rounds += 1
    return rounds


@pytest.mark.parametrize("said", [sessions, refused_links, no_messages])
def test_others_go_on_while_one_floods(served: Served, said: Callable[[], bytes]) -> None:
    sender, receiver = served.pair("chat/fair")
    receiver.flow(0, link_credit=1_000_000)
    data, found = said(), list[int]()
    while not found or (found[-1] <= 20 and len(found) < 3):  # this process may stand still meanwhile, and say nothing
        found.append(rounds_meanwhile(served, sender, receiver, data))
    assert found[-1] > 20, f"only {found} messages passed while one peer was heard"
    sender.disconnect()
    receiver.disconnect()
