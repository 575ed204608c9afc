"""Clients that fill every place where a message can wait, all at once.

`python -m tests.support.gateway.flood PORT CONNECTIONS`: that many of each kind.

A line of `WAYS` describes each kind. They run until the process is killed; they read and discard the gateway's answers,
except for those that never read. A connection that is closed is opened again.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer

ANY: Final = 2**31 - 1
_CHUNK: Final = 2**18
_numbers = itertools.count()


def transfer(number: int, payload: bytes, **fields: object) -> bytes:
    """One frame with a whole message, or with a part of one (`more`)."""
    delivery = {"handle": 0, "delivery_id": number, "delivery_tag": b"%d" % number, "message_format": 0, **fields}
    return frames.framed(frames.performative("transfer", **delivery) + payload, 0, kind=0)


def pushed(peer: Peer, data: bytes, seconds: float) -> int:
    """Send as much as the gateway reads in this time, and read what it answers; return how many bytes it took."""
    connection, sent, deadline = peer.detached(), 0, time.monotonic() + seconds
    connection.setblocking(False)
    view = memoryview(data)
    while sent < len(data) and time.monotonic() < deadline:
        readable, writable, _ = select.select([connection], [connection], [], 0.05)
        if readable and not connection.recv(_CHUNK):
            break
        if writable:
            with contextlib.suppress(BlockingIOError):
                sent += connection.send(view[sent : sent + _CHUNK])
        if not writable:
            time.sleep(0.01)
    return sent


def read(peer: Peer) -> None:
    """Read what is there, and answer nothing."""
    connection = peer.detached()
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while connection.recv(_CHUNK):
            pass


def connected(port: int) -> Peer:
    """A peer through SASL, open and begin, with a container id that nobody else has."""
    peer = Peer(port)
    peer.start(container_id=f"flood-{next(_numbers)}")
    return peer


def receiving_anything(port: int, address: str, credit: int = ANY, **source: object) -> Peer:
    """A receiver with as much credit as there can be."""
    peer = connected(port)
    peer.attach_receiver(address, source=frames.source(address, **source))
    return peer.flow(0, link_credit=credit, incoming_window=ANY)


def numbered(payload: bytes, size: int) -> Iterator[bytes]:
    """The same message again and again, in lots of about this many bytes."""
    number = 0
    while True:
        count = max(1, size // len(payload))
        yield b"".join(transfer(each, payload) for each in range(number, number + count))
        number += count


def unfinished(port: int, name: str) -> None:
    """Begins many messages and finishes none."""
    receiver, peer = receiving_anything(port, f"chat/{name}", 1000), connected(port)
    for handle in range(40):
        peer.attach_sender(f"chat/{name}", handle)
    piece = message(bytes(50_000))
    data = b"".join(transfer(handle, piece, handle=handle, more=True) for handle in range(40))
    while pushed(peer, data, 5) == len(data):
        pass
    receiver.disconnect()


def nowhere(port: int, name: str) -> None:
    """Sends to addresses whose receivers have no credit, on the anonymous terminus."""
    receivers = [receiving_anything(port, f"chat/{name}-{each}", 0) for each in range(4)]
    peer = connected(port)
    peer.attach_sender(None)
    body = bytes(20_000)
    data = b"".join(transfer(each, message(body, to=f"chat/{name}-{each % 4}")) for each in range(1000))
    pushed(peer, data, 20)
    for each in receivers:
        each.disconnect()


def deaf(port: int, name: str, **source: object) -> None:
    """A receiver with all credit that does not read, and a sender for it."""
    receiver, peer = receiving_anything(port, f"chat/{name}", **source), connected(port)
    peer.attach_sender(f"chat/{name}")
    for data in numbered(message(bytes(8000), subject="red"), 2**21):
        if pushed(peer, data, 10) < len(data):
            break
    receiver.disconnect()


def never(port: int, name: str) -> None:
    """A receiver that reads and settles nothing, and a sender for it."""
    receiver, peer = receiving_anything(port, f"chat/{name}"), connected(port)
    peer.attach_sender(f"chat/{name}")
    for data in numbered(message(bytes(1000)), 2**19):
        sent = pushed(peer, data, 10)
        read(receiver)
        if sent < len(data):
            break
    receiver.disconnect()


WAYS: Final[tuple[Callable[[int, str], None], ...]] = (unfinished, nowhere, deaf, never)


def again(way: Callable[[int, str], None], port: int, name: str) -> None:
    """Do it for ever."""
    while True:
        with contextlib.suppress(OSError, AssertionError):
            way(port, name)
        time.sleep(0.2)


def main() -> None:
    """Begin all of them."""
    port, connections = map(int, sys.argv[1:3])
    threads = [
        threading.Thread(target=again, args=(way, port, f"{way.__name__}-{each}"))
        for way in WAYS
        for each in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
