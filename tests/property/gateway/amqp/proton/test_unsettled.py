"""What is kept of deliveries until their outcome comes: as a dict does it, in whatever order the outcomes come."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.amqp.proton._batch import Unsettled


class WeakContext(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.unsettled: Unsettled[None] = Unsettled(None)
        self.model: dict[int, tuple[int, object]] = {}
        self.last = 0

    @rule(steps=st.lists(st.integers(1, 4) | st.integers(1, 2**40), max_size=300), size=st.integers(0, 2**20))
    def sent(self, steps: list[int], size: int) -> None:
        for step in steps:
            self.last += step
            self.model[self.last] = size, object()
            self.unsettled.add(self.last, size, self.model[self.last][1])

    @precondition(lambda self: self.model)
    @rule(places=st.lists(st.integers(0, 2**16), max_size=200))
    def settled_in_any_order(self, places: list[int]) -> None:
        for place in places:
            if self.model:
                self._take(list(self.model)[place % len(self.model)])

    @rule(count=st.integers(1, 2000))
    def settled_as_sent(self, count: int) -> None:
        for number in list(self.model)[:count]:
            self._take(number)

    def _take(self, number: int) -> None:
        assert number in self.unsettled
        instead = (self,) if number % 2 else ()
        assert self.unsettled.take(number, *instead) is self.model.pop(number)[1]
        assert number not in self.unsettled

    @rule(number=st.integers(0, 2**64 - 1) | st.integers(0, 3000))
    def unknown(self, number: int) -> None:
        assert (number in self.unsettled) == (number in self.model)
        if number not in self.model:
            with pytest.raises(KeyError):
                self.unsettled.take(number)
            assert self.unsettled.take(number, self) is self

    @rule()
    def all_taken(self) -> None:
        contexts = [context for _, context in self.model.values()]
        assert self.unsettled.take_all() == contexts
        self.model.clear()

    @invariant()
    def the_same(self) -> None:
        assert len(self.unsettled) == len(self.model)
        assert self.unsettled.bytes == sum(size for size, _ in self.model.values())
        assert self.unsettled.contexts == [context for _, context in self.model.values()]


TestKept = WeakContext.TestCase


def test_numbers_only_grow() -> None:
    unsettled: Unsettled[None] = Unsettled(None)
    unsettled.add(7, 1, "first")
    for number in (7, 6, 0):
        with pytest.raises(ValueError, match="grow"):
            unsettled.add(number, 1, "again")
    assert unsettled.contexts == ["first"]


def test_what_is_kept_and_its_owner_can_be_collected_together() -> None:
    class Owner:
        unsettled: Any

    owner = Owner()
    owner.unsettled = Unsettled(owner)
    owner.unsettled.add(1, 1, [owner])
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
