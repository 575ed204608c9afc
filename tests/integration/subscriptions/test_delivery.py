"""Subscriptions delivered from an embedded Kafka to scripted sinks: nothing lost, in order, on from where they were."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from bridges.cloudevents.delivery.answers import DONE, Answer, DeliveryOutcome
from bridges.cloudevents.delivery.positions import Position
from bridges.cloudevents.delivery.sink import SendAttempt
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.dispatch.dispatcher import SubscriptionDispatcher
from bridges.cloudevents.events.dialects import types
from bridges.cloudevents.model.values import (
    FromEarliest,
    FromOffsets,
    InvalidSubscription,
    RetryLimits,
    SinkUri,
    SubscriptionConfig,
)
from bridges.cloudevents.reading.stream_reader import PartitionCursor
from tests.support.cloudevents.delivery import ADDRESS, Subscribed, Topic, reported, settings, until
from tests.support.gateway.process import PATIENCE

EARLIEST = SubscriptionConfig(None, FromEarliest(), None, None)
DOWN = Answer(DeliveryOutcome.FAILED, "no answer", reached=False)
REFUSED = Answer(DeliveryOutcome.REFUSED, "422", 422)


@pytest.fixture
async def topic() -> AsyncIterator[Topic]:
    """A topic with two partitions."""
    made = Topic()
    yield made
    await made.close()


async def test_events_from_now_on_arrive_once_each_and_in_order(topic: Topic) -> None:
    await topic.produce([("k", "before")])
    dispatcher = topic.dispatcher()
    await topic.subscribe(dispatcher, Subscribed("a"))
    await topic.produce([("k", str(number)) for number in range(50)])
    await topic.produce([("l", f"l{number}") for number in range(50)], partition=1)
    await until(lambda: len(topic.ids("a")) == 100)
    ids = topic.ids("a")
    assert [id for id in ids if not id.startswith("l")] == [str(number) for number in range(50)]
    assert [id for id in ids if id.startswith("l")] == [f"l{number}" for number in range(50)]
    status = await reported(dispatcher, "a", lambda status: (status.events["delivered"], status.lag) == (100, 0))
    assert (status.state, status.delivered_here) == (DeliveryState.ACTIVE, True)
    assert status.positions == {"events/orders": {0: 51, 1: 50}}


async def test_what_the_filter_does_not_want_is_passed_over(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    await topic.subscribe(dispatcher, Subscribed("a", filter=types(["other"])))
    await topic.subscribe(dispatcher, Subscribed("b", filter=types(["t"])))
    await topic.produce([("k", "1")])
    await until(lambda: topic.ids("b"))
    await reported(dispatcher, "a", lambda status: status.positions["events/orders"][0] == 1)
    assert topic.ids("a") == []


async def test_a_new_process_goes_on_where_the_old_one_ended(topic: Topic) -> None:
    subscription = Subscribed("a", config=EARLIEST)
    first = topic.dispatcher()
    starts = await topic.subscribe(first, subscription)
    await topic.produce([("k", str(number)) for number in range(20)])
    await until(lambda: len(topic.ids("a")) == 20)
    await first.close()
    await topic.produce([("k", str(number)) for number in range(20, 30)])
    second = topic.dispatcher()
    await second.put(subscription, 1, starts)
    await until(lambda: len(topic.ids("a")) >= 30)
    assert topic.ids("a") == [str(number) for number in range(30)]


async def test_a_subscription_begins_at_offsets_that_the_log_has(topic: Topic) -> None:
    await topic.produce([("k", str(number)) for number in range(5)])
    starts = await topic.starts(FromOffsets({0: 3}))
    assert starts.streams[ADDRESS].offsets == {0: 3, 1: 0}
    assert (await topic.starts(FromOffsets({0: 5}))).streams[ADDRESS].offsets[0] == 5
    with pytest.raises(InvalidSubscription) as caught:
        await topic.starts(FromOffsets({0: 6, 2: 0}))
    assert caught.value.mistakes == (
        ("/config/start/0", "the partition ends at 00000000000000000005"),
        ("/config/start/2", "no such partition; the stream has 2"),
    )


async def test_a_failing_event_is_repeated_and_holds_up_its_key_alone(topic: Topic) -> None:
    failed: list[str] = []

    def script(attempt: SendAttempt) -> Answer:
        if attempt.events[0].attributes["id"] == "a0" and len(failed) < 3:
            failed.append("a0")
            return Answer(DeliveryOutcome.FAILED, "500", 500)
        return DONE

    topic.script = script
    dispatcher = topic.dispatcher()
    await topic.subscribe(dispatcher, Subscribed("s"))
    await topic.produce([(key, f"{key}{number}") for number in range(10) for key in "ab"])
    await until(lambda: "a9" in topic.ids("s"))
    ids = topic.ids("s")
    assert [id for id in ids if id[0] == "a"] == ["a0"] * 4 + [f"a{number}" for number in range(1, 10)]
    assert [id for id in ids if id[0] == "b"] == [f"b{number}" for number in range(10)]


async def test_a_sink_that_is_away_holds_nothing_and_gets_all_afterwards(topic: Topic) -> None:
    topic.script = lambda attempt: DOWN
    dispatcher = topic.dispatcher()
    await topic.subscribe(dispatcher, Subscribed("s"))
    await topic.produce([(str(number % 7), str(number)) for number in range(500)])
    await until(lambda: len(topic.ids("s")) > 20)
    await reported(dispatcher, "s", lambda status: status.state is DeliveryState.FAILING)
    await until(lambda: dispatcher._workers["s"].queue.buffered_bytes < 2 * 2048)
    down, topic.script = len(topic.ids("s")), lambda attempt: DONE
    await until(lambda: len(set(topic.ids("s")[down:])) == 500)
    after = topic.ids("s")[down:]
    for key in range(7):
        assert list(dict.fromkeys(id for id in after if int(id) % 7 == key)) == [str(n) for n in range(key, 500, 7)]
    status = await dispatcher.status("s")
    assert status is not None
    assert status.events["refused"] == 0


async def test_refused_events_are_dead_letters_and_too_many_suspend() -> None:
    topic = Topic(1, dead_letter="orders.dlq")
    topic.script = lambda attempt: REFUSED if int(attempt.events[0].attributes["id"]) % 3 == 0 else DONE
    dispatcher = topic.dispatcher(refusals=5)
    await topic.subscribe(dispatcher, Subscribed("s", delivery=settings("partition")))
    await topic.produce([(None, str(number)) for number in range(9)])
    counts = dispatcher._workers["s"].counts
    await until(lambda: (counts.deadlettered, counts.delivered) == (3, 6))
    assert dispatcher._workers["s"].queue.unfinished("events/orders", 0) == []
    topic.script = lambda attempt: REFUSED
    await topic.produce([(None, str(number)) for number in range(9, 30)])
    await until(lambda: dispatcher._workers["s"].state is DeliveryState.SUSPENDED)
    status = await dispatcher.status("s")
    assert status is not None
    assert status.reason is Reason.REFUSALS
    assert status.events["refused"] == 3 + 4
    topic.script = lambda attempt: DONE
    assert await dispatcher.resume("s")
    await until(lambda: dispatcher._workers["s"].counts.delivered == 6 + 17)
    await topic.close()


async def test_an_update_keeps_the_position_and_leaves_the_old_sink(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    starts = await topic.subscribe(dispatcher, Subscribed("s"))
    await topic.produce([("k", str(number)) for number in range(30)])
    await until(lambda: len(topic.ids("s")) > 3)
    await dispatcher.put(Subscribed("s", owner="bob"), 2, starts)
    assert topic.sinks[0].closed
    await until(lambda: set(topic.ids("s")) == {str(number) for number in range(30)})
    assert list(dict.fromkeys(topic.ids("s"))) == [str(number) for number in range(30)]


async def test_one_made_again_with_the_same_id_begins_at_its_own_ends(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    topic.script = lambda attempt: DOWN
    await topic.subscribe(dispatcher, Subscribed("s"))
    await topic.produce([("k", "old")])
    await until(lambda: topic.ids("s"))
    await dispatcher.remove("s")
    assert await dispatcher.status("s") is None
    topic.heard.clear()
    topic.script = lambda attempt: DONE
    await topic.subscribe(dispatcher, Subscribed("s"))
    await topic.produce([("k", "new")])
    await until(lambda: topic.ids("s"))
    assert topic.ids("s") == ["new"]


@pytest.mark.row("CE-P-1")
async def test_each_of_a_thousand_keys_arrives_in_order_though_attempts_fail(topic: Topic) -> None:
    draw = random.Random(17)
    topic.script = lambda attempt: Answer(DeliveryOutcome.FAILED, "500", 500) if draw.random() < 0.05 else DONE
    dispatcher = topic.dispatcher()
    retry = RetryLimits(0.01, 0.05, 1000, 3600)
    await topic.subscribe(dispatcher, Subscribed("s", delivery=settings("key", window=256, retry=retry)))
    await topic.produce([(f"k{number % 1000}", str(number)) for number in range(3000)])
    await until(lambda: dispatcher._workers["s"].counts.delivered == 3000)
    keys: dict[int, list[int]] = {}
    for id in dict.fromkeys(topic.ids("s")):
        keys.setdefault(int(id) % 1000, []).append(int(id))
    assert len(keys) == 1000
    assert all(ids == sorted(ids) and len(ids) == 3 for ids in keys.values())
    assert dispatcher._workers["s"].counts.repeated > 50


@pytest.mark.row("CE-3.2.1-9")
async def test_what_was_under_way_at_a_crash_is_sent_again_before_newer_events_of_its_key(topic: Topic) -> None:
    topic.script = lambda attempt: None if attempt.events[0].attributes["id"] in ("a0", "b1") else DONE
    first = topic.dispatcher()
    starts = await topic.subscribe(first, Subscribed("s"))
    await topic.produce([(key, f"{key}{number}") for number in range(4) for key in "ab"])
    await topic.produce([("c", f"c{number}") for number in range(100)])
    await until(lambda: "c99" in topic.ids("s"))
    crashed = topic.dispatchers.pop()
    await until(lambda: not crashed._changed and not crashed._advanced)
    crashed.on_lost(range(64))  # no word more of it
    for task in crashed._tasks:
        task.cancel()
    topic.script, before = lambda attempt: DONE, len(topic.ids("s"))
    second = topic.dispatcher()
    await second.put(Subscribed("s"), 1, starts)
    await until(lambda: {"a3", "b3"} <= set(topic.ids("s")))
    assert sorted(topic.ids("s")[before:]) == ["a0", "a1", "a2", "a3", "b1", "b2", "b3"]
    assert [id for id in topic.ids("s")[before:] if id[0] == "a"] == ["a0", "a1", "a2", "a3"]


async def test_events_in_memory_are_on_the_account_of_held_bytes_and_bounded(topic: Topic) -> None:
    topic.script = lambda attempt: None
    topic.slots = 1000
    dispatcher, before = topic.dispatcher(max_buffered_bytes=20_000), topic.bridge.held
    for number in range(4):
        await topic.subscribe(dispatcher, Subscribed(f"s{number}", delivery=settings("partition", window=50)))
    await topic.produce([(None, str(number)) for number in range(200)])
    await until(lambda: all(topic.ids(f"s{number}") for number in range(4)))
    await until(lambda: 0 < dispatcher._buffered_bytes() <= 20_000)
    assert topic.bridge.held > before
    answered, topic.script = list(topic.sinks), lambda attempt: DONE
    for sink in answered:
        for attempt in list(sink.waiting.values()):
            sink.answer(attempt, DONE)
    await until(lambda: all(len(topic.ids(f"s{number}")) == 200 for number in range(4)))


async def test_a_renewed_token_does_not_end_a_suspension_and_an_update_does(topic: Topic) -> None:
    topic.script = lambda attempt: Answer(DeliveryOutcome.GONE, "410", 410)
    dispatcher = topic.dispatcher()
    starts = await topic.subscribe(dispatcher, Subscribed("s"))
    await topic.produce([("k", "1")])
    await until(lambda: dispatcher.state("s") is DeliveryState.SUSPENDED)
    topic.script = lambda attempt: DONE
    for revision, edition, state in ((2, 1, DeliveryState.SUSPENDED), (3, 2, DeliveryState.ACTIVE)):
        await dispatcher.put(Subscribed("s"), revision, starts, None, edition)
        status = await dispatcher.status("s")
        assert status is not None
        assert (status.state, status.applied_revision) == (state, revision)
    await until(lambda: topic.ids("s") == ["1", "1"])


async def test_a_renewed_token_is_used_after_a_lost_lease(topic: Topic) -> None:
    """The refresh token of the version before may be good for one use only."""
    dispatcher = topic.dispatcher()
    await topic.subscribe(dispatcher, Subscribed("s"))
    await until(lambda: "s" in dispatcher._workers)
    worker, renewed = dispatcher._workers["s"], Subscribed("s")
    dispatcher.renew(renewed, 2)
    assert dispatcher._workers["s"] is worker, "it goes on: it has asked for the renewal itself"
    dispatcher.reconfigure(dispatcher._settings._replace(slices=5))  # all leases end, and are taken anew
    await until(lambda: dispatcher._workers.get("s", worker) is not worker)
    assert dispatcher._workers["s"].subscription is renewed
    dispatcher.renew(Subscribed("unknown"), 3)
    assert await dispatcher.status("unknown") is None


async def test_a_dead_letter_tells_subscription_sink_attempts_and_status() -> None:
    topic = Topic(1, dead_letter="orders.dlq")
    topic.script = lambda attempt: REFUSED
    dispatcher = topic.dispatcher()
    sink = SinkUri("http://sink/in?token=7", "http", (("sink", 80),), "/in", "token=7")
    await topic.subscribe(dispatcher, Subscribed("s", sink=sink))
    await topic.produce([("k", "1")])
    await until(lambda: dispatcher._workers["s"].counts.deadlettered == 1)

    def dead_letter() -> dict[str, bytes]:
        consumer = Consumer({"bootstrap.servers": topic.bridge.bootstrap, "group.id": "x", "log_level": 0})
        consumer.assign([TopicPartition("orders.dlq", 0, 0)])
        (record,) = consumer.consume(1, PATIENCE)
        consumer.close()
        return {name: content or b"" for name, content in record.headers() or []}

    headers = await asyncio.to_thread(dead_letter)
    reported = {name: headers[f"amqp.dead-letter.{name}"] for name in ("subscription", "sink", "attempts", "status")}
    assert reported == {"subscription": b"s", "sink": b"http://sink/in", "attempts": b"1", "status": b"422"}
    await topic.close()


async def test_events_under_way_are_not_sent_twice_when_a_stream_can_be_read_again(topic: Topic) -> None:
    topic.script = lambda attempt: None
    dispatcher = topic.dispatcher()
    await topic.subscribe(dispatcher, Subscribed("a"))
    await topic.produce([(f"k{number % 3}", str(number)) for number in range(6)])
    await until(lambda: len(topic.ids("a")) == 3)  # the first of each key
    worker = dispatcher._workers["a"]
    worker.on_stream_failed(ADDRESS)  # as when Kafka refuses the gateway the right to read
    assert worker.positions()[ADDRESS].positions[0].unfinished == tuple(range(6))
    await until(lambda: worker._streams.reader(ADDRESS))
    assert worker.positions()[ADDRESS].positions[0].unfinished == tuple(range(6))
    topic.script = lambda attempt: DONE
    for attempt in [*topic.sinks[-1].waiting.values()]:
        topic.sinks[-1].answer(attempt, DONE)
    await topic.produce([("k0", "6")])
    await until(lambda: "6" in topic.ids("a"))
    assert sorted(topic.ids("a")) == [str(number) for number in range(7)]
    status = await reported(dispatcher, "a", lambda status: status.events["delivered"] == 7)
    assert (status.events["matched"], status.positions) == (7, {ADDRESS: {0: 7, 1: 0}})


async def test_an_event_counts_as_matched_once_whatever_interrupts_its_delivery(topic: Topic) -> None:
    topic.script = lambda attempt: DOWN
    dispatcher = topic.dispatcher()
    starts = await topic.subscribe(dispatcher, Subscribed("a"))
    await topic.produce([(f"k{number % 3}", str(number)) for number in range(9)])
    await reported(dispatcher, "a", lambda status: status.state is DeliveryState.FAILING)
    for revision in range(2, 5):
        await dispatcher.put(Subscribed("a"), revision, starts)
        await until(lambda: not any(cursor.unfinished for cursor in _cursors(dispatcher)))
    topic.script = lambda attempt: DONE
    status = await reported(dispatcher, "a", lambda status: status.events["delivered"] == 9)
    assert status.events["matched"] == 9


def _cursors(dispatcher: SubscriptionDispatcher) -> list[PartitionCursor]:
    reader = dispatcher._workers["a"]._streams.reader(ADDRESS)
    return [PartitionCursor(Position(0, (0,)))] if reader is None else reader._partitions


async def test_a_change_waits_for_the_dead_letters_that_are_being_written() -> None:
    topic = Topic(1, dead_letter="orders.dlq")
    try:
        topic.script = lambda attempt: REFUSED
        dispatcher = topic.dispatcher()
        starts = await topic.subscribe(dispatcher, Subscribed("a"))
        refused = asyncio.Event()
        worker = dispatcher._workers["a"]
        copy = dispatcher._dead_letters.write
        dispatcher._dead_letters.write = lambda *about: (refused.set(), copy(*about))  # type: ignore[method-assign]
        await topic.produce([("k", "0")])
        await refused.wait()
        await dispatcher.put(Subscribed("a"), 2, starts)
        assert (worker.counts.refused, worker.counts.deadlettered) == (1, 1)
        assert dispatcher._workers["a"].positions()[ADDRESS].positions[0].unfinished == ()
    finally:
        await topic.close()
