"""The states of subscriptions: their numbers, kept with each change, and since when."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

import pytest

from bridges.cloudevents.delivery.answers import DONE, Answer, DeliveryOutcome
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.dispatch.dispatcher import SubscriptionDispatcher
from bridges.cloudevents.dispatch.stored.checkpoint_record import BUCKETS
from bridges.cloudevents.model.values import SinkProtocol, SinkUri
from tests.support.cloudevents.delivery import ADDRESS, LATEST, Subscribed, Topic, reported, until

NAMES = ("active", "gone", "failing", "held")
ANSWERS = {
    "gone": Answer(DeliveryOutcome.GONE, "410", 410),
    "failing": Answer(DeliveryOutcome.SINK_FAILED, "503", 503),
}


@pytest.fixture
async def topic() -> AsyncIterator[Topic]:
    made = Topic(partitions=1)
    yield made
    await made.close()


def subscribed(name: str) -> Subscribed:
    """To a sink of its own, whose breaker stops nobody else."""
    return Subscribed(name, sink=SinkUri(f"http://{name}/in", "http", ((name, 80),), "/in", ""))


def answer_as(topic: Topic, answers: Mapping[str, Answer]) -> None:
    """Let the sink of each subscription answer so; the others take what they get."""
    topic.scripts = {name: partial(lambda answer, attempt: answer, answer) for name, answer in answers.items()}


def walked(dispatcher: SubscriptionDispatcher) -> Counter[tuple[SinkProtocol, DeliveryState]]:
    """The numbers, from each subscription by itself."""
    known = [name for name in NAMES if dispatcher.state(name) is not None]
    return Counter((SinkProtocol.HTTP, dispatcher.state(name)) for name in known)


async def test_the_numbers_follow_each_change(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    await until(lambda: dispatcher.valid)
    for name in NAMES:
        await topic.subscribe(dispatcher, subscribed(name), Reason.CONSENT if name == "held" else None)
    wanted = [DeliveryState.ACTIVE, DeliveryState.ACTIVE, DeliveryState.ACTIVE, DeliveryState.PENDING]
    assert dispatcher.observer.states() == Counter((SinkProtocol.HTTP, state) for state in wanted)
    answer_as(topic, ANSWERS)
    wanted = [DeliveryState.ACTIVE, DeliveryState.SUSPENDED, DeliveryState.FAILING, DeliveryState.PENDING]
    await topic.produce([("k", "e-1")])
    expected = Counter((SinkProtocol.HTTP, state) for state in wanted)
    await until(lambda: dispatcher.observer.states() == expected, "each to be in its state")
    assert walked(dispatcher) == expected
    assert dispatcher.observer.suspended() == {Reason.GONE: 1, Reason.CONSENT: 1}

    assert await dispatcher.resume("gone")
    answer_as(topic, {})
    await until(lambda: dispatcher.observer.states()[SinkProtocol.HTTP, DeliveryState.ACTIVE] == 3, "all to recover")
    assert walked(dispatcher) == dispatcher.observer.states()

    dispatcher.on_lost(range(BUCKETS))
    assert walked(dispatcher) == dispatcher.observer.states()
    assert dispatcher.observer.suspended() == {Reason.CONSENT: 1}
    for name in NAMES:
        await dispatcher.remove(name)
    assert (dispatcher.observer.states(), dispatcher.observer.suspended()) == ({}, {})


async def test_a_suspension_keeps_its_time_when_another_gateway_takes_over(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has ended is deleted some time after its end, however often gateways restart."""
    begun = 1_800_000_000_000
    monkeypatch.setattr("bridges.cloudevents.dispatch.worker._now_ms", lambda: begun)
    topic.script = lambda attempt: ANSWERS["gone"]
    first = topic.dispatcher()
    await until(lambda: first.valid)
    starts = await topic.subscribe(first, Subscribed("gone"))
    await topic.produce([("k", "e-1")])
    await until(lambda: first.state("gone") is DeliveryState.SUSPENDED)
    await first.close()

    monkeypatch.setattr("bridges.cloudevents.dispatch.worker._now_ms", lambda: begun + 3_600_000)
    second = topic.dispatcher()
    await until(lambda: second.valid)
    await second.put(Subscribed("gone"), 1, starts)
    await topic.produce([("k", "e-2")])
    await until(lambda: second.state("gone") is DeliveryState.SUSPENDED)
    status = await second.status("gone")
    assert status is not None
    assert status.since == begun


async def test_an_end_does_not_blame_the_sink(topic: Topic) -> None:
    """`maxevents: 503 from the sink`, said the status of one that had got all of its events."""
    answers = iter((ANSWERS["failing"], DONE))
    topic.script = lambda attempt: next(answers)
    dispatcher = topic.dispatcher()
    await until(lambda: dispatcher.valid)
    await topic.subscribe(dispatcher, Subscribed("few", config=LATEST._replace(max_events=1)))
    await topic.produce([("k", "e-1")])
    status = await reported(dispatcher, "few", lambda status: status.state is DeliveryState.ENDED)
    assert (status.reason, status.detail) == (Reason.MAX_EVENTS, "")


async def test_dead_letters_that_cannot_be_written_are_a_failure(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a window of refused events waits for its copies, nothing is delivered any more."""
    copies = list[tuple[Callable[[bool], None], Callable[[], bool]]]()
    dispatcher = topic.dispatcher()
    monkeypatch.setattr(dispatcher._dead_letters, "write", lambda *about: copies.append(about[-2:]))
    topic.script = lambda attempt: Answer(DeliveryOutcome.REFUSED, "400", 400)
    await until(lambda: dispatcher.valid)
    await topic.subscribe(dispatcher, Subscribed("s"))
    await topic.produce([("k", "e-1"), ("l", "e-2")])
    await until(lambda: len(copies) == 2)
    assert dispatcher.state("s") is DeliveryState.ACTIVE, "they are being written"

    assert all(retries() for _, retries in copies)
    await until(lambda: dispatcher.state("s") is DeliveryState.FAILING)
    status = await dispatcher.status("s")
    assert status is not None
    assert status.detail == f"the dead letters of {ADDRESS} cannot be written"
    assert dispatcher.observer.states() == {(SinkProtocol.HTTP, DeliveryState.FAILING): 1}

    copies[0][0](True)
    assert dispatcher.state("s") is DeliveryState.FAILING
    copies[1][0](True)
    await until(lambda: dispatcher.observer.states() == {(SinkProtocol.HTTP, DeliveryState.ACTIVE): 1})
    await dispatcher.remove("s")
    assert not copies[0][1](), "nobody waits for it"
