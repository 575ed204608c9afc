"""A link that shares the partitions of its group handles or refuses every event of each in every state (KM-10)."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from bridges.kafka.common.states import TransitionRefused, next_state
from bridges.kafka.groups.partition_state import TRANSITIONS
from bridges.kafka.groups.partition_state import PartitionEvent as E
from bridges.kafka.groups.partition_state import PartitionState as S

ACQUIRED = {S.READING, S.SETTLING, S.RELEASED, S.ENDED}
REFUSED = {
    *product(ACQUIRED, (E.ACQUIRED, E.REFUSED)),  # a position is asked for once
    *product(set(S) - {S.SETTLING, S.RELEASED}, [E.SETTLED]),  # outcomes are awaited only then
}


@pytest.mark.parametrize(("state", "event"), list(product(S, E)))
def test_every_event_in_every_state_is_handled_or_refused(state: S, event: E) -> None:
    if (state, event) in REFUSED:
        with pytest.raises(TransitionRefused, match=f"{event} cannot happen in {state}"):
            next_state(TRANSITIONS, state, event)
    else:
        assert next_state(TRANSITIONS, state, event) in S


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ((E.ACQUIRED, E.REVOKED, E.SETTLED), S.RELEASED),
        ((E.ACQUIRED, E.REVOKED, E.LOST, E.REVOKED, E.SETTLED, E.SETTLED), S.RELEASED),
        ((E.ACQUIRED, E.LOST, E.LOST), S.RELEASED),
        ((E.ACQUIRED, E.REVOKED, E.DETACHED, E.SETTLED), S.RELEASED),
        ((E.ACQUIRED, E.DETACHED, E.REVOKED, E.LOST), S.ENDED),
        ((E.REVOKED, E.LOST, E.DETACHED, E.ACQUIRED), S.RELEASED),
        ((E.REFUSED, E.REVOKED), S.RELEASED),
        ((E.DETACHED, E.REFUSED), S.RELEASED),
    ],
)
def test_a_partition_that_is_taken_up_is_given_back_once(events: tuple[E, ...], end: S) -> None:
    passed = [S.ACQUIRING]
    for event in events:
        passed.append(next_state(TRANSITIONS, passed[-1], event))
    assert passed[-1] is end
    entered = [now for before, now in pairwise(passed) if now is not before]
    assert entered.count(S.RELEASED) + entered.count(S.ENDED) == 1
