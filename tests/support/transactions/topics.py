"""What tests of transactions on topics share: reading a topic, and links whose position is stored."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.support.amqp.frames import source
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.gateway.crossing import Inbox
from tests.support.gateway.process import PATIENCE, Server, wait_until

GROUP = "event-streams-consumer-group"
_STATE = 16
"""The place of the state in a coordinator's record: behind a version, producer id, epoch and time limit."""
_COMPLETE_ABORT = 5


def _end(admin: AdminClient, topic: str, isolation: IsolationLevel) -> int:
    (found,) = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}, isolation_level=isolation).values()
    return int(found.result(PATIENCE).offset)


def _ended(bootstrap: str, topic: str) -> None:
    """Wait until readers see how each transaction has ended: Kafka marks that after it has answered (KIP-98)."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    committed, written = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    wait_until(lambda: _end(admin, topic, committed) == _end(admin, topic, written), f"no open transaction in {topic}")


def committed(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """The payloads in a topic of one partition, for a reader of this isolation; if of committed ones, once all
    transactions have ended."""
    if isolation == "read_committed":
        _ended(bootstrap, topic)
    settings = {"bootstrap.servers": bootstrap, "group.id": "t", "isolation.level": isolation}
    consumer = Consumer({**settings, "log_level": 0, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while (record := consumer.poll(PATIENCE)) is not None and record.error() is None:
        found.append(record.value() or b"")
    assert record is not None, f"Kafka does not say where {topic} ends"
    assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
    consumer.close()
    return found


def aborted(bootstrap: str) -> bool:
    """Whether a transaction has been aborted as far as its coordinator knows: the state is in its log (KIP-98)."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "t", "log_level": 0, "enable.partition.eof": True})
    consumer.assign([TopicPartition("__transaction_state", 0, 0)])
    found = set[int]()
    while (record := consumer.poll(PATIENCE)) is not None and record.error() is None:
        if (value := record.value()) is not None:
            found.add(value[_STATE])
    consumer.close()
    return _COMPLETE_ABORT in found


@contextmanager
def silent(kafka: Server) -> Iterator[None]:
    """The broker answers nothing meanwhile."""
    assert kafka.process is not None
    process = kafka.process
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        if process.alive:
            process.send_signal(signal.SIGCONT)


def consuming(peer: Peer, topic: str, handle: int, *, group: bool, credit: int = 10) -> Inbox:
    """A link of a group, or a durable one; its name is the same at every connection."""
    durable: dict[str, Any] = {} if group else {"durable": 1, "expiry_policy": "never"}
    properties = {GROUP: "workers"} if group else None
    peer.attach("worker", RECEIVER, handle, source=source(f"events/{topic}", **durable), properties=properties)
    assert peer.until("attach", name="worker").source is not None, "refused: another link has it"
    if credit:
        peer.flow(handle, link_credit=credit, delivery_count=0)
    return Inbox.adopt(peer, handle)


def difference(wanted: list[bytes], made: list[bytes]) -> str:
    """What is in one of two topics that should be the same, and not in the other."""
    missing, more = Counter(wanted) - Counter(made), Counter(made) - Counter(wanted)
    return f"{len(made)} made, missing {sorted(missing)}, too many {dict(more)}"
