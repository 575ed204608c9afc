"""The account of what is held: who has to wait or is refused, and how much memory there is."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Mapping

import pytest

from gateway.amqp.proton._batch import Received, Tally, Unsettled
from gateway.held.account import CONNECTION, LINK, SMALL, Account, Budget, HeldBytes, Level, Pool
from gateway.held.allocator import Trimmer, free_bytes
from gateway.held.container import DEFAULT, budget, container_limit

MIB = 2**20


def account(budget: Budget, user: str = "alice", **limits: int) -> Account:
    return budget.open("edge", user, lambda: None, **limits)


def test_a_connection_is_slowed_above_half_of_its_limit_and_refused_above_it() -> None:
    mine = account(Budget(100 * MIB), connection=4 * MIB)
    levels = []
    for size in (0, 2 * MIB, 2 * MIB + 1, 4 * MIB, 4 * MIB + 1, 2 * MIB):
        mine.charge(HeldBytes(received=size))
        levels.append(mine.reading)
    assert levels == [Level.FREE, Level.FREE, Level.SLOW, Level.SLOW, Level.REFUSE, Level.FREE]


@pytest.mark.parametrize("incoming", ["received", "unfinished"])
@pytest.mark.parametrize("outgoing", ["unsettled", "output"])
def test_what_comes_and_what_goes_are_looked_at_apart(incoming: str, outgoing: str) -> None:
    mine = account(Budget(100 * MIB), connection=4 * MIB)
    mine.charge(HeldBytes(**{incoming: 3 * MIB, outgoing: MIB}))
    assert (mine.reading, mine.sending) == (Level.SLOW, Level.FREE)
    mine.charge(HeldBytes(**{incoming: MIB, outgoing: 5 * MIB}))
    assert (mine.reading, mine.sending) == (Level.FREE, Level.REFUSE)


def test_what_was_given_back_holds_up_only_what_is_new() -> None:
    """It has to be sent again to become less, so it must not stand against itself (found as B3)."""
    mine = account(budget := Budget(100 * MIB), connection=4 * MIB)
    mine.charge(HeldBytes(unsettled=MIB, kept=MIB))
    assert (mine.sending, mine.keeping) == (Level.FREE, Level.FREE)
    mine.charge(HeldBytes(unsettled=MIB, kept=3 * MIB // 2))
    assert (mine.sending, mine.keeping) == (Level.FREE, Level.SLOW)
    mine.charge(HeldBytes(unsettled=3 * MIB, kept=0))
    assert (mine.sending, mine.keeping) == (Level.SLOW, Level.SLOW)
    before = budget.pool.total
    mine.charge(HeldBytes(unsettled=3 * MIB, kept=2 * MIB))
    assert budget.pool.total == before + 2 * MIB


def test_connections_that_hold_nothing_take_no_part_from_those_that_do() -> None:
    """Each counted as one that holds something: with 100 of them, who held 1 % of a crowded pool was slowed down."""
    budget = Budget(100 * MIB)
    holders = [account(budget, connection=200 * MIB, per_user=200 * MIB) for _ in range(2)]
    for each in holders:
        each.charge(HeldBytes(received=20 * MIB))
    before = budget.pool.share
    for _ in range(100):
        account(budget).charge(HeldBytes(links=3, received=100))
    taken = 100 * (CONNECTION + 3 * LINK)
    assert before - budget.pool.share == taken // 4  # of what is left for two that hold something, each way
    assert budget.pool.holders == 2
    holders[0].charge(HeldBytes(received=55 * MIB))
    holders[1].charge(HeldBytes(received=20 * MIB))
    assert budget.pool.crowded
    assert (holders[0].reading, holders[1].reading) == (Level.SLOW, Level.FREE)
    for each in list(budget.accounts):
        budget.close("edge", "alice", each)
    assert (budget.pool.total, budget.pool.common, budget.pool.holders) == (0, 0, 0)


@pytest.mark.parametrize("users", [("alice", "alice"), ("alice", "bob")])
def test_who_holds_little_never_notices_who_holds_much(users: tuple[str, str]) -> None:
    budget = Budget(10 * MIB)
    much, little = (account(budget, user, connection=90 * MIB, per_user=90 * MIB) for user in users)
    for size, level in ((MIB, Level.FREE), (9 * MIB, Level.SLOW), (11 * MIB, Level.REFUSE)):
        much.charge(HeldBytes(received=size))
        little.charge(HeldBytes(received=SMALL, unsettled=SMALL))
        assert (much.reading, little.reading, little.sending) == (level, Level.FREE, Level.FREE)


def test_the_limit_of_a_user_bounds_all_of_its_connections_and_nobody_else() -> None:
    budget = Budget(1000 * MIB)
    limits = {"connection": 90 * MIB, "per_user": 10 * MIB}
    mine = [account(budget, "alice", **limits) for _ in range(4)]
    other = account(budget, "bob", **limits)
    for _ in range(2):
        for each in (*mine, other):
            each.charge(HeldBytes(received=3 * MIB))
    assert [each.reading for each in mine] == [Level.REFUSE] * 4
    assert other.reading is Level.FREE


@pytest.mark.parametrize("holders", [0, 1, 3, 1000])
def test_a_share_is_for_one_direction(holders: int) -> None:
    """As docs/design.md says it: twice the number of holders, less what belongs to no share, at least 16 KiB."""
    pool = Pool(64 << 20)
    pool.common, pool.total, pool.holders = 4 << 20, 64 << 20, holders
    own = (60 << 20) // (2 * max(holders, 1))
    assert pool.share == max(own, 16 << 10)
    assert [pool.level(part) for part in (pool.share, pool.share + 1)] == [Level.FREE, Level.SLOW]


def test_the_process_is_shared_in_equal_parts() -> None:
    budget = Budget(16 * MIB)
    accounts = [account(budget, f"user-{each}", connection=90 * MIB, per_user=90 * MIB) for each in range(4)]
    for _ in range(2):
        for each, size in zip(accounts, (12, 1, 1, 1), strict=True):
            each.charge(HeldBytes(received=size * MIB))
    assert [each.reading for each in accounts] == [Level.SLOW, Level.FREE, Level.FREE, Level.FREE]


def test_what_was_let_go_of_stays_with_the_connection_until_it_ends() -> None:
    budget = Budget(16 * MIB)
    mine = account(budget)
    mine.charge(HeldBytes(received=3 * MIB, unsettled=MIB, output=MIB, links=2))
    mine.charge(HeldBytes(links=1))
    assert mine.retained == 4 * MIB
    assert budget.pool.total == 4 * MIB + CONNECTION + LINK
    budget.close("edge", "alice", mine)
    assert (budget.pool.total, budget.pool.holders, list(budget.accounts)) == (0, 0, [])


def test_the_buffer_that_output_is_written_to_stays_until_the_connection_ends() -> None:
    budget = Budget(16 * MIB)
    mine = account(budget)
    mine.charge(HeldBytes(output=2 * MIB), 3 * MIB)
    mine.charge(HeldBytes(), 3 * MIB)
    assert mine.retained == 3 * MIB
    assert budget.pool.total == 3 * MIB + CONNECTION


def test_events_at_hand_to_be_sent_again_count_and_nothing_of_them_is_retained() -> None:
    budget = Budget(16 * MIB)
    mine = account(budget, connection=4 * MIB)
    mine.charge(HeldBytes(unsettled=MIB, events=MIB))
    assert (mine.sending, mine.keeping) == (Level.FREE, Level.FREE)
    mine.charge(HeldBytes(unsettled=MIB, events=MIB + 1))
    assert (mine.sending, mine.keeping) == (Level.SLOW, Level.SLOW)
    mine.charge(HeldBytes())
    assert mine.retained == MIB


def test_the_room_is_what_may_be_sent_before_a_peer_is_slowed_down() -> None:
    budget = Budget(16 * MIB + 2 * CONNECTION)
    mine = account(budget, connection=8 * MIB, per_user=90 * MIB)
    other = account(budget, "bob", connection=90 * MIB, per_user=90 * MIB)
    mine.charge(HeldBytes(output=MIB))
    assert mine.room == 3 * MIB, "half of its own limit"
    other.charge(HeldBytes(received=9 * MIB - 2 * CONNECTION))
    assert mine.room == 3 * MIB, "a part of the process's"
    mine.charge(HeldBytes(output=4 * MIB))
    assert (mine.room, mine.sending) == (0, Level.FREE)
    mine.charge(HeldBytes(output=4 * MIB + 1))
    assert (mine.room, mine.sending) == (-1, Level.SLOW)
    mine.charge(HeldBytes(output=MIB))
    other.charge(HeldBytes(received=14 * MIB))
    mine.charge(HeldBytes(output=MIB))
    budget.charge_logs(4 * MIB)
    assert mine.room == 2 * MIB


def test_the_heaviest_have_to_go_until_there_is_room() -> None:
    budget = Budget(10 * MIB)
    sizes = (1, 6, 2, 5)
    accounts = [account(budget, connection=90 * MIB) for _ in sizes]
    assert list(budget.heaviest()) == []
    for each, size in zip(accounts, sizes, strict=True):
        each.charge(HeldBytes(unsettled=size * MIB))
    assert list(budget.heaviest()) == [accounts[1]]


def test_what_waits_though_its_link_has_ended_counts_for_the_process() -> None:
    budget = Budget(10 * MIB)
    budget.charge_logs(2 * MIB)
    budget.charge_detached(3 * MIB)
    assert (budget.pool.total, budget.pool.common) == (5 * MIB, 5 * MIB)
    budget.charge_logs(0)
    assert (budget.pool.total, budget.logs, budget.detached) == (3 * MIB, 0, 3 * MIB)


def test_what_is_kept_of_event_logs_counts_for_the_process() -> None:
    budget = Budget(10 * MIB)
    mine = account(budget, connection=90 * MIB, per_user=90 * MIB)
    mine.charge(HeldBytes(received=6 * MIB))
    assert mine.reading is Level.FREE
    budget.charge_logs(3 * MIB)
    mine.charge(HeldBytes(received=6 * MIB))
    assert mine.reading is Level.SLOW
    budget.charge_logs(0)
    assert budget.pool.total == 6 * MIB + CONNECTION


V2 = {
    "/proc/self/cgroup": "0::/kube/pod\n",
    "/sys/fs/cgroup/kube/pod/memory.max": "max\n",
    "/sys/fs/cgroup/kube/memory.max": "536870912\n",
    "/sys/fs/cgroup/memory.max": "1073741824\n",
}
V1 = {
    "/proc/self/cgroup": "9:memory:/docker/one\n1:cpu:/docker/one\n",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
    "/sys/fs/cgroup/memory/docker/one/memory.limit_in_bytes": "9223372036854771712\n",
}
NONE = {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}


@pytest.mark.parametrize(
    ("files", "limit"),
    [(V2, 512 * MIB), (V1, 256 * MIB), (NONE, None), ({}, None)],
    ids=["v2", "v1", "none", "no file"],
)
def test_the_container_says_how_much_memory_there_is(files: Mapping[str, str], limit: int | None) -> None:
    def read(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    assert container_limit(read) == limit
    assert budget(None, read) == budget(limit or DEFAULT)
    assert budget(300 * MIB, read) == budget(300 * MIB), "the policy comes first"


@pytest.mark.parametrize("memory", [64 * MIB, 128 * MIB, 2**30, 2**34])
def test_the_process_itself_has_its_part(memory: int) -> None:
    assert 0 < budget(memory) < memory


def test_memory_is_given_back_when_much_less_is_held() -> None:
    trims: list[int] = []
    trimmer = Trimmer(trims.append)
    wanted = []
    for held in (100, 90, 60, 60, 59, 10, 0):
        wanted.append(trimmer.wants(held * MIB))
        if wanted[-1]:
            trimmer.trim()
    assert wanted == [False, False, True, False, False, True, False]
    assert trims == [0, 0]


def test_holes_in_the_heap_are_given_back_when_there_are_many() -> None:
    trims: list[int] = []
    free = iter((0, 2 * MIB, 5 * MIB, 0))
    trimmer = Trimmer(trims.append, lambda: next(free))
    counts = []
    for _ in range(4):
        trimmer.tidy()
        counts.append(len(trims))
    assert counts == [0, 0, 1, 1]


def test_free_memory_in_the_heap_is_known() -> None:
    """Pieces of what was allocated at once, freed but for every tenth, are free and not given back."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    pieces = [libc.malloc(20_000) for _ in range(1000)]
    before = free_bytes()  # some may have been taken from what was free already
    for number, piece in enumerate(pieces):
        if number % 10:
            libc.free(piece)
    found = free_bytes() - before
    for piece in pieces[::10]:
        libc.free(piece)
    assert 15_000_000 < found < 25_000_000


def test_deliveries_are_counted_in_any_order() -> None:
    tally = Tally()
    links = [Received(None, tally) for _ in range(3)]
    chance, here = random.Random(3), dict[tuple[int, int], None]()
    for step in range(1, 20_000):
        link = chance.randrange(3)
        links[link].add(step * 16, chance.randrange(1000))
        links[link].add(step * 16, 7)  # known already
        here[link, step * 16] = None
        while len(here) > 500 or (here and chance.random() < 0.4):
            gone = chance.choice(list(here)[:3])
            del here[gone]
            links[gone[0]].remove(gone[1])
            links[gone[0]].remove(gone[1])  # and gone already
    assert sum(map(len, links)) == tally.in_count == len(here)
    assert sum(link.bytes for link in links) == tally.in_bytes
    links[0].clear()
    del links[1]
    assert tally.in_count == len(links[1])
    for _, delivery in here:
        links[1].remove(delivery)
    assert (tally.in_bytes, tally.in_count) == (0, 0)


def test_what_was_sent_is_counted_until_its_outcome() -> None:
    tally = Tally()
    one, other = Unsettled(None, tally), Unsettled(None, tally)
    for number in range(1, 100):
        one.add(number, 100, "context")
        other.add(number, 5000, "context")
    assert tally.out_count == 198
    assert tally.out_bytes > 99 * 5100
    for number in range(1, 100):
        one.take(number)
    other.take_all()
    assert (tally.out_bytes, tally.out_data, tally.out_count) == (0, 0, 0)


def test_what_a_context_has_of_its_message_is_counted_until_its_outcome() -> None:
    tally = Tally()
    one, other = Unsettled(None, tally), Unsettled(None, tally)
    for number in range(1, 10):
        one.add(number, 100, (bytes(90), number))
        other.add(number, 100, (None, bytes(90)))
    other.add(10, 100, ())
    assert tally.out_data == 9 * 90
    one.take(5)
    assert tally.out_data == 8 * 90
    one.take_all()
    assert tally.out_data == 0
    one.add(11, 100, (bytes(90),))
    del one
    assert tally.out_data == 0
