"""The reading thread when Kafka answers nothing (KM-8, KM-16)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer

from bridges.kafka.consume import reader as module
from bridges.kafka.consume.fetch_scheduler import FetchScheduler
from bridges.kafka.consume.protocols import Selection
from bridges.kafka.consume.reader import Fetched, PartitionReader, ReaderOwner
from bridges.kafka.consume.selection import AfterPosition, WithoutAnnotations, matching
from gateway.filters.parse.sql import parse_sql
from gateway.filters.position.event_stream import LogPosition
from gateway.held.logs import QUEUE, LogDemand, LogShare, whole
from tests.support.gateway.process import free_port

KEY = ("orders", 0)


def nobody(*_: object) -> None:
    raise AssertionError("nobody is told")


async def test_a_lost_position_is_asked_for_again_while_nobody_says_where_the_log_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Retention overtakes a link at the moment at which the brokers are away."""
    monkeypatch.setattr(module, "_METADATA_TIMEOUT", 0.05)
    monkeypatch.setattr(module, "_RETRY_PAUSE", 0.0)
    reported: list[str] = []
    owner = ReaderOwner(nobody, nobody, lambda: reported.append("trouble"), nobody)
    settings = {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0}
    reader = PartitionReader(settings, asyncio.get_running_loop(), owner)
    consumer = Consumer({**settings, "group.id": "any"})
    try:
        reader._assign(KEY, 7, consumer)
        fetched = Fetched(1, {}, {}, {})
        reader._position_lost(consumer, KEY, 7, fetched)
        (assigned,) = consumer.assignment()
        assert (assigned.topic, assigned.partition, assigned.offset) == (*KEY, 7)
        assert fetched.lost == {}
        await asyncio.sleep(0)
        assert reported == ["trouble"]
    finally:
        consumer.close()


class Died:
    """A reader whose thread may end by itself."""

    def __init__(self, owner: ReaderOwner) -> None:
        self.owner = owner
        self.added: list[tuple[Any, int]] = []
        self.filtered: dict[Any, bool] = {}

    def add(self, key: Any, position: int) -> int:
        self.added.append((key, position))
        return 0

    def set_filtered(self, key: Any, filtered: bool) -> None:
        self.filtered[key] = filtered

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Waits:
    def arrived(self, partition: int) -> None: ...
    def lost(self, partition: int, low: int) -> None: ...
    def failed(self, error: object) -> None: ...


def test_another_thread_reads_on_when_one_has_died() -> None:
    readers: list[Died] = []
    later: list[Callable[[], None]] = []

    def new(owner: ReaderOwner) -> Any:
        readers.append(Died(owner))
        return readers[-1]

    streams = FetchScheduler(
        new, nobody, lambda _, call, *args: later.append(lambda: call(*args)), share=whole(LogDemand(1000, 4)),
        trouble=nobody, gone=nobody,
    )  # fmt: skip
    member = Waits()
    log = streams.join("orders", 0, member)
    assert log.take(5, member) is None
    (first,) = readers
    first.owner.ended(first)  # type: ignore[arg-type]
    assert len(readers) == 1, "not at once: what it died of may still be there"
    later.pop()()
    assert readers[1].added == [(("orders", 0), 5)]


def test_a_thread_is_told_whether_every_link_filters() -> None:
    readers: list[Died] = []

    def new(owner: ReaderOwner) -> Any:
        readers.append(Died(owner))
        return readers[-1]

    streams = FetchScheduler(new, nobody, nobody, share=whole(LogDemand(1000, 4)), trouble=nobody, gone=nobody)
    member, other = Waits(), ("orders", 1)
    red = matching(parse_sql("color = 'red'"))
    unfiltered: list[Selection | None] = [None, WithoutAnnotations(None), AfterPosition(LogPosition())]
    log, more = streams.join("orders", 0, member), streams.join(*other, member)
    more.add_selection(None)
    for each in (log, more):
        assert each.take(5, member) is None
    (reader,) = readers
    log.add_selection(red)
    log.add_selection(WithoutAnnotations(red))
    for selection in unfiltered:
        assert reader.filtered == {KEY: True, other: False}
        for _ in range(2):
            log.add_selection(selection)
        log.remove_selection(selection)
        assert reader.filtered == {KEY: False, other: False}
        log.remove_selection(selection)
    log.remove_selection(red)
    assert reader.filtered == {KEY: True, other: False}


class Gated(Died):
    """A reader that remembers its gate and what it was to rest."""

    def __init__(self, owner: ReaderOwner) -> None:
        super().__init__(owner)
        self.closed = False
        self.paused: dict[Any, bool] = {}

    def gate(self, *, closed: bool) -> None:
        self.closed = closed

    def pause(self, key: Any, paused: bool) -> None:
        self.paused[key] = paused


class Record(bytes):
    def offset(self) -> int:
        return 0


def test_what_all_streams_read_ahead_is_bounded_together() -> None:
    """Many links at places of their own, each with one batch that it has not picked: none reads another."""
    readers: list[Gated] = []
    soon: list[Callable[[], None]] = []

    def new(owner: ReaderOwner) -> Any:
        readers.append(Gated(owner))
        return readers[-1]

    streams = FetchScheduler(
        new, lambda call, *args: soon.append(lambda: call(*args)), nobody, share=LogShare(70_000, 70_000, 2, QUEUE),
        trouble=nobody, gone=nobody,
    )  # fmt: skip
    members = {number: Waits() for number in range(40)}
    logs = {number: streams.join("orders", number, member) for number, member in members.items()}
    for number, member in members.items():
        assert logs[number].take(0, member) is None
    (reader,) = readers
    for number in members:
        came = Fetched(1, {("orders", number): [Record(1000)]}, {}, {})
        reader.owner.arrived(reader, came)  # type: ignore[arg-type]
        assert streams.over_limit is (number >= 23)
    assert reader.closed
    assert any(reader.paused.values())
    for number in range(20):
        assert logs[number].take(0, members[number]) is not None
    while soon:
        soon.pop()()
    assert not streams.over_limit
    assert not reader.closed
    assert not any(reader.paused.values())
    for number, member in members.items():
        streams.leave(logs[number], member, 1)
    assert (streams.states()["ahead_bytes"], streams.states()["cached_bytes"]) == (0, 0)
