"""Events that are read again: few of them without what follows them in the log, many as links read it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridges.cloudevents.delivery.entry import EventLocation
from bridges.cloudevents.events.event import CloudEvent, event_of
from bridges.cloudevents.reading.refetch_reader import RefetchReader
from bridges.kafka.clusters.cluster import COMMITTED
from bridges.kafka.consume.fetch_scheduler import FetchScheduler
from bridges.kafka.records.record import KafkaRecord
from gateway.held.logs import SINGLE
from tests.support.cloudevents.delivery import ADDRESS, Topic, until

EVENTS = 400
BEHIND = "x" * 4000
"""In the id of each event: 1.6 MB follow the first one."""


class Requests:
    """The queue and the listener of a reader; `came` are the offsets that it has read."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.reader: Any = None

    def refetched(self, location: EventLocation, event: CloudEvent | None, size: int) -> bool:
        assert event is not None
        assert event.attributes["id"] == f"{location.offset}-{BEHIND}"
        self.came.append(location.offset)
        return True

    def event_of(self, record: KafkaRecord, address: str) -> CloudEvent | None:
        return event_of(record, address, wrap=False)

    def wake(self) -> None:
        self.reader.read()

    async def read(self, *offsets: int) -> list[int]:
        """What comes when these are requested together."""
        self.came = []
        self.reader.request([EventLocation(ADDRESS, 0, offset) for offset in offsets])
        self.reader.read()
        await until(lambda: len(self.came) == len(offsets))
        return self.came


@pytest.fixture
async def topic() -> AsyncIterator[Topic]:
    made = Topic(partitions=1)
    yield made
    await made.close()


class Sizes:
    """The bytes of the largest batch that a scheduler was given."""

    def __init__(self, scheduler: FetchScheduler) -> None:
        self.largest = 0
        add = scheduler._add_batch

        def added(position: Any, end: int, records: Any) -> None:
            self.largest = max(self.largest, sum(map(len, records)))
            add(position, end, records)

        scheduler._add_batch = added  # type: ignore[method-assign]


async def test_few_events_are_read_without_what_follows_them_and_many_as_a_log(topic: Topic) -> None:
    await topic.produce([("k", f"{number}-{BEHIND}") for number in range(EVENTS)])
    log, requests = topic.bridge.log(topic.route), Requests()
    found = await log.find()
    reader = requests.reader = RefetchReader(ADDRESS, log, found, requests, requests)  # type: ignore[arg-type]
    many, single = (topic.bridge.cluster.scheduler_of(COMMITTED, single=each) for each in (False, True))
    sizes = Sizes(single)
    assert await requests.read(0) == [0]
    assert 4000 <= sizes.largest <= SINGLE.batch + 5000
    assert await requests.read(300, 7) == [7, 300]
    await until(lambda: single.states()["readers"] == 0)
    assert (many.readers, single.states()["client_bytes"]) == ([], 0)
    assert await requests.read(*range(100, 200)) == list(range(100, 200))
    reader.close()
    await until(lambda: many.states()["readers"] == 0)


async def test_an_event_that_somebody_has_just_read_is_not_read_from_kafka(topic: Topic) -> None:
    await topic.produce([("k", f"{number}-{BEHIND}") for number in range(4)])
    log, requests, other = topic.bridge.log(topic.route), Requests(), Requests()
    found = await log.find()
    requests.reader = RefetchReader(ADDRESS, log, found, requests, requests)  # type: ignore[arg-type]

    class Reads:
        def on_records(self, partition: int) -> None:
            other.came.append(partition)

    tap = log.tap(found, Reads())  # type: ignore[arg-type]
    assert tap.take(0, 0) is None
    await until(lambda: other.came)
    assert tap.take(0, 0) is not None
    assert await requests.read(3) == [3]
    single = topic.bridge.cluster.scheduler_of(COMMITTED, single=True)
    assert single.readers == []
    requests.reader.close()
    tap.close()
