"""Leases by example (KM-10): each clause of ownership once, with the time in hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.errors import DETACH_FORCED, INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, RESOURCE_LOCKED, AmqpError
from gateway.state.leases.claim import Claim, GroupLink, Now, whole
from gateway.state.leases.group import ClaimDenied, Group, parse
from gateway.state.leases.lease import Lease, LeaseRequest, RevocationReason
from gateway.state.leases.manager import Leases
from gateway.state.leases.store import EVERYTHING, LeaseTable, MemoryLeaseStore, StoreUnavailable
from gateway.tasks import Supervisor

KEY, TTL = "main/orders/g1", 10.0
ALL = (0, 1, 2)


class Owner:
    """A holder that notes what it is told and, unless it is deaf, ends as a link does."""

    def __init__(self, leases: Leases, lease: Lease) -> None:
        self.leases, self.lease, self.told = leases, lease, list[RevocationReason]()
        leases.hold(lease, self)

    def stop(self, lease: Lease, why: RevocationReason) -> None:
        self.told.append(why)
        if why is RevocationReason.DISPLACED:
            self.leases.release(lease, orderly=False)


class World:
    """Processes on one board, and their clock in milliseconds."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.table = LeaseTable(lambda: self.now)
        self.errors: list[Any] = []
        self.supervisor = Supervisor(lambda name, error: self.errors.append((name, error)))

    def process(self, board: MemoryLeaseStore | None = None) -> Leases:
        return Leases(board or MemoryLeaseStore(self.table, TTL), self.supervisor, clock=lambda: self.now / 1000)

    async def own(self, leases: Leases, partition: int | None = None, epoch: int | None = None) -> Owner:
        return Owner(leases, await leases.claim(KEY, requested(partition, epoch)))

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        assert not self.errors


def requested(partition: int | None = None, epoch: int | None = None, pend: int = 0, pend_ms: int = 0) -> LeaseRequest:
    return LeaseRequest(partition, epoch, ALL, pend, pend_ms, 5000)


@pytest.fixture
def world() -> World:
    return World()


async def refused(asking: Any, condition: str) -> None:
    with pytest.raises(AmqpError) as error:
        await asking
    assert error.value.condition == condition


async def test_the_owner_stops_before_anybody_else_can_begin(world: World) -> None:
    one, two = world.process(), world.process()
    owner = await world.own(one, 0)
    world.now += 8_999
    assert owner.lease.valid
    world.now += 2  # nine tenths of the time to live
    assert not owner.lease.valid
    await refused(two.claim(KEY, requested(0)), RESOURCE_LOCKED)
    world.now += 1000
    heir = await world.own(two, 0)
    assert heir.lease.valid
    assert heir.lease.fence > owner.lease.fence


async def test_a_beat_counts_from_when_it_was_asked_for(world: World) -> None:
    class Slow(MemoryLeaseStore):
        async def heartbeat(self, *arguments: Any) -> bool:
            alive = await super().heartbeat(*arguments)
            world.now += 4000  # the answer takes its time
            return alive

    one = world.process(Slow(world.table, TTL))
    owner = await world.own(one, 0)
    await one.session.heartbeat()
    world.now += 4_999
    assert owner.lease.valid
    world.now += 2
    assert not owner.lease.valid


async def test_a_session_that_was_not_in_time_never_comes_back(world: World) -> None:
    """The answer to its renewal came when its links had seen the deadline, and nobody would have told them to go on."""

    class Slow(MemoryLeaseStore):
        async def heartbeat(self, *arguments: Any) -> bool:
            alive = await super().heartbeat(*arguments)
            world.now += 4_500
            seen.append(owner.lease.valid)
            return alive

    seen = list[bool]()
    one, two = world.process(Slow(world.table, TTL)), world.process()
    owner = await world.own(one, 0)
    world.now += 5_000
    await one.session.heartbeat()
    assert (seen, owner.told, owner.lease.valid) == ([False], [RevocationReason.LOST], False)
    assert one.in_time
    heir = await world.own(two, 0)  # although the session was renewed in the store
    assert heir.lease.valid


async def test_a_session_that_expired_never_comes_back(world: World) -> None:
    one, two = world.process(), world.process()
    owner = await world.own(one, 0)
    world.now += 10_001
    heir = await world.own(two, 0)
    await one.session.heartbeat()
    assert owner.told == [RevocationReason.LOST]
    assert not owner.lease.valid
    assert one.member != owner.lease.who.member
    assert heir.lease.valid


async def test_a_sleeper_cannot_write(world: World) -> None:
    one, two = world.process(), world.process()
    await one.session.heartbeat()
    world.now += 10_001
    one.session.deadline = float("inf")  # a process that trusts its session all the same
    await refused(one.claim(KEY, requested(0)), INTERNAL_ERROR)
    assert (await two.view(KEY)).held == {}


async def test_displacement_waits_for_the_owner_or_its_end(world: World) -> None:
    one, two = world.process(), world.process()
    owner = await world.own(one, 0, 5)
    world.table.listeners.clear()  # the owner's process hears nothing
    taking = asyncio.ensure_future(two.claim(KEY, requested(0, 6)))
    await world.settle()
    assert not taking.done()
    assert owner.lease.valid
    one._on_change(EVERYTHING)
    await world.settle()
    assert owner.told == [RevocationReason.DISPLACED]
    two._on_change(EVERYTHING)
    lease = await taking
    assert (lease.epoch, lease.partition) == (6, 0)


async def test_an_owner_that_an_equal_epoch_displaces_is_told_so(world: World) -> None:
    one = world.process()
    owner = await world.own(one, 0, 5)
    taking = asyncio.ensure_future(one.claim(KEY, requested(0, 5)._replace(displaces_equal=True)))
    await world.settle()
    assert owner.told == [RevocationReason.EQUALLED]
    one.release(owner.lease, orderly=False)
    assert (await taking).epoch == 5
    third = asyncio.ensure_future(one.claim(KEY, requested(0, 7)))
    await world.settle()
    world.now += 10_001
    await one.session.heartbeat()
    await refused(third, INTERNAL_ERROR)  # its own session ended, too


async def test_of_two_that_displace_the_greater_epoch_wins(world: World) -> None:
    one, two = world.process(), world.process()
    owner = await world.own(one, 0)
    world.table.listeners.clear()
    lesser = asyncio.ensure_future(two.claim(KEY, requested(0, 3)))
    await world.settle()
    await refused(two.claim(KEY, requested(0, 3)), RESOURCE_LOCKED)
    greater = asyncio.ensure_future(two.claim(KEY, requested(0, 4)))
    await world.settle()
    two._on_change(EVERYTHING)
    await refused(lesser, RESOURCE_LOCKED)
    one._on_change(EVERYTHING)
    await world.settle()
    two._on_change(EVERYTHING)
    assert (await greater).epoch == 4
    assert owner.lease.ended


async def test_who_waits_is_served_in_order(world: World) -> None:
    one = world.process()
    owners = [await world.own(one) for _ in ALL]
    waiting = [asyncio.ensure_future(one.claim(KEY, requested(pend=2, pend_ms=60_000))) for _ in range(2)]
    await world.settle()
    await refused(one.claim(KEY, requested(pend=2, pend_ms=60_000)), RESOURCE_LIMIT_EXCEEDED)
    one.release(owners[1].lease, orderly=True)
    one.release(owners[2].lease, orderly=True)
    leases = await asyncio.gather(*waiting)
    assert [lease.partition for lease in leases] == [1, 2]


async def test_waiting_ends(world: World) -> None:
    one = world.process()
    for _ in ALL:
        await world.own(one)
    left = False
    gone = asyncio.ensure_future(one.claim(KEY, requested(pend=9, pend_ms=60_000), gone=lambda: left))
    brief = asyncio.ensure_future(one.claim(KEY, requested(pend=9, pend_ms=3_000)))
    await world.settle()
    assert len((await one.view(KEY)).waiting) == 2
    world.now += 3_001
    await refused(brief, DETACH_FORCED)
    left = True
    await refused(gone, DETACH_FORCED)
    await world.settle()
    assert (await one.view(KEY)).waiting == []


async def test_an_epoch_is_remembered_for_a_while_after_a_loss_only(world: World) -> None:
    one = world.process()
    one.release((await world.own(one, 0, 7)).lease, orderly=True)
    await world.settle()
    kept = (await world.own(one, 0)).lease
    assert kept.epoch == 0
    one.release(kept, orderly=True)
    await world.settle()
    one.release((await world.own(one, 0, 7)).lease, orderly=False)
    await world.settle()
    await refused(one.claim(KEY, requested(0, 6)), RESOURCE_LOCKED)
    again = (await world.own(one, 0)).lease
    assert again.epoch == 7
    one.release(again, orderly=False)
    await world.settle()
    world.now += 5_001
    assert (await world.own(one, 0, 1)).lease.epoch == 1


async def test_more_partitions_go_to_who_waits_and_are_dealt_anew_once(world: World) -> None:
    one = world.process()
    chosen, assigned = await world.own(one, 0), [await world.own(one) for _ in range(2)]
    waiting = asyncio.ensure_future(one.claim(KEY, requested(pend=9, pend_ms=60_000)))
    await world.settle()
    for _ in range(2):
        await one.grow(KEY, 4, (0, 1, 2, 3))
        await world.settle()
    assert (await waiting).partition == 3
    assert [owner.told for owner in assigned] == [[RevocationReason.REBALANCED]] * 2
    assert chosen.told == []
    assert (await one.view(KEY)).round == 1


async def test_a_record_goes_when_nobody_needs_it(world: World) -> None:
    one = world.process()
    one.release((await world.own(one, 0)).lease, orderly=True)
    await world.settle()
    assert world.table.records == {}
    assert one._sessions == {}


async def test_what_is_not_known_to_be_stored_is_taken_back(world: World) -> None:
    class Cut(MemoryLeaseStore):
        lost = ""

        async def swap(self, *arguments: Any) -> Any:
            done = await super().swap(*arguments) if self.lost != "question" else None
            if self.lost:
                raise StoreUnavailable(f"the {self.lost} was lost")
            return done

    board = Cut(world.table, TTL)
    one = world.process(board)
    await one.session.heartbeat()
    board.lost = "answer"
    await refused(one.claim(KEY, requested(0)), INTERNAL_ERROR)
    board.lost = "question"
    await world.settle()
    assert (await one.view(KEY)).held.keys() == {0}
    board.lost = ""
    one._on_change(EVERYTHING)
    await world.settle()
    assert (await one.view(KEY)).held == {}


def test_what_is_stored_is_read_again() -> None:
    group, now = Group(), Now(5, 1, {"m"})

    def claim(link: str, **fields: Any) -> ClaimDenied | None:
        asked: dict[str, Any] = {"partition": None, "epoch": None, "among": (0,), "pend": 3, "retain_ms": 9, **fields}
        return group.claim(Claim(GroupLink("m", link), **asked), now)

    assert claim("1", epoch=4) is claim("2") is claim("3", partition=0, epoch=5) is None
    assert claim("4", partition=0, epoch=5) is ClaimDenied.LOCKED
    assert parse(group.dump()) == group
    group.release(GroupLink("m", "1"), now, orderly=False)
    group.release(GroupLink("m", "3"), now, orderly=False)
    assert group.held[0].who.link == "2"
    group.release(GroupLink("m", "2"), now, orderly=False)
    assert parse(group.dump()) == group
    assert parse("") == Group()


def test_what_is_shared_stays_level_and_few_partitions_move() -> None:
    group, now = Group(), Now(5, 1, {"m", "n"})

    def join(member: str, link: str, pend: int = 0) -> ClaimDenied | None:
        return group.share(Claim(GroupLink(member, link), None, None, (0, 1, 2, 3, 4), pend), now)

    def owners() -> dict[int, str]:
        return {number: whole(held.who).link for number, held in sorted(group.held.items())}

    def moving() -> list[int]:
        return [number for number, held in group.held.items() if held.successor is not None]

    def hand_over() -> None:
        for number in moving():
            group.release(group.held[number].who, now, orderly=True)
        assert not moving()

    assert join("m", "1") is None
    assert owners() == dict.fromkeys(range(5), "1")
    assert join("n", "2") is None
    assert len(moving()) == 2, "two of five"
    assert parse(group.dump()) == group
    hand_over()
    assert sorted(owners().values()) == ["1", "1", "1", "2", "2"]
    group.sweep(Now(6, 2, {"m"}))
    assert owners() == dict.fromkeys(range(5), "1"), "a dead process leaves its share"
    for link in "3456":
        assert join("m", link) is None
    assert join("m", "7") is ClaimDenied.SURPLUS
    assert join("m", "7", pend=1) is None
    assert join("m", "8", pend=1) is ClaimDenied.FULL
    group.release(GroupLink("m", "1"), now, orderly=True)
    hand_over()
    assert sorted(owners().values()) == ["3", "4", "5", "6", "7"], "who stood by is in"
    for link in "34567":
        group.release(GroupLink("m", link), now, orderly=True)
    assert group.empty


def test_a_group_is_bound_or_shared_and_never_both() -> None:
    group, now = Group(), Now(5, 1, {"m", "n"})

    def bound(link: str, partition: int | None = None) -> ClaimDenied | None:
        return group.claim(Claim(GroupLink("m", link), partition, None, (0, 1), pend=3), now)

    def share(link: str) -> ClaimDenied | None:
        return group.share(Claim(GroupLink("n", link), None, None, (0, 1)), now)

    assert bound("1", 1) is None
    assert share("2") is ClaimDenied.MIXED, "it would get what the other leaves over"
    assert bound("3") is bound("4") is None
    for link in "13":
        group.release(GroupLink("m", link), now, orderly=True)
    group.release(GroupLink("m", "4"), now, orderly=True)
    assert share("2") is share("5") is None
    assert bound("6") is bound("6", 0) is ClaimDenied.MIXED
    group.sweep(Now(6, 2, {"m"}))
    assert bound("6") is None, "the others are gone"


async def test_a_link_that_fails_to_end_keeps_no_other_from_ending() -> None:
    """Else the others would go on in the next session of their process, without a lease."""
    world = World()
    leases = world.process()
    first, second = await world.own(leases, 0), await world.own(leases, 1)
    first.stop = lambda lease, why: 1 // 0  # type: ignore[assignment, method-assign, return-value]
    leases.session.expired()
    assert second.told == [RevocationReason.LOST]
    assert (first.lease.ended, second.lease.ended) == (True, True)
    assert [(name, type(error)) for name, error in world.errors] == [("lease-stop", ZeroDivisionError)]


async def test_a_share_is_refused_whose_session_expires_while_it_is_asked_for(world: World) -> None:
    """It would be held by nobody, and its holder never be told: its part of the work would stand still for ever."""

    class Slow(MemoryLeaseStore):
        async def swap(self, member: str, *arguments: Any) -> Any:
            found = await super().swap(member, *arguments)
            one.session.expired()
            await one.session.heartbeat()  # another session, as after a store that came back empty
            return found

    one = world.process(Slow(world.table, TTL))
    await refused(one.share(KEY, requested()), INTERNAL_ERROR)
    one._store = MemoryLeaseStore(world.table, TTL)  # type: ignore[misc]
    world.now += 10_001  # what the first session has in the store expires
    await one.session.heartbeat()
    share, parts = await one.share(KEY, requested())
    assert share.valid
    assert len(parts) == len(ALL)
    await world.settle()
