"""A house whose host sends as many messages as it gets credit for."""

from __future__ import annotations

import time

import pytest

from tests.unit.gateway.amqp.transport.test_many_outcomes import Sends
from tests.unit.gateway.amqp.transport.test_turns import Clock, House


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    monkeypatch.setattr(time, "thread_time", clock)
    house = House(clock)
    house.host = Sends(clock)
    return house
