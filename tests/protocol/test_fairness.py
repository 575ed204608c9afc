"""A peer that says very much at once: it is worked on in turns, and everybody else has theirs (B12)."""

from __future__ import annotations

import contextlib
import threading

import pytest

from tests.protocol.conftest import Served
from tests.support.frames import framed, performative, target
from tests.support.messages import message
from tests.support.peer import SENDER, Peer

WINDOWS = {"next_outgoing_id": 0, "incoming_window": 100, "outgoing_window": 100}
SESSIONS = (framed(performative("begin", **WINDOWS), 1) + framed(performative("end"), 1)) * 40_000
REFUSED = (
    framed(performative("attach", name="a", handle=1, role=SENDER, target=target("no/such"), initial_delivery_count=0))
    + framed(performative("detach", handle=1, closed=True))
) * 10_000
NO_MESSAGES = b"".join(
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


@pytest.mark.parametrize("data", [SESSIONS, REFUSED, NO_MESSAGES], ids=["sessions", "refused links", "no messages"])
def test_others_go_on_while_one_floods(served: Served, data: bytes) -> None:
    sender, receiver = served.pair("chat/fair", credit=10_000)
    done, rounds = threading.Event(), 0
    with served.peer() as hostile:
        hostile.attach_sender("events/orders")
        hostile.until("flow", handle=0)
        threading.Thread(target=flood, args=(hostile, data, done), daemon=True).start()
        while not done.is_set():
            sender.transfer(message(b"in turn"))
            transfer = receiver.until("transfer")
            receiver.disposition(transfer.delivery_id, "accepted")
            sender.until("disposition", first=rounds)
            rounds += 1
    assert rounds > 20, f"only {rounds} messages passed while one peer was heard"
    sender.disconnect()
    receiver.disconnect()
