"""Events that are done together move a position as each of them alone."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridges.kafka.links.progress import Progress
from bridges.kafka.records.event import EncodedEvent
from tests.support.plugins.examples import examples

PARTITIONS = 2
STEPS = st.lists(
    st.tuples(st.sampled_from(["sent", "done", "forget"]), st.lists(st.integers(0, 9), max_size=6), st.integers(0, 1)),
    max_size=12,
)


@example([("sent", [0, 0, 0], 0), ("done", [1], 0), ("done", [0], 0), ("done", [2], 0)])
@settings(max_examples=examples(400), deadline=None)
@given(STEPS)
def test_events_that_are_done_together(steps: list[tuple[str, list[int], int]]) -> None:
    """Outcomes in any order, of both partitions, of events that were never sent, and twice."""
    ours, single, ends = Progress(), Progress(), [0] * PARTITIONS
    for kind, numbers, partition in steps:
        if kind == "sent":
            offsets = [ends[partition] + number for number in range(len(numbers))]
            ends[partition] += len(numbers)
            for each in (ours, single):
                each.sent(partition, offsets)
        elif kind == "done":
            ours.done_all([EncodedEvent(b"", (partition + number // 5) % PARTITIONS, number) for number in numbers])
            for number in numbers:
                single.done((partition + number // 5) % PARTITIONS, number)
        else:
            ours.forget(partition), single.forget(partition)
        for at in range(PARTITIONS):
            assert ours.position(at, ends[at]) == single.position(at, ends[at])
            assert ours.after(at, numbers) == single.after(at, numbers)
