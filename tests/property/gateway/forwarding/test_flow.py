"""What is under way in a bridge, whatever its two ends do: nothing lost, order kept, bounds held (KM-24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, Outcome, Rejected
from gateway.forwarding.checkpoints import Checkpoints
from gateway.forwarding.flow import InFlight, InFlightEvent
from gateway.routing.event_annotations import Event
from tests.support.plugins.examples import examples

CREDIT = 8
RARELY = st.integers(0, 5).map(lambda number: number == 5)


class Log:
    """A source link: gives events from a position on, as far as it was asked."""

    def __init__(self, machine: FlowMachine, begin: int) -> None:
        self.machine, self.next, self.granted = machine, begin, 0

    def ask(self, credit: int) -> None:
        assert credit > 0
        self.granted += credit

    def settle(self, item: InFlightEvent, outcome: Outcome) -> None:
        if item.source is self.machine.log:
            self.machine.marks.done(item.serial, "0")
            self.machine.settled.add(item.origin)


class FlowMachine(RuleBasedStateMachine):
    """The flow, with a log, a target and a clock played by hypothesis."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = InFlight(self, CREDIT, (1, 4))
        self.marks = Checkpoints({})
        self.timers: list[Callable[[], None]] = []
        self.valid = True
        self.at_target: list[InFlightEvent] = []
        self.waiting: set[int] = set()
        """Serials of what is here and not at the target."""
        self.sent: list[int] = []
        self.finally_done: set[int] = set()
        self.settled: set[int] = set()
        self.log: Log | None = None

    # the owner

    def later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.timers.append(call)

    def moved(self, item: InFlightEvent) -> None:
        self.finally_done.add(item.origin)

    def repeats(self, item: InFlightEvent, outcome: Outcome) -> None: ...

    def given_up(self, item: InFlightEvent, outcome: Outcome) -> None:
        self.finally_done.add(item.origin)

    # the ends

    def send(self, item: InFlightEvent) -> None:
        assert item.serial == min(self.waiting), "nothing newer goes before what came back"
        self.waiting.discard(item.serial)
        self.sent.append(item.origin)
        self.at_target.append(item)

    def _back(self, item: InFlightEvent) -> None:
        if item.source is self.log:
            self.waiting.add(item.serial)

    @rule(credit=st.integers(1, 20))
    def target_takes(self, credit: int) -> None:
        if self.flow._send is None:
            self.flow.target_open(self.send)
        self.flow.credited(credit)

    @rule(really=RARELY)
    def target_goes(self, really: bool = True) -> None:
        if not really:
            return
        for item in self.at_target:
            self._back(item)
        self.at_target.clear()
        self.flow.target_gone()

    @rule()
    def log_opens(self) -> None:
        if self.log is None:
            mark = self.marks.of("0")
            self.log = Log(self, 0 if mark is None else int(mark) + 1)
            self.marks.begin()
            self.flow.source_open(self.log)

    @rule(really=RARELY)
    def log_goes(self, really: bool = True) -> None:
        if not really:
            return
        self.log = None
        self.waiting.clear()
        self.flow.source_gone()

    @rule(count=st.integers(1, 10))
    def events_come(self, count: int) -> None:
        log = self.log
        for _ in range(min(count, log.granted) if log is not None else 0):
            assert log is not None
            log.granted -= 1
            serial = self.flow.came(log, log.next, Event(b"x" * 10, str(log.next)))
            self.waiting.add(serial)
            self.marks.came(serial, "0", str(log.next))
            log.next += 1
            self.flow.pump()

    @rule(at=st.integers(0, 30), outcome=st.sampled_from([ACCEPTED, ACCEPTED, RELEASED, FAILED, Rejected(None)]))
    def target_answers(self, at: int, outcome: Outcome) -> None:
        if self.at_target:
            item = self.at_target.pop(at % len(self.at_target))
            if outcome in (RELEASED, FAILED):
                self._back(item)
            self.flow.outcome(item, outcome)

    @rule()
    def time_passes(self) -> None:
        timers, self.timers = self.timers, []
        for call in timers:
            call()

    # what holds

    @invariant()
    def bounded(self) -> None:
        asked = self.log.granted if self.log is not None else 0
        under_way = [item for item in self.at_target if item.source is not self.log]
        assert self.flow.held - len(under_way) + asked <= CREDIT

    @invariant()
    def nothing_skipped(self) -> None:
        """Whatever is sent for the first time follows all that was sent before; the position passes nothing undone."""
        first = list(dict.fromkeys(self.sent))
        assert first == sorted(first)
        mark = self.marks.of("0")
        done = -1 if mark is None else int(mark)
        assert set(range(done + 1)) <= self.finally_done

    def teardown(self) -> None:
        """When both ends are good again, all that was asked for gets there, and nothing is left here."""
        self.log_opens()
        for _ in range(200):
            self.target_takes(1)
            self.time_passes()
            while self.at_target:
                self.flow.outcome(self.at_target.pop(0), ACCEPTED)
        assert self.flow.held == 0
        assert self.log is not None
        assert set(range(self.log.next)) <= self.finally_done


TestFlow = FlowMachine.TestCase
TestFlow.settings = settings(max_examples=examples(150), stateful_step_count=60, deadline=None)


def test_what_came_back_goes_before_what_came_since() -> None:
    machine = FlowMachine()
    machine.log_opens()
    machine.target_takes(20)
    machine.events_come(3)
    machine.target_answers(0, RELEASED)
    machine.events_come(3)
    assert machine.sent == [0, 1, 2]
    machine.time_passes()
    assert machine.sent == [0, 1, 2, 0, 3, 4, 5]


def test_marks_count_what_is_done_without_a_gap() -> None:
    marks = Checkpoints({"1": "kept"})
    for serial, offset in enumerate("abcd"):
        marks.came(serial, "0", offset)
    for serial in (1, 3):
        marks.done(serial, "0")
    assert marks.of("0") is None
    assert not marks.take_changed()
    marks.done(0, "0")
    assert marks.of("0") == "b"
    assert marks.of("1") == "kept"
    assert marks.take_changed() == {"0": "b"}
    marks.begin()
    marks.done(2, "0")  # of the link before
    marks.came(4, "0", "c")
    marks.done(4, "0")
    assert marks.take_changed() == {"0": "c"}
