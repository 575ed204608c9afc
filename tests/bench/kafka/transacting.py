"""A client that sends in transactions and costs little: `… -m tests.bench.kafka.transacting PORT ADDRESS COUNT SIZE`.

It sends COUNT messages in transactions of SIZE, waits for each commit, and prints messages per second. With a Kafka
topic in place of an address, `bare BOOTSTRAP TOPIC COUNT SIZE`, a transactional producer does the same: records per
second and its processor time for each in microseconds.
"""

from __future__ import annotations

import struct
import sys
import time
import uuid
from typing import Any, Final

from confluent_kafka import Producer

from bridges.kafka.produce.producer import SETTINGS
from tests.bench.load import messages
from tests.support.amqp import frames
from tests.support.amqp.peer import Peer
from tests.support.transactions.controller import Controller, in_transaction, request

BODY: Final = 100
_PIECE: Final = 500
"""Messages that are written at once."""
_NUMBER, _TAG = 0x7A7B7C7D, b"\x01\x02\x03\x04\x05\x06\x07\x08"
"""What the delivery-id and the tag are in the model of a transfer."""
_DISPOSITION: Final = b"\x00\x53\x15"
_FIRST, _NULL = 15, 0x40
"""Where the first delivery of a small disposition is; the code of null."""
_LAST: Final = {0x43: 16, 0x52: 17, 0x70: 20}
"""Where its last one is, by the code of the first; the first byte of a frame is never that of null."""


class Client:
    """One connection with a coordinator and a sender."""

    def __init__(self, port: int, address: str) -> None:
        self._peer = Peer(port)
        self._peer.start()
        self._controller = Controller(self._peer)
        self._peer.attach_sender(address, 1)
        flow = self._peer.until("flow", handle=1)
        self._limit = flow.delivery_count + flow.link_credit
        self._socket = self._peer.detached()
        self._sent, self._rest, self._next = 0, b"", self._peer.last_delivery + 1

    def transaction(self, size: int) -> None:
        """Declare, send so many messages, wait for their outcomes, and commit."""
        declared = self._ask(frames.composite("declare"))
        assert declared.state.name == "declared", declared
        txn_id, sent, settled = bytes(declared.state["txn_id"]), 0, 0
        model = self._model(txn_id)
        while settled < size:
            count = min(size - sent, self._limit - self._sent, _PIECE)
            if count > 0:
                self._socket.sendall(b"".join(self._transfers(model, count)))
                sent += count
            if count <= 0 or sent == size:
                settled += sum(_accepted(frame) for frame in self._frames())
        outcome = self._ask(frames.composite("discharge", txn_id=txn_id, fail=False))
        assert outcome.state.matches("accepted"), outcome

    def _model(self, txn_id: bytes) -> list[bytes]:
        """A transfer without its delivery-id and tag: what is before, between and after them."""
        state = in_transaction(txn_id)
        fields = {"handle": 1, "delivery_id": _NUMBER, "delivery_tag": _TAG, "message_format": 0, "state": state}
        body = (messages.data_section(BODY) + messages.PLAIN_TAIL)[-BODY:]
        head, _, tail = frames.framed(frames.performative("transfer", **fields) + _data(body)).partition(
            struct.pack(">I", _NUMBER)
        )
        between, _, after = tail.partition(_TAG)
        return [head, between, after]

    def _transfers(self, model: list[bytes], count: int) -> list[bytes]:
        head, between, after = model
        numbers = range(self._next, self._next + count)
        self._next, self._sent = self._next + count, self._sent + count
        pack = struct.Struct(">I").pack
        return [b"".join((head, (at := pack(number)), between, at, at, after)) for number in numbers]

    def _ask(self, body: Any) -> frames.Frame:
        """Send a request to the coordinator, and return its disposition."""
        payload = request(body)
        number, self._next = self._next, self._next + 1
        fields = {"handle": 0, "delivery_id": number, "delivery_tag": b"%d" % number, "message_format": 0}
        self._socket.sendall(frames.framed(frames.performative("transfer", **fields) + payload))
        while True:
            for raw in self._frames():
                frame = frames.parse(raw)
                if frame is not None and frame.kind == "disposition" and frame.first == number:
                    return frame

    def _frames(self) -> list[bytes]:
        """The next frames; those that grant credit are taken note of."""
        data, found, at = self._rest + self._socket.recv(1 << 20), [], 0
        assert len(data) > len(self._rest), "the gateway has closed the connection"
        while len(data) - at >= 4 and len(data) - at >= (size := int.from_bytes(data[at : at + 4], "big")):
            found.append(data[at : at + size])
            at += size
        self._rest = data[at:]
        for raw in found:
            if raw[8:11] != _DISPOSITION and (frame := frames.parse(raw)) is not None:
                assert frame.kind == "flow", frame
                if frame.handle == 1:
                    self._limit = frame.delivery_count + frame.link_credit
        return found


def _data(body: bytes) -> bytes:
    return b"\x00\x53\x75\xa0" + bytes([len(body)]) + body


def _accepted(raw: bytes) -> int:
    """How many messages a disposition accepts in a transaction."""
    if raw[8:11] != _DISPOSITION:
        return 0
    assert b"\x00\x53\x34" in raw, raw
    assert b"\x00\x53\x24" in raw, raw
    if raw[_LAST.get(raw[_FIRST], 0)] == _NULL:
        return 1  # nearly always: decoding each would take longer than the gateway does
    frame = frames.parse(raw)
    assert frame is not None
    return 1 if frame.last is None else int(frame.last - frame.first + 1)


def ours(port: int, address: str, count: int, size: int) -> float:
    """Messages per second through the gateway."""
    client = Client(port, address)
    client.transaction(size)  # its producer is made
    start = time.perf_counter()
    for _ in range(count // size):
        client.transaction(size)
    return count // size * size / (time.perf_counter() - start)


def bare(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    """Records per second of a transactional producer with a report for each, and its processor time for one (us)."""
    own = {"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex}
    producer = Producer({**SETTINGS, **own})
    producer.init_transactions(30)
    body, acknowledged = bytes(BODY), 0

    def report(error: object, _: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    def transaction() -> None:
        producer.begin_transaction()
        for number in range(size):
            while True:
                try:
                    producer.produce(topic, body, on_delivery=report)
                    break
                except BufferError:
                    producer.poll(0.01)
            if number % 500 == 0:
                producer.poll(0)
        producer.commit_transaction(30)

    transaction()
    start, used = time.perf_counter(), time.process_time()
    for _ in range(count // size):
        transaction()
    seconds, used = time.perf_counter() - start, time.process_time() - used
    assert acknowledged == (count // size + 1) * size, f"{acknowledged} records acknowledged"
    return count // size * size / seconds, used * 1e6 / (count // size * size)


if __name__ == "__main__":
    if sys.argv[1] == "bare":
        print(*bare(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
    else:
        print(ours(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
