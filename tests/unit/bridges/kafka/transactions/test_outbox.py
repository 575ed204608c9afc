"""Records without a context: taken as those that have one, counted when they are reported, and ignored by callbacks."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Producer

from bridges.kafka.produce import _produce
from bridges.kafka.transactions import outbox
from tests.support.amqp.messages import message
from tests.support.gateway.process import wait_until
from tests.unit.bridges.kafka.produce.test_produce_client import NOWHERE

Made = Callable[[Producer], outbox.TransactionOutbox]
WAYS = [outbox.CountingOutbox, outbox.CallbackOutbox]


@pytest.fixture(params=WAYS)
def kept(request: pytest.FixtureRequest) -> outbox.TransactionOutbox:
    made: Made = request.param
    return made(Producer({**NOWHERE, "queue.buffering.max.messages": 3}))


def test_records_are_counted(kept: outbox.TransactionOutbox) -> None:
    for number in range(3):
        kept.put("topic", -1, b"k", b"%d" % number, [("name", b"value"), ("none", None)])
    with pytest.raises(BufferError):
        kept.put("topic", -1, None, b"", None)
    assert kept.size >= 6
    assert kept.waiting() >= 3
    assert kept.reports() == (0, 0)
    kept.client.purge()
    found: list[tuple[int, int]] = []
    wait_until(lambda: found.append(kept.reports()) or sum(count for count, _ in found) == 3, "the reports")
    assert {code for count, code in found if count} == {KafkaError._PURGE_QUEUE}
    assert (kept.size, kept.waiting(), kept.reports()) == (0, 0, (0, 0))


def test_confluent_kafka_may_take_the_reports() -> None:
    kept = outbox.CountingOutbox(Producer(NOWHERE))
    assert kept.put_messages("topic", -1, [(number, message(b"m"), False) for number in range(100)], 0, 0) == 100
    kept.client.purge()
    wait_until(lambda: kept.client.poll(0) or not kept.waiting(), "the reports")
    assert kept.reports() == (0, 0)
    assert kept.size == 0


def test_messages_end_where_python_makes_the_record(kept: outbox.TransactionOutbox) -> None:
    messages = [(1, message(b"a"), False), (2, message(b"b"), False), (3, b"odd", False), (4, message(b"c"), False)]
    end = 2 if isinstance(kept, outbox.CountingOutbox) else 0
    assert kept.usual(messages, 0, 0) == kept.put_messages("topic", -1, messages, 0, 0) == end
    assert kept.usual(messages, 2, 0) == 2
    kept.client.purge()


def test_settings_decide_who_counts() -> None:
    def nobody(error: KafkaError) -> None: ...

    assert isinstance(outbox.make_outbox(NOWHERE, nobody), outbox.CountingOutbox)
    assert isinstance(outbox.make_outbox({**NOWHERE, "stats_cb": print}, nobody), outbox.CallbackOutbox)


async def test_reports_wake_the_loop(kept: outbox.TransactionOutbox) -> None:
    """Each time that there are some, and no more when that is over."""
    woken = asyncio.Event()
    wakeups = kept.wakeups(asyncio.get_running_loop(), woken.set)
    for _ in range(2):
        kept.put("topic", -1, None, b"", None)
        kept.client.purge()
        reported = 0
        while not reported:
            wakeups.expect()
            async with asyncio.timeout(60):
                await woken.wait()
            woken.clear()
            reported += kept.reports()[0]
    wakeups.close()
    kept.put("topic", -1, None, b"", None)
    kept.client.purge()
    wait_until(lambda: kept.reports()[0], "the report")
    await asyncio.sleep(0)
    assert not woken.is_set()


async def test_librdkafka_writes_to_no_file_of_somebody_else() -> None:
    """A closed file's number soon is that of another."""
    end, start = os.pipe2(os.O_NONBLOCK)
    for _ in range(50):  # a thread of librdkafka may be first, for as long as it tries to connect
        kept = outbox.CountingOutbox(Producer(NOWHERE))
        wakeups = kept.wakeups(asyncio.get_running_loop(), lambda: None)
        own = wakeups._start
        wakeups.close()
        other = fcntl.fcntl(start, fcntl.F_DUPFD_CLOEXEC, own)  # of this number if it is free
        if other == own:
            break
        os.close(other)
    else:
        pytest.fail("the number of the closed file is never free")
    try:
        kept.put("topic", -1, None, b"", None)
        kept.client.purge()
        wait_until(lambda: kept.reports()[0], "the report")
        with pytest.raises(BlockingIOError):
            os.read(end, 1)
        wakeups.close()  # once more: closes no file of somebody else either
        assert os.write(other, b"x") == 1
    finally:
        for file in (end, start, other):
            os.close(file)


async def test_an_outbox_that_is_dropped_writes_to_no_file() -> None:
    producer = Producer(NOWHERE)
    end, start = os.pipe2(os.O_NONBLOCK)
    try:
        made = _produce.Outbox(producer)
        made.wake(start)
        del made
        producer.produce("topic", b"")
        producer.purge()
        wait_until(lambda: not len(producer) or producer.poll(0.01), "the report")
        with pytest.raises(BlockingIOError):
            os.read(end, 1)
    finally:
        os.close(end)
        os.close(start)
