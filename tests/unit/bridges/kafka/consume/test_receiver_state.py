"""A receive link on an event log handles or refuses every event in every state (AMQP 2.6.7)."""

from __future__ import annotations

from itertools import product

import pytest

from bridges.kafka.common.states import TransitionRefused, next_state
from bridges.kafka.links.receiver_state import TRANSITIONS
from bridges.kafka.links.receiver_state import ReceiverEvent as E
from bridges.kafka.links.receiver_state import ReceiverState as S

REFUSED = {
    (S.ATTACHING, E.DRAIN), (S.ATTACHING, E.ENDS_FOUND), (S.ATTACHING, E.DRAIN_OVER),
    (S.DELIVERING, E.ATTACHED), (S.DELIVERING, E.ENDS_FOUND), (S.DELIVERING, E.DRAIN_OVER),
    (S.FINDING_ENDS, E.ATTACHED),
    (S.DRAINING, E.ATTACHED), (S.DRAINING, E.ENDS_FOUND),
    (S.ENDED, E.ATTACHED), (S.ENDED, E.DRAIN), (S.ENDED, E.ENDS_FOUND),
}  # fmt: skip
"""What the code asks about before it happens: a drain of a link that is closed, an answer that nobody asked for."""


@pytest.mark.parametrize(("state", "event"), list(product(S, E)))
def test_every_event_in_every_state_is_handled_or_refused(state: S, event: E) -> None:
    if (state, event) in REFUSED:
        with pytest.raises(TransitionRefused, match=f"{event} cannot happen in {state}"):
            next_state(TRANSITIONS, state, event)
    else:
        assert next_state(TRANSITIONS, state, event) in S


def test_a_drain_goes_by_way_of_the_ends_and_can_come_again() -> None:
    state = S.ATTACHING
    for event in (E.ATTACHED, *(E.DRAIN, E.DRAIN, E.ENDS_FOUND, E.DRAIN, E.DRAIN_OVER) * 2):
        state = next_state(TRANSITIONS, state, event)
    assert state is S.DELIVERING


@pytest.mark.parametrize("state", S)
def test_a_link_can_end_in_every_state_and_stays_ended(state: S) -> None:
    assert next_state(TRANSITIONS, state, E.DETACHED) is S.ENDED
    assert set(TRANSITIONS[S.ENDED].values()) == {S.ENDED}
