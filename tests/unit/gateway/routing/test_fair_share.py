"""How the window of a link is shared among destinations that take little."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.principal import User
from gateway.routing.fair_share import fair_share
from gateway.routing.reply_rights import ANONYMOUS, requester_at
from gateway.routing.requester_limits import QUIET, STILL, DetachedBudget, RequesterLimit, dispensable


@pytest.mark.parametrize(
    ("sizes", "share"),
    [([], 500), ([500], 500), ([501], 500), ([250] * 4, 125), ([1, 1000], 499), ([1000, 1], 499), ([1] * 1000, 1)],
)
def test_the_largest_give_first(sizes: list[int], share: int) -> None:
    assert fair_share(sizes, 500) == share


@given(st.lists(st.integers(1, 1000), max_size=50))
def test_it_is_the_largest_share_that_fits(sizes: list[int]) -> None:
    share = fair_share(sizes, 500)
    assert sum(min(size, share) for size in sizes) <= 500
    assert share == 500 or sum(min(size, share + 1) for size in sizes) > 500 - len(sizes)


def looked_at(held: int, settled: int, looks: int = STILL, share: int = 500) -> RequesterLimit:
    """A requester that holds and settles as much at each look."""
    quota = RequesterLimit()
    for _ in range(looks):
        quota.count(held, settled)
    quota.admit(share)
    return quota


def more(quota: RequesterLimit, asked: int = 1000) -> int:
    """How many messages more may wait."""
    return sum(quota.take() for _ in range(asked))


@pytest.mark.parametrize(
    ("held", "settled", "slow", "room"),
    [
        (1000, 0, 1000, 0),
        (1000, 1, 990, 0),
        (600, 10, 500, 0),
        (400, 0, 400, 100),
        (1, 0, 1, 499),
        (1000, 100, 0, 1000),
        (0, 0, 0, 1000),
    ],
)
def test_what_is_not_settled_soon_counts(held: int, settled: int, slow: int, room: int) -> None:
    quota = looked_at(held, settled)
    assert (quota.slow, more(quota)) == (slow, room)


def test_nobody_is_slow_before_there_is_a_pace() -> None:
    assert looked_at(1000, 0, looks=STILL - 1).slow == 0


def test_who_held_nothing_for_a_while_has_no_pace() -> None:
    quota = looked_at(1000, 0)
    quota.rest()
    assert (quota.slow, more(quota)) == (0, 1000)
    quota.count(1000, 0)
    assert quota.slow == 0


@given(st.lists(st.integers(0, 100), min_size=STILL, max_size=40), st.integers(0, 1000))
def test_what_the_last_looks_settled_is_not_slow(settled: list[int], held: int) -> None:
    quota = RequesterLimit()
    for count in settled:
        quota.count(held, count)
    assert quota.slow == max(held - sum(settled[-STILL:]), 0)


class Route(NamedTuple):
    """What `dispensable` looks at."""

    group: str
    idle: bool = False
    handed: int = 0
    still: int = 0
    unattended: bool = False


def makes_room(*routes: Route) -> Any:
    """Which of these, by its place."""
    found: Any = dispensable(routes)  # type: ignore[arg-type]
    return None if found is None else next(at for at, route in enumerate(routes) if route is found)


def test_a_destination_without_messages_makes_room_first() -> None:
    assert makes_room(Route("a", still=STILL), Route("b", idle=True), Route("c", idle=True)) == 1


def test_then_one_where_nobody_receives() -> None:
    """It waited two seconds for its turn, and each such address was a requester of its own."""
    assert makes_room(Route("a", still=STILL), Route("b", unattended=True), Route("c", unattended=True)) == 1
    assert makes_room(Route("a", unattended=True), Route("b", idle=True)) == 1


def test_then_one_that_is_stuck() -> None:
    assert makes_room(Route("a"), Route("a", handed=1, still=QUIET), Route("b", still=QUIET)) == 2
    assert makes_room(Route("a"), Route("a"), Route("b", handed=1, still=STILL)) == 2


def test_then_one_of_the_requester_with_more_than_its_part() -> None:
    assert makes_room(Route("a"), *[Route("b")] * 3) == 1
    assert makes_room(*[Route("b")] * 2) == 0


def test_nobody_has_to_make_room_where_all_have_their_part() -> None:
    assert makes_room(Route("a"), Route("b"), Route("c")) is None


def test_what_is_left_takes_no_more_than_there_is_room_for() -> None:
    left = DetachedBudget(1000)
    assert left.take(600)
    assert not left.take(401)
    assert left.take(400)
    left.give_back(600)
    assert left.take(600)


def test_a_user_is_one_requester_and_an_anonymous_client_one_for_each_address() -> None:
    """Nothing else tells anonymous clients apart that they could not choose themselves (docs/cookies.md)."""
    eve, nobody = User("edge", "eve"), User("edge", ANONYMOUS)
    reply_requesters = {"a": eve, "b": eve, "c": nobody, "d": nobody}
    none = SimpleNamespace(find=lambda _: None)
    scope: Any = SimpleNamespace(name="edge", reply_requesters=reply_requesters, temporaries=none)
    assert requester_at(scope, "a") == requester_at(scope, "b") != requester_at(scope, "c")
    assert (requester_at(scope, "c"), requester_at(scope, "d"), requester_at(scope, "unknown")) == ("c", "d", "unknown")
