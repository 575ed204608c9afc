"""Commits of positions: each knows those before it, and nobody is left in doubt (decision 105)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.common import ahead
from bridges.kafka.links.progress import Progress
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.transactions import branch
from bridges.kafka.transactions.turns import CommitTurns
from gateway import agenda
from gateway.amqp.link.outcomes import ACCEPTED
from gateway.errors import DETACH_FORCED, INTERNAL_ERROR, TRANSACTION_ROLLBACK, AmqpError
from gateway.tasks import until
from tests.support.transactions.branches import BranchWorld


class Stored:
    """The stored position of a link that has sent events 0 to 9, and whether another link has it now."""

    transaction_group = transaction_writer = ""

    def __init__(self) -> None:
        self.progress, self.parts = Progress(), (self,)
        self.progress.sent(0, range(10))
        self.request = SimpleNamespace(group="g")
        self.theirs, self.away, self.ended = False, False, list[str]()
        self.named = ""

    def positions(self) -> dict[int, int]:
        return {0: self.progress.position(0, 10)}

    def part_of(self, partition: int) -> Stored:
        return self

    def displaced(self, error: AmqpError) -> None:
        self.ended.append(error.condition)

    async def holds(self) -> bool | None:
        if self.away:
            return None
        self.named = self.transaction_writer
        return not self.theirs

    async def taken(self) -> bool:
        return self.theirs


class Settled:
    """An event that is accepted in a transaction."""

    outcome, settled, open, attached = ACCEPTED, True, True, True

    def __init__(self, stored: Stored, offset: int) -> None:
        self.stored, self.context = stored, EncodedEvent(b"", 0, offset)

    def commit(self) -> None:
        self.stored.progress.done(0, self.context.offset)

    def roll_back(self) -> None:
        """It comes again."""


async def settling(stored: Stored, turns: CommitTurns, *offsets: int) -> BranchWorld:
    """A transaction in which events are accepted."""
    world, resource = BranchWorld(turns), SimpleNamespace()
    resource.begin = lambda _: world.branch
    enlisted = world.transaction.enlist(cast("Any", resource))
    await world.begun()
    for offset in offsets:
        retired: Any = Settled(stored, offset)
        enlisted.retire(cast("Any", stored), "topic", retired)
        world.transaction.retire(retired)
    return world


@pytest.mark.parametrize("at_once", [50, 1])
async def test_each_commit_knows_those_before_it(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are discharged at the same time, and the second one must not take the position back.

    Nor may it if the outcomes of the first one are so many that they are given later.
    """
    monkeypatch.setattr(agenda, "AT_ONCE", at_once)
    stored, turns = Stored(), CommitTurns()
    first, second = await settling(stored, turns, 0, 1, 5), await settling(stored, turns, 2)
    rolled_back, last = await settling(stored, turns, 3), await settling(stored, turns, 4)
    discharged = first, second, rolled_back, last
    for each in discharged:
        each.transaction.discharge(fail=each is rolled_back, then=each.answers.append)
    await until(lambda: all(each.answers for each in discharged), 10)
    assert [each.answers for each in discharged] == [[None]] * 4
    logs = [each.client.log for each in discharged]
    assert logs == [["2 [[5]]", "commit"], ["3 [[5]]", "commit"], ["abort"], ["3 [[4, 5]]", "commit"]]


async def test_a_message_that_an_earlier_commit_has_settled_is_settled_by_no_other() -> None:
    stored, turns = Stored(), CommitTurns()
    first, second = await settling(stored, turns, 0), await settling(stored, turns, 1)
    (retired,) = second.transaction.retired
    first.transaction.at_end(lambda _: setattr(retired, "open", False))
    for each in (first, second):
        each.transaction.discharge(fail=False, then=each.answers.append)
    await until(lambda: bool(second.answers), 10)
    assert first.answers == [None]
    (refused,) = second.answers
    assert refused is not None
    assert "has its outcome already" in refused.description


async def test_a_commit_does_not_wait_for_earlier_ones_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is rolled back as if Kafka had not taken its own positions."""
    monkeypatch.setattr(branch, "_TURN", 0.01)
    stored, turns = Stored(), CommitTurns()
    late = await settling(stored, turns, 0)
    async with turns.turn([cast("Any", stored)]):
        late.transaction.discharge(fail=False, then=late.answers.append)
        await until(lambda: bool(late.answers), 10)
    (refused,) = late.answers
    assert refused is not None
    assert (refused.condition, late.client.log) == (TRANSACTION_ROLLBACK, ["abort"])


async def test_more_gaps_than_can_be_stored_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the events between them would come again after a crash."""
    monkeypatch.setattr(ahead, "MOST", 10)
    stored = Stored()
    world = await settling(stored, CommitTurns(), 1, 3)
    world.transaction.discharge(fail=False, then=world.answers.append)
    await until(lambda: bool(world.answers), 10)
    (refused,) = world.answers
    assert refused is not None
    assert (refused.condition, world.client.log) == (TRANSACTION_ROLLBACK, ["abort"])
    assert "settle them in their order" in refused.description


async def test_a_link_whose_position_is_perhaps_committed_ends_before_its_events_can_come_again() -> None:
    stored = Stored()
    world = await settling(stored, CommitTurns(), 0)
    world.client.commit_error = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    at_end = list[list[str]]()
    world.transaction.at_end(lambda _: at_end.append(list(stored.ended)))
    world.transaction.discharge(fail=False, then=world.answers.append)
    await until(lambda: bool(world.answers), 10)
    (unknown,) = world.answers
    assert unknown is not None
    assert unknown.condition == INTERNAL_ERROR
    assert at_end == [[DETACH_FORCED]]


@pytest.mark.parametrize("theirs", [False, True])
async def test_a_victim_of_a_takeover_is_told_so(theirs: bool) -> None:
    """Whoever takes over a position fences off the client that has sent it; the gateway keeps its identifiers then."""
    stored = Stored()
    world = await settling(stored, CommitTurns(), 0)
    error = KafkaError(KafkaError._FENCED, fatal=True)
    world.client.abort_error = KafkaException(error)

    async def commit() -> None:
        stored.theirs = theirs
        raise KafkaException(error)

    world.client.commit = commit  # type: ignore[method-assign]
    world.transaction.discharge(fail=False, then=world.answers.append)
    await until(lambda: bool(world.answers), 10)
    (answer,) = world.answers
    assert answer is not None
    assert answer.condition == TRANSACTION_ROLLBACK
    wanted = "another link has taken over a position" if theirs else "process has taken over the transactional.id"
    assert wanted in answer.description
    assert bool(world.fenced) is not theirs


async def test_a_record_names_its_client_also_if_it_could_not_at_first() -> None:
    """Before positions are sent, so that others can abort a transaction; a state that is away is not a takeover."""
    stored, turns, named = Stored(), CommitTurns(), list[str]()
    stored.away = True
    refused, later = await settling(stored, turns, 0), await settling(stored, turns, 1)
    later.client.send_offsets = _naming(stored, named)  # type: ignore[method-assign]
    refused.transaction.discharge(fail=False, then=refused.answers.append)
    await until(lambda: bool(refused.answers), 10)
    (answer,) = refused.answers
    assert answer is not None
    assert (answer.condition, refused.client.log) == (TRANSACTION_ROLLBACK, ["abort"])
    assert "the shared state is unavailable" in answer.description
    stored.away = False
    later.transaction.discharge(fail=False, then=later.answers.append)
    await until(lambda: bool(later.answers), 10)
    assert (later.answers, named) == ([None], [later.client.identifier])


def _naming(stored: Stored, named: list[str]) -> Any:
    async def send_offsets(*_: object) -> None:
        named.append(stored.named)

    return send_offsets
