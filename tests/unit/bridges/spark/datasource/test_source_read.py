"""Where the data source ends a range that has fewer events than offsets, and finds a time: in the log, nowhere else.

A node that does not reach its log gives credit back as if nothing more were there; it says so in `$info`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bridges.spark.datasource import plan
from bridges.spark.datasource.options import read_options
from bridges.spark.datasource.plan import INFO, OffsetBounds, OffsetRange
from bridges.spark.datasource.read import events
from bridges.spark.errors import PipelineError
from gateway.amqp.message import sections
from tests.support.spark.pipeline import Record, event

OPTIONS = read_options({"url": "amqp://peer", "address": "events/orders"})


def come(*offsets: int) -> list[bytes]:
    """Events of partition 0 as a gateway delivers them."""
    return [event(Record(0, offset, None, b"%d" % offset, (), (1, 1000))) for offset in offsets]


class Peer:
    """A client whose peer does what a script says: a lot each time it is asked for some, and what `$info` tells."""

    def __init__(self, lots: list[list[bytes]], current: list[bool]) -> None:
        self.lots, self.current = lots, current
        self.link = SimpleNamespace(source=SimpleNamespace(filter={"position": None}))

    def receiver(self, address: str, **_: Any) -> Any:
        if not address.endswith(INFO):
            return self
        about = {"partitions": [], **({} if self.current.pop(0) else {"current": False})}
        reported = sections.section(sections.AMQP_VALUE, about)
        return SimpleNamespace(take=lambda count, idle: [reported], close=lambda: None)

    def wait(self, condition: Any, seconds: float) -> bool:
        return False

    def take(self, count: int, idle: float) -> list[bytes]:
        return self.lots.pop(0)

    def rest(self) -> list[bytes]:
        return self.lots.pop(0)

    def close(self) -> None: ...

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None: ...


def read(peer: Peer) -> list[int]:
    line: Any = SimpleNamespace(client=lambda: peer)
    return [
        offset for batch in events(line, OPTIONS, OffsetRange(0, 0, 9)) for offset in batch.column("offset").to_pylist()
    ]


def test_nothing_more_is_the_end_when_the_log_was_reached_before_and_after() -> None:
    peer = Peer([come(0, 1), [], [], [], come(4)], [False, True])
    assert read(peer) == [0, 1]
    assert peer.lots == [come(4)]


def test_a_log_that_is_not_reached_is_no_end() -> None:
    peer = Peer([come(0, 1), [], []], [False, False, False])
    with pytest.raises(PipelineError, match=r"^events/orders at amqp://peer:5672 cannot reach its log"):
        read(peer)


def test_what_comes_after_all_counts_and_the_end_is_asked_for_again() -> None:
    peer = Peer([come(0), [], [], come(3), [], []], [True, True])
    assert read(peer) == [0, 3]
    assert peer.lots == peer.current == []


# -- times

AWAY = r"^events/orders at amqp://peer:5672 cannot reach its log at the moment: try again later$"


def first_since(monkeypatch: pytest.MonkeyPatch, peer: Peer) -> int:
    """What is found of a time in partition 0, which holds [0, 7)."""
    monkeypatch.setattr(plan, "BlockingClient", lambda *_: peer)
    return plan.since(OPTIONS, {0: OffsetBounds(0, 7)}, 1000)[0]


@pytest.mark.parametrize(
    ("lots", "current", "offset"),
    [
        ([come(4)], [], 4),
        ([[], come(4)], [], 4),
        ([[], [], []], [True], 7),
        ([[], [], come(4)], [False, True], 4),
        ([come(9)], [], 7),
    ],
    ids=["there is one", "the drain brings it", "there is none", "the log was away", "it came since"],
)
def test_a_time_is_the_first_event_since(
    monkeypatch: pytest.MonkeyPatch, lots: list[list[bytes]], current: list[bool], offset: int
) -> None:
    peer = Peer(lots, current)
    assert first_since(monkeypatch, peer) == offset
    assert peer.lots == peer.current == []


def test_a_log_that_is_not_reached_has_no_first_event_since_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer([[], []], [False, False, False])
    with pytest.raises(PipelineError, match=AWAY):
        first_since(monkeypatch, peer)


def test_bounds_are_those_of_a_log_that_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "BlockingClient", lambda *_: peer)
    peer = Peer([], [False, True])
    assert plan.fetch_current_info(OPTIONS).current
    peer = Peer([], [False, False, False])
    with pytest.raises(PipelineError, match=AWAY):
        plan.fetch_current_info(OPTIONS)
    assert peer.current == []
