"""What event logs may take of the memory: shares of clusters, queues of Kafka clients, and turns of links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer

from bridges.kafka.clusters.cluster import COMMITTED, Cluster, ClusterConfig
from bridges.kafka.consume.batches import BatchCache, FetchedBatch, PartitionBuffer
from bridges.kafka.consume.reader import ReaderOwner, bounded
from gateway.held.account import CONNECTION, Budget, HeldBytes, Level, Pool
from gateway.held.container import budget
from gateway.held.logs import COPIES, QUEUE, LogDemand, LogShare, TurnBudget, shares, unlimited, whole
from gateway.tasks import Supervisor
from tests.support.gateway.process import free_port

MIB = 2**20
PLAIN = LogDemand(64 * MIB, 16)
"""What a policy wishes that says nothing of it."""


def test_one_cluster_gets_what_the_policy_says_where_nothing_says_how_much_memory_there_is() -> None:
    assert shares(budget(None, nowhere), {"main": PLAIN}) == {"main": LogShare(64 * MIB, 64 * MIB, 16, QUEUE)}


def nowhere(path: str) -> str:
    raise FileNotFoundError(path)


@pytest.mark.parametrize("count", [1, 2, 5, 9])
@pytest.mark.parametrize("memory", [192, 256, 512, 1024, 4096])
@pytest.mark.parametrize("demand", [PLAIN, LogDemand(512 * MIB, 64), LogDemand(MIB, 1), PLAIN._replace(isolations=2)])
def test_all_clusters_together_take_no_more_than_three_fifths(count: int, memory: int, demand: LogDemand) -> None:
    limit = budget(memory * MIB)
    found = shares(limit, {str(number): demand for number in range(count)})
    least = 4 * MIB * demand.isolations * count
    assert sum(share.size for share in found.values()) * demand.isolations <= max(limit * 3 // 5, least)
    for share in found.values():
        assert 1 <= share.readers <= demand.readers
        assert MIB <= share.queue <= QUEUE
        assert share.cache <= demand.cache


def test_who_wishes_for_more_gets_more() -> None:
    found = shares(budget(512 * MIB), {"large": LogDemand(128 * MIB, 32), "small": PLAIN})
    assert found["large"].cache == pytest.approx(2 * found["small"].cache, rel=0.01)
    assert found["large"].readers == pytest.approx(2 * found["small"].readers, abs=1)


@pytest.mark.parametrize(
    ("given", "queue", "expected"),
    [
        ({}, 3 * MIB, {"queued.max.messages.kbytes": 3072}),
        ({"fetch.max.bytes": "500000"}, 3 * MIB, {"queued.max.messages.kbytes": 3072}),
        ({"fetch.max.bytes": "52428800"}, 3 * MIB, {"queued.max.messages.kbytes": 3072, "fetch.max.bytes": 3 * MIB}),
        (
            {"fetch.max.bytes": "52428800", "message.max.bytes": "12000000"},
            3 * MIB,
            {"queued.max.messages.kbytes": 3072, "fetch.max.bytes": 12_000_000},
        ),
    ],
)
def test_a_client_has_a_queue_and_answers_of_its_share(
    given: dict[str, str], queue: int, expected: dict[str, int]
) -> None:
    assert bounded(given, queue) == expected
    if "fetch.max.bytes" in expected:
        Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "any", "log_level": 0, **given, **expected}).close()


async def test_new_clients_of_a_cluster_follow_what_it_is_told() -> None:
    supervisor = Supervisor(lambda name, error: None)
    config = ClusterConfig(f"127.0.0.1:{free_port()}", {"queued.max.messages.kbytes": "900000"}, plain=True)
    cluster = Cluster("main", config, asyncio.get_running_loop(), supervisor)
    try:
        for queue in (QUEUE, 2 * MIB):
            share = whole(PLAIN)._replace(queue=queue, readers=1)
            cluster.limit(share, unlimited(asyncio.get_running_loop()))
            for streams in (cluster.scheduler, cluster.scheduler_of("read_uncommitted")):
                reader = streams._make_reader(ReaderOwner(*[lambda *_: None] * 4))
                assert reader._settings["queued.max.messages.kbytes"] == queue // 1024
        key = {"topic": "orders", "partition": 0}
        members = [Waits() for _ in range(3)]
        logs = [cluster.scheduler.join(**key, member=member) for member in members]
        for number, log in enumerate(logs):
            log.take(number * 1000, members[number])  # type: ignore[arg-type]
        assert cluster.reading()["readers"] == 1
        assert cluster.held == cluster.reading()["client_bytes"] == 2 * 2 * MIB + 2 * MIB
    finally:
        await cluster.close()
        await supervisor.close()
    assert cluster.scheduler_of(COMMITTED) is cluster.scheduler


class Waits:
    def arrived(self, partition: int) -> None: ...
    def lost(self, partition: int, low: int) -> None: ...
    def failed(self, error: object) -> None: ...


class Record(bytes):
    def __new__(cls, offset: int) -> Record:
        made = super().__new__(cls, 1000)
        made.at = offset
        return made

    at: int

    def offset(self) -> int:
        return self.at


def test_a_cache_gives_up_what_it_may_no_longer_keep() -> None:
    cache = BatchCache(100_000)
    log = PartitionBuffer("orders", 0, cache, lambda log, position: None)
    for start in range(10):
        log.add(batch := FetchedBatch(log, start, start + 1, [Record(start)]))
        cache.use(batch)
    assert log.batch_count == 10
    cache.limit(3 * batch.size)
    assert (log.batch_count, cache.size) == (3, 3 * batch.size)


def test_what_is_kept_of_logs_counts_for_all_and_leaves_the_rest_to_be_shared() -> None:
    budget = Budget(10 * MIB + 2 * CONNECTION)
    mine, other = (budget.open("edge", user, lambda: None, per_user=90 * MIB) for user in ("alice", "bob"))
    other.charge(HeldBytes(unsettled=MIB))
    budget.charge_logs(6 * MIB)
    assert (budget.logs, budget.pool.share) == (6 * MIB, 2 * MIB + CONNECTION // 2)
    mine.charge(HeldBytes(unsettled=MIB))
    assert mine.sending is Level.FREE
    mine.charge(HeldBytes(unsettled=MIB + MIB // 2))
    assert mine.sending is Level.SLOW
    budget.charge_logs(8 * MIB)
    mine.charge(HeldBytes(unsettled=MIB + 2 * CONNECTION))
    assert mine.sending is Level.REFUSE


class Turns:
    """TurnBudget, and the loop's next turn at will."""

    def __init__(self, pool: Pool) -> None:
        self.soon: list[Callable[[], object]] = []
        self.timers: list[Callable[[], object]] = []
        self.charged = 0
        self.budget = TurnBudget(pool, self, self.charge)

    def call_soon(self, callback: Callable[[], object], /) -> None:
        self.soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> None:
        assert delay > 0
        self.timers.append(callback)

    def charge(self) -> None:
        self.charged += 1

    def turn(self, *, timers: bool = False) -> None:
        if timers:
            self.soon += self.timers
            self.timers.clear()
        calls, self.soon[:] = list(self.soon), []
        for call in calls:
            call()


def pool(limit: int, total: int = 0, holders: int = 1) -> Pool:
    made = Pool(limit)
    made.total, made.holders = total, holders
    return made


def test_links_together_are_sent_no_more_than_a_lot_in_a_turn() -> None:
    turns, sent = Turns(pool(128 * MIB)), list[int]()

    def pump(link: int) -> Any:
        size = turns.budget.size(False)
        if size <= 0:
            turns.budget.later(lambda: pump(link))
            return
        sent.append(size)
        turns.budget.used(size)

    for link in range(10):
        pump(link)
    assert sum(sent) == 8 * MIB
    assert max(sent) == 2 * MIB
    assert turns.charged == 0
    for number, all_sent in enumerate((16, 20, 20), 1):
        turns.turn()
        assert (sum(sent), turns.charged) == (all_sent * MIB, number)
    assert len(sent) == 10
    assert turns.soon == []


@pytest.mark.parametrize(
    ("limit", "total", "holders", "size"),
    [
        (742 * MIB, 0, 1, 2 * MIB),
        (64 * MIB, 0, 1, MIB),
        (128 * MIB, 0, 100, 128 * MIB // 200),
        (128 * MIB, 97 * MIB, 1, 64 * 1024),
    ],
)
def test_a_link_is_sent_less_at_once_where_there_is_less(limit: int, total: int, holders: int, size: int) -> None:
    assert Turns(pool(limit, total, holders)).budget.size(True) == size


def test_links_wait_while_nearly_all_is_held_and_those_that_have_nothing_while_all_is() -> None:
    """A connection that holds nothing yet is not slowed down, and there may be any number of them."""
    shared = pool(128 * MIB, 112 * MIB - COPIES)
    turns, sent = Turns(shared), list[str]()
    turns.budget.used(0)
    turns.budget.later(lambda: sent.append("in the next turn"))
    assert (turns.budget.size(True), turns.budget.size(False)) == (1, 64 * 1024)
    shared.total += 1
    assert (turns.budget.size(True), turns.budget.size(False)) == (0, 64 * 1024)
    shared.total = 128 * MIB
    assert turns.budget.size(False) == 0
    for _ in range(3):
        turns.turn()
        assert (sent, turns.soon, len(turns.timers)) == ([], [], 1), "nobody asks in each turn"
    turns.turn(timers=True)
    assert (sent, turns.soon, len(turns.timers)) == ([], [], 1)
    shared.total = 113 * MIB
    turns.turn(timers=True)
    assert (sent, turns.timers) == (["in the next turn"], [])
    turns.budget.later(lambda: sent.append("later"))
    assert (turns.soon, len(turns.timers)) == ([], 1)


def test_one_link_that_fails_keeps_no_other_waiting() -> None:
    turns, reported = Turns(pool(128 * MIB)), list[int]()

    def fail() -> None:
        raise RuntimeError("a bug")

    for go_on in (partial(reported.append, 1), fail, partial(reported.append, 2)):
        turns.budget.later(go_on)
    with pytest.raises(RuntimeError, match="a bug"):
        turns.turn()
    turns.turn()
    assert (reported, turns.soon) == ([1, 2], [])
