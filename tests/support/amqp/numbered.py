"""Numbered messages by the thousand: the outcome of each is known, and each can be found again in Kafka.

Drives proton's C engine over raw bytes (tests/bench), because only the gateway should be under load.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from cproton_ffi import ffi, lib

from tests.bench.load import messages
from tests.bench.load.peer import BUFFER, BUFFER_SIZE, Peer
from tests.bench.load.roles import Receiver, Sender
from tests.support.gateway.process import PATIENCE

NAMES = {
    lib.PN_ACCEPTED: "accepted",
    lib.PN_RELEASED: "released",
    lib.PN_REJECTED: "rejected",
    lib.PN_MODIFIED: "modified",
}
HEAD = b"\x00\x53\x75\xa0\x08"  # a data section of eight bytes


class NumberedSender(Sender):
    """Sends 0, 1, 2 … as credit allows, up to `limit`; `outcome` says what became of each."""

    def __init__(self, address: str, limit: int) -> None:
        super().__init__(self._note, address, 8, limit=limit)
        self.outcome: dict[int, str] = {}
        self.trouble: list[str] = []
        self.at: tuple[int, Callable[[], None]] = (-1, lambda: None)
        """Something to do when so many outcomes are in, before the next is read."""
        self._numbers: dict[Any, int] = {}

    def _note(self, reason: str) -> None:
        self.trouble.append(reason)

    def _send(self, count: int) -> None:
        link, numbers = self.link, self._numbers
        for number in range(self.sent, self.sent + count):
            raw = number.to_bytes(8, "big")
            store = ffi.new("char[]", raw)
            delivery = lib.pn_delivery(link, ffi.new("pn_bytes_t *", (8, store))[0])
            lib.pn_link_send(link, HEAD + raw, 13)
            lib.pn_link_advance(link)
            numbers[delivery] = number
        self.sent += count

    def delivery(self, delivery: Any) -> None:
        state = lib.pn_delivery_remote_state(delivery)
        self.outcome[self._numbers.pop(delivery)] = NAMES.get(state, f"state {state}")
        lib.pn_delivery_settle(delivery)
        self.outcomes += 1
        if self.outcomes == self.at[0]:
            self.at[1]()

    def of(self, *names: str) -> set[int]:
        """The numbers with one of these outcomes."""
        return {number for number, name in self.outcome.items() if name in names}


class NumberedReceiver(Receiver):
    """Receives everything from the beginning; `numbers` as they came."""

    def __init__(self, address: str, binding: bytes = b"") -> None:
        super().__init__(self._note, address, 1000, messages.EARLIEST, binding=binding)
        self.numbers: list[int] = []
        self.trouble: list[str] = []

    def _note(self, reason: str) -> None:
        self.trouble.append(reason)

    def delivery(self, delivery: Any) -> None:
        if lib.pn_delivery_partial(delivery):
            return
        size = lib.pn_link_recv(self.link, BUFFER, BUFFER_SIZE)
        self.numbers.append(int.from_bytes(ffi.unpack(BUFFER + (size - 8), 8), "big"))
        lib.pn_link_advance(self.link)
        lib.pn_delivery_update(delivery, lib.PN_ACCEPTED)
        lib.pn_delivery_settle(delivery)
        self.spent += 1
        if self.spent * 2 >= self.credit:
            lib.pn_link_flow(self.link, self.spent)
            self.spent = 0


async def attach(role: Any, port: int) -> Any:
    """Connect a role and wait until its link is attached."""
    await asyncio.get_running_loop().create_connection(lambda: Peer(role), "127.0.0.1", port)
    await until(lambda: role.ready or role.trouble, "the link to be attached")
    assert not role.trouble
    return role


async def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Let the loop turn until something has happened."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        assert loop.time() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.002)


def stored(bootstrap: str, topic: str, partitions: Iterable[int]) -> dict[int, list[int]]:
    """The numbers in a topic by partition, in the order of their offsets, read by an ordinary consumer."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer({**settings, "fetch.queue.backoff.ms": 1, "log_level": 0})
    found: dict[int, list[int]] = {}
    try:
        for partition in partitions:
            place = TopicPartition(topic, partition, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE)
            consumer.assign([place])
            found[partition] = values = []
            deadline = time.monotonic() + PATIENCE
            while len(values) < end:
                assert time.monotonic() < deadline, f"{len(values)} of {end} records"
                batch = consumer.consume(2000, timeout=0.2)  # waits for all of them, or so long
                values += [int.from_bytes(record.value() or b"", "big") for record in batch]
    finally:
        consumer.close()
    return found
