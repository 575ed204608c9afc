"""A group's link gives no credit once its lease is over, whether or not anybody was told (KM-10)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridges.kafka.groups.gate import LeaseGatedLink
from bridges.kafka.groups.owner import GroupHandler
from bridges.kafka.groups.ownership import PartitionOwnership, ShardProcess
from bridges.kafka.groups.shared import SharedMember
from bridges.kafka.links.redelivery_queue import OpenRetirements
from bridges.kafka.records.event import EncodedEvent
from gateway.amqp.link.dispositions import SettledRetirement
from gateway.amqp.link.outcomes import ACCEPTED
from gateway.amqp.link.state import DetachKind
from gateway.errors import DETACH_FORCED, STOLEN, AmqpError
from gateway.state.leases.lease import Lease, LeaseRequest, RevocationReason
from gateway.state.leases.manager import Leases
from gateway.state.leases.store import LeaseTable, MemoryLeaseStore
from gateway.tasks import Supervisor
from gateway.transactions.transaction import Transaction


class Link(SimpleNamespace):
    """What a gate needs of a link."""

    def __init__(self) -> None:
        super().__init__(credit=7, sent=[], left=DetachKind.LOST, ended=None, unsettled=())

    def send(self, *_: Any) -> None:
        raise AssertionError("nothing is sent")

    send_all = send

    def detach(self, error: AmqpError) -> None:
        self.ended = error.condition


class World:
    """A clock in seconds, a lease that lasts nine of them, and its link."""

    def __init__(self) -> None:
        self.now, self.errors = 100.0, list[Any]()
        self.supervisor = Supervisor(lambda name, error: self.errors.append((name, error)))
        board = MemoryLeaseStore(LeaseTable(lambda: int(self.now * 1000)), 10)
        self.leases = Leases(board, self.supervisor, clock=lambda: self.now)
        self.link = Link()

    async def lease(self) -> Lease:
        return await self.leases.claim("main/orders/g1", LeaseRequest(0, None, (0,)))

    def handler(self, lease: Lease) -> GroupHandler:
        received = dict.fromkeys(("on_credit", "on_outcome", "on_accepted"), lambda *_: None)
        quiet: Any = SimpleNamespace(**received, on_detach=lambda error: None, end=lambda: None)
        quiet.retirements, quiet.loop = OpenRetirements(lambda size: None), asyncio.get_running_loop()
        quiet.on_retire = lambda transaction, each: quiet.retirements.add(transaction, each.context)
        return GroupHandler(LeaseGatedLink(self.link, lease), lease, quiet, quiet, self.leases, quiet)


async def test_credit_ends_with_the_time_and_no_callback() -> None:
    world = World()
    gate = LeaseGatedLink(world.link, await world.lease())
    assert gate.credit == 7
    world.now += 8.99
    assert gate.credit == 7
    world.now += 0.02  # a process that slept asks before anything has told it
    assert gate.credit == 0


async def test_credit_ends_with_the_release() -> None:
    world = World()
    lease = await world.lease()
    gate = LeaseGatedLink(world.link, lease)
    world.leases.release(lease, orderly=True)
    assert gate.credit == 0


async def test_an_attach_that_fails_for_one_partition_releases_the_others() -> None:
    """Also those that are acquired later than it fails: nobody else would write, or let go of, their records."""
    failed = asyncio.Event()
    handed: list[int] = []

    async def acquire(lease: Any) -> tuple[Any, int, Any]:
        if lease.partition == 1:
            failed.set()
            raise AmqpError(STOLEN)
        await failed.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        return lease.partition, 0, None

    async def hand_over(terminus: int) -> None:
        handed.append(terminus)

    world = World()
    member: Any = SharedMember.__new__(SharedMember)
    member._parts, member._cluster = {}, world
    member._entry = SimpleNamespace(acquire=acquire, checkpointer=SimpleNamespace(hand_over=hand_over))
    with pytest.raises(AmqpError, match=STOLEN):
        await member.acquire([SimpleNamespace(partition=number) for number in range(3)])
    member.abandon()
    for _ in range(20):
        await asyncio.sleep(0)
    assert handed == [0, 2]


async def test_what_ends_a_link() -> None:
    for why, condition in (
        (RevocationReason.DISPLACED, STOLEN),
        (RevocationReason.EQUALLED, STOLEN),
        (RevocationReason.LOST, DETACH_FORCED),
        (RevocationReason.REBALANCED, DETACH_FORCED),
    ):
        world = World()
        lease = await world.lease()
        world.handler(lease).stop(lease, why)
        assert world.link.ended == condition


@pytest.mark.parametrize("committed", [True, False])
async def test_an_orderly_end_waits_for_what_is_settled_in_a_transaction(committed: bool) -> None:
    """As for what is unsettled (ES-4-13): the position can be committed as long as the link is there."""
    world = World()
    lease = await world.lease()
    handler, transaction = world.handler(lease), Transaction(b"t", lambda: None, lambda: None)
    link: Any = SimpleNamespace(open=True, handler=handler)
    for offset in (4, 5):
        retirement = SettledRetirement(link, EncodedEvent(b"", 0, offset), ACCEPTED)
        handler.on_retire(transaction, retirement)
        transaction.retire(retirement)
    handler.stop(lease, RevocationReason.REBALANCED)
    assert world.link.ended is None
    transaction.discharge(fail=not committed, then=lambda _: None)
    assert world.link.ended == DETACH_FORCED


async def test_only_an_orderly_end_forgets_the_epoch() -> None:
    for left, error, orderly in (
        (DetachKind.CLOSED, None, True),
        (DetachKind.CONNECTION, None, True),
        (DetachKind.CLOSED, AmqpError(STOLEN), False),
        (DetachKind.DETACHED, None, False),
        (DetachKind.LOST, None, False),
        (DetachKind.OURS, None, False),
    ):
        world = World()
        lease = await world.leases.claim("main/orders/g1", LeaseRequest(0, 3, (0,), retain_ms=1000))
        handler = world.handler(lease)
        world.link.left = left
        handler.on_detach(error)
        while (await world.leases.view("main/orders/g1")).held:  # noqa: ASYNC110 (nothing tells; it is asked)
            await asyncio.sleep(0)
        again = await world.lease()
        assert again.epoch == (0 if orderly else 3)
        assert not world.errors


def test_partitions_are_served_where_their_process_can_be_reached() -> None:
    """Each is somebody's; a scope that the other process does not serve is served here."""
    processes = [ShardProcess("me", {"edge": ("a", 1)}), ShardProcess("other", {"edge": ("b", 2)})]
    here, there = PartitionOwnership(processes, "me", "t"), PartitionOwnership(processes, "other", "t")
    edge, core = SimpleNamespace(scope="edge", address="log"), SimpleNamespace(scope="core", address="log")
    mine, theirs = here.local(edge, range(50)), there.local(edge, range(50))
    assert mine
    assert theirs
    assert sorted((*mine, *theirs)) == list(range(50))
    assert here.local(core, range(50)) == PartitionOwnership([], "me", "t").local(edge, range(50)) == tuple(range(50))
    redirect = here.redirect(edge, theirs[0])
    assert redirect is not None
    assert redirect.info == {"hostname": "b", "network-host": "b", "port": 2, "address": "log"}
