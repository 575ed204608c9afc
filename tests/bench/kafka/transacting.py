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

import numpy as np
from confluent_kafka import Producer

from bridges.kafka.produce.producer import SETTINGS
from tests.bench.load import messages
from tests.support.amqp import frames
from tests.support.amqp.peer import Peer
from tests.support.transactions.controller import Controller, in_transaction, request

BODY: Final = 100
_PIECE: Final = 500
"""Messages that are written at once."""
_NUMBER, _TAG = b"\x7a\x7b\x7c\x7d", b"\x01\x02\x03\x04\x05\x06\x07\x08"
"""What the delivery-id and the tag are in the model of a transfer."""
_FLOW: Final = b"\x00\x53\x13"
_DISPOSITION: Final = b"\x00\x53\x15"
_SMALL_LIST: Final = 0xC0
_WIDTHS: Final = {0x40: 0, 0x41: 0, 0x42: 0, 0x43: 0, 0x52: 1, 0x70: 4}
"""The bytes behind the codes of null, booleans and uints."""


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
        self._txn_id = self._post = self._discharge = b""
        self._sent, self._rest, self._next = 0, b"", self._peer.last_delivery + 1

    def transaction(self, size: int) -> None:
        """Declare, send so many messages, wait for their outcomes, and commit."""
        declared = self._ask(_DECLARE)
        assert declared.state.name == "declared", declared
        txn_id, sent, settled = bytes(declared.state["txn_id"]), 0, 0
        post, discharge = self._models(txn_id)
        while settled < size:
            count = min(size - sent, self._limit - self._sent, _PIECE)
            if count > 0:
                self._socket.sendall(self._transfers(post, count))
                sent, self._sent = sent + count, self._sent + count
            if count <= 0 or sent == size:
                settled += sum(_accepted(frame) for frame in self._frames())
        outcome = self._ask(discharge)
        assert outcome.state.matches("accepted"), outcome

    def _models(self, txn_id: bytes) -> tuple[bytes, bytes]:
        """A post and a discharge; those of the transaction before have another id."""
        if len(txn_id) != len(self._txn_id):
            body = (messages.data_section(BODY) + messages.PLAIN_TAIL)[-BODY:]
            self._post = _model(1, _data(body), state=in_transaction(txn_id))
            self._discharge = _model(0, request(frames.composite("discharge", txn_id=txn_id, fail=False)))
        else:
            self._post = self._post.replace(self._txn_id, txn_id)
            self._discharge = self._discharge.replace(self._txn_id, txn_id)
        self._txn_id = txn_id
        return self._post, self._discharge

    def _transfers(self, model: bytes, count: int) -> memoryview:
        """So many transfers; the tag of each is its delivery-id, twice."""
        numbers = np.arange(self._next, self._next + count, dtype=">u4").view(np.uint8).reshape(count, 4)
        self._next += count
        made = np.tile(np.frombuffer(model, np.uint8), (count, 1))
        tag = model.index(_TAG)
        for at in (model.index(_NUMBER), tag, tag + 4):
            made[:, at : at + 4] = numbers
        return made.data.cast("B")

    def _ask(self, model: bytes) -> frames.Frame:
        """Send a request to the coordinator, and return its disposition."""
        number = self._next
        self._socket.sendall(self._transfers(model, 1))
        while True:
            for raw in self._frames():
                if raw[8:11] == _DISPOSITION and _fields(raw, 2)[1] == number and (frame := frames.parse(raw)):
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
            if raw[8:11] == _FLOW:
                *_, handle, delivery_count, link_credit = _fields(raw, 7)
                if handle == 1:
                    self._limit = delivery_count + link_credit
            elif raw[8:11] != _DISPOSITION:
                assert (other := frames.parse(raw)) is None, other  # only an empty frame
        return found


def _data(body: bytes) -> bytes:
    return b"\x00\x53\x75\xa0" + bytes([len(body)]) + body


def _model(handle: int, payload: bytes, **more: Any) -> bytes:
    """A transfer of which the delivery-id and the tag are not those of any message."""
    number = struct.unpack(">I", _NUMBER)[0]
    fields = {"handle": handle, "delivery_id": number, "delivery_tag": _TAG, "message_format": 0, **more}
    return bytes(frames.framed(frames.performative("transfer", **fields) + payload))


_DECLARE: Final = _model(0, request(frames.composite("declare")))


def _accepted(raw: bytes) -> int:
    """How many messages a disposition accepts in a transaction."""
    if raw[8:11] != _DISPOSITION:
        return 0
    assert b"\x00\x53\x34" in raw, raw
    assert b"\x00\x53\x24" in raw, raw
    _, first, last = _fields(raw, 3)
    return 1 if last is None else last - first + 1


def _fields(raw: bytes, count: int) -> list[Any]:
    """The first fields of a performative; decoding all of each frame would take longer than the gateway does."""
    at = 14 if raw[11] == _SMALL_LIST else 20
    found: list[Any] = []
    while len(found) < count:
        width, start = _WIDTHS[raw[at]], at + 1
        uint = width or raw[at] == 0x43
        found.append(int.from_bytes(raw[start : start + width], "big") if uint else None)
        at = start + width
    return found


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
