"""Transactions of workers that share the partitions of a group, while partitions move (ES-4.5.1-8; KM-14)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest

from tests.support.amqp.members import Producer, keep_connected
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.groups import group_state
from tests.support.gateway.process import wait_until
from tests.support.gateway.warm import shortened
from tests.support.transactions.worker import Worker

connections = pytest.fixture(autouse=True)(keep_connected)
numbers = itertools.count()
PARTITIONS = 4


class Place(NamedTuple):
    """A gateway whose groups share, and whose links give partitions away after so many seconds at the latest."""

    port: int
    gateway: Gateway

    def moving(self, address: str) -> int:
        """The number of partitions that are about to move."""
        return sum(owner["moving"] for owner in group_state(self.gateway, address, "g")["owners"])


def started(start: Gateways, grace: float) -> Place:
    document = Document(log="json")
    document.kafka("embedded", topics={"made": 1, **{f"in-{number}": PARTITIONS for number in range(20)}})
    document.scope()["addresses"][-1]["group_mode"] = "shared"
    return Place(document.edge, start(document.text, env=shortened({"bridges.kafka.groups.shared.GRACE": grace})))


@pytest.fixture(scope="module")
def patient(start_module_gateway: Gateways) -> Place:
    return started(start_module_gateway, 60.0)


@pytest.fixture(scope="module")
def hasty(start_module_gateway: Gateways) -> Place:
    return started(start_module_gateway, 0.1)


# The fixtures of the protocol tests' common gateway are not needed here.
@pytest.fixture(autouse=True)
def touches_nobody_else() -> None:
    """This module has gateways of its own."""


class Story:
    """A worker with an event of each partition that it has settled in a transaction, and another one that joins."""

    def __init__(self, place: Place, *, settled: bool) -> None:
        self.place, self.address = place, f"events/in-{next(numbers) % 20}"
        self.first = Worker(place.port, self.address, "events/made")
        self.producer = Producer(place.port, self.address)
        self.feed(b"old")
        self.txn_id = self.first.controller.declare()
        self.first.work(self.txn_id, self.first.events(PARTITIONS), settled=settled)
        self.second = Worker(place.port, self.address, "events/made")

    def feed(self, body: bytes) -> None:
        """An event in each partition."""
        for partition in range(PARTITIONS):
            self.producer.send(b"%s %d" % (body, partition), partition=partition)


@pytest.mark.parametrize("settled", [True, False])
def test_a_partition_waits_for_a_transaction_that_retires_its_events(patient: Place, settled: bool) -> None:
    """It moves when that is committed, behind these events: each is consumed once."""
    story = Story(patient, settled=settled)
    wait_until(lambda: patient.moving(story.address) == 2, "the group to deal anew")
    assert story.first.controller.discharge(story.txn_id).matches("accepted")
    wait_until(lambda: patient.moving(story.address) == 0, "two partitions to move")
    story.feed(b"new")
    found = [*story.first.consume(2), *story.second.consume(2)]
    assert sorted(found) == [b"new %d" % partition for partition in range(PARTITIONS)]


def test_what_is_rolled_back_meanwhile_goes_to_the_new_owner(patient: Place) -> None:
    story = Story(patient, settled=True)
    wait_until(lambda: patient.moving(story.address) == 2, "the group to deal anew")
    assert story.first.controller.discharge(story.txn_id, fail=True).matches("accepted")
    found = [*story.second.consume(2), *story.first.consume(2)]
    assert sorted(found) == [b"old %d" % partition for partition in range(PARTITIONS)]


@pytest.mark.parametrize("settled", [True, False])
def test_a_transaction_that_takes_too_long_loses_the_partition_and_cannot_be_committed(
    hasty: Place, settled: bool
) -> None:
    """Its new owner gets the events again, and so does the old one in the partitions that it has kept."""
    story = Story(hasty, settled=settled)
    moved = story.second.consume(2)
    assert len(set(moved)) == 2
    error = story.first.controller.discharge(story.txn_id)["error"]
    assert error["condition"] == "amqp:transaction:rollback"
    assert "another one has taken over its position" in error["description"]
    if settled:
        moved += story.first.consume(2)
        assert sorted(moved) == [b"old %d" % partition for partition in range(PARTITIONS)]
