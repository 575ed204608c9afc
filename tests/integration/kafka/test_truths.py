"""Event logs whose topic changes or ends, and links that settle nothing (C11, C12, C17, B15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from bridges.kafka.admin.client import Admin, Bounds
from bridges.kafka.clusters.cluster import ClusterConfig
from bridges.kafka.links import receiver as receiver_module
from gateway.amqp.codec.types import Long, Symbol, Timestamp, Ulong
from gateway.errors import INTERNAL_ERROR, INVALID_FIELD, RESOURCE_DELETED, AmqpError
from gateway.state.leases.store import StoreUnavailable
from gateway.state.redis import RedisState
from gateway.state.termini.store import TerminiUnavailable
from gateway.tasks import Supervisor, until
from policies.model.scopes.reading import LogReadingRule
from tests.support.amqp.messages import message
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.streams import Route, Streams, bodies, fill, position
from tests.support.servers.servers import Redis


@pytest.fixture
async def local() -> AsyncIterator[Streams]:
    """A bridge on the embedded Kafka with the topics `solo` (1 partition) and `orders` (3)."""
    found = Streams(ClusterConfig(topics={"solo": 1, "orders": 3}, refresh=0.2, retry=0.1, timeout=10))
    yield found
    await found.close()


@pytest.mark.row("ES-6-1")
async def test_an_info_link_ends_with_its_topic(local: Streams) -> None:
    info = await local.receiver("solo/$info", credit=1)
    await info.receive()
    local.bridge.cluster._topics.gone("solo")
    assert (await info.end()).condition == RESOURCE_DELETED


@pytest.mark.row("ES-5.2.1-6")
@pytest.mark.parametrize("name", ["event-streams-offset", "event-streams-timestamp"])
async def test_a_position_of_null_is_refused(local: Streams, name: str) -> None:
    """It is neither a symbol nor a timestamp; treated as a missing position, it would deliver the whole log."""
    await fill(local, "solo", 1)
    with pytest.raises(AmqpError) as caught:
        await local.receiver("solo", filter=position(**{name: None}))
    assert caught.value.condition == INVALID_FIELD


@pytest.mark.row("ES-4.6.3-1")
@pytest.mark.parametrize(("epoch", "taken"), [(Long(3), True), (Ulong(3), True), (Timestamp(3), False), (True, False)])
async def test_an_epoch_is_an_integer_and_no_timestamp(local: Streams, epoch: Any, taken: bool) -> None:
    asked = {Symbol("event-streams-consumer-group"): f"g{taken}", Symbol("event-streams-epoch"): epoch}
    if taken:
        answer = await local.receiver("solo", properties=asked)
        assert answer.link.properties["event-streams-epoch"] == Long(3)
        return
    with pytest.raises(AmqpError) as caught:
        await local.receiver("solo", properties=asked)
    assert caught.value.condition == INVALID_FIELD


async def test_a_link_that_settles_nothing_is_logged_and_counted(
    local: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_module, "_MAX_HELD", 5_000)
    sender = await local.sender("solo")
    for _ in range(10):
        await sender.send(message(b"x" * 2_000))
    with capture_logs() as lines:
        greedy = await local.receiver("solo", credit=1, after="@earliest")
        got = await greedy.receive(1, None)
        for _ in range(2):
            greedy.link.grant(1)
            got += await greedy.receive(1, None)
        greedy.link.grant(5)
        await until(lambda: local.bridge.counts()["held_back"], PATIENCE)
    (line,) = [line for line in lines if line["event"] == "link paused until it settles deliveries"]
    assert line["topic"] == "solo"
    assert line["limit"] == 5_000
    assert greedy.messages.empty()


async def test_what_was_deleted_is_not_handed_out_of_the_cache(local: Streams) -> None:
    """The log now starts later: a query of its bounds has updated the cache."""
    await fill(local, "solo", 10)
    keeps = await local.receiver("solo", credit=10, after="@earliest")
    assert bodies(await keeps.receive(10)) == list(range(10))
    streams = local.bridge.cluster.scheduler
    (log,) = [log for log in streams._buffers.values() if log.topic == "solo"]
    assert log.find(0) is not None
    bounds = local.bridge.cluster._admin.bounds
    local.bridge.cluster._admin.bounds = lambda *given, **more: {  # type: ignore[method-assign]
        partition: Bounds(7, found.high) for partition, found in bounds(*given, **more).items()
    }
    async with asyncio.timeout(PATIENCE):
        while log.find(0) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert log.find(0) is None
    assert streams.states()["cached_bytes"] == sum(batch.size for batch in log._batches.values())


class Young:
    """A broker that does not know a topic's partitions for the first few queries."""

    def __init__(self, refusals: int, code: int) -> None:
        self.refusals, self.code = refusals, code

    def answer(self, *_: Any) -> dict[int, int]:
        if self.refusals:
            self.refusals -= 1
            raise KafkaException(KafkaError(self.code))
        return {0: 5}


@pytest.mark.parametrize(
    ("code", "refusals", "answered"),
    [
        (KafkaError.LEADER_NOT_AVAILABLE, 3, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, 4, True),
        (KafkaError.NOT_LEADER_FOR_PARTITION, 5, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 1, False),
    ],
)
def test_a_topic_that_was_just_made_is_asked_again(
    code: int, refusals: int, answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, timeout=1, plain=False)
    young = Young(refusals, code)
    monkeypatch.setattr(admin, "_list_offsets", young.answer)
    if answered:
        assert admin.bounds("t", [0]) == {0: Bounds(5, 5)}
        return
    with pytest.raises(KafkaException):
        admin.bounds("t", [0])
    assert young.refusals == 0


async def test_records_that_somebody_else_has_written_are_an_answer(
    redis_server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attach with an invalid record of a position or group is answered, and the error names the record."""
    monkeypatch.setattr("gateway.state.redis.TIMEOUT", PATIENCE)
    redis_server.empty()
    supervisor = Supervisor(lambda name, error: None)
    state = RedisState(redis_server.url)
    supervisor.start(state.run(), "state")
    await until(lambda: state.ready()[0], PATIENCE)
    redis_server.command("HSET", "scopegate:terminus:k", "about", "a", "0", "many")
    with pytest.raises(TerminiUnavailable, match="scopegate:terminus:k cannot be read; delete it"):
        await state.termini.acquire("k", "a", None)
    await supervisor.close()
    await state.close()


@pytest.mark.parametrize("text", ["{", "[]", '{"partitions": 1}', '"x"', "7"])
async def test_a_group_that_cannot_be_read_refuses_its_links(
    local: Streams, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = local.bridge._leases._store
    load = board.load

    async def broken(key: str) -> Any:
        return (await load(key))._replace(text=text)

    monkeypatch.setattr(board, "load", broken)
    with pytest.raises(AmqpError) as caught:
        await local.receiver("solo", properties={Symbol("event-streams-consumer-group"): "g"})
    assert caught.value.condition == INTERNAL_ERROR
    with pytest.raises((AmqpError, StoreUnavailable)):
        await local.bridge._leases.view("main/solo/g")


async def test_what_is_read_with_either_isolation_counts_together(local: Streams) -> None:
    local.routes["raw"] = Route("solo", reading=LogReadingRule(isolation="read_uncommitted"))
    await fill(local, "solo", 3)
    for address in ("solo", "raw"):
        reader = await local.receiver(address, after="@earliest", credit=10)
        assert bodies(await reader.receive(3)) == [0, 1, 2]
    assert local.bridge.states()["streams"] == 2


async def test_a_log_has_a_name_of_at_most_249_characters() -> None:
    found = Streams(ClusterConfig(topics={"x" * 249: 1}, timeout=10))
    await found.receiver("x" * 249)
    with pytest.raises(AmqpError, match="an event log cannot have this name"):
        await found.receiver("x" * 250)
    await found.close()
