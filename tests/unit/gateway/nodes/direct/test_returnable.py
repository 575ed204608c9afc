"""How a direct node sends a message: only one that is settled and acquired in a transaction can come back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, SETTLED, Outcome
from gateway.nodes.direct.returnable import send


class World:
    """The node, its receiver and its sender at once, which keep what is said to them."""

    scope, requester, context, rejects, open = "edge", None, SimpleNamespace(), False, False

    def __init__(self, acquiring: bool) -> None:
        self.acquiring, self.kept, self.log = acquiring, 0, list[Any]()
        self.sent: list[tuple[Any, ...]] = []

    def send(self, *what: Any) -> None:
        self.sent.append(what)

    def keep(self, size: int) -> None:
        self.kept += size

    def settle(self, delivery: int, outcome: Outcome) -> None:
        self.log.append((delivery, outcome))

    def take_back(self, link: Any, delivery: int, data: bytes) -> None:
        self.log.append((link, delivery, data))

    def tag(self, delivery: int) -> bytes:
        return b"tag"


def sent(world: Any, *, settled: bool) -> tuple[Any, ...]:
    send(world, world, world, 7, b"changed", settled, b"original")
    (what,) = world.sent
    return tuple(what)


@pytest.mark.parametrize("acquiring", [False, True])
def test_an_unsettled_message_waits_for_its_outcome(acquiring: bool) -> None:
    world = World(acquiring)
    assert sent(world, settled=False) == (b"changed", (world, 7))
    assert world.log == []


def test_a_settled_message_is_settled_and_gone() -> None:
    world = World(acquiring=False)
    assert sent(world, settled=True) == (b"changed", None, True)
    assert world.log == [(7, SETTLED)]


@pytest.mark.parametrize("outcome", [ACCEPTED, RELEASED])
def test_a_settled_message_that_is_acquired_is_kept_as_it_came(outcome: Outcome) -> None:
    world = World(acquiring=True)
    data, (origin, delivery) = sent(world, settled=True)
    assert (data, delivery, world.kept) == (b"changed", 7, len(b"original"))
    assert (origin.tag(7), origin.open, origin.rejects, origin.scope) == (b"tag", True, True, "edge")
    origin.settle(delivery, outcome)
    assert world.kept == 0
    assert world.log == [(world, 7, b"original") if outcome is RELEASED else (7, SETTLED)]
