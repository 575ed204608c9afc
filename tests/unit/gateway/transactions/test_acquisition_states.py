"""The states of an acquisition: every event in every state, and what each outcome of its messages leads to."""

from __future__ import annotations

from itertools import product

import pytest

from gateway.transactions.acquisition_states import (
    OUTCOMES,
    TRANSITIONS,
    AcquisitionAction,
    AcquisitionEvent,
    AcquisitionState,
    OutcomeAction,
    Told,
)

S, E, A, O = AcquisitionState, AcquisitionEvent, AcquisitionAction, OutcomeAction  # noqa: E741


def walk(*events: AcquisitionEvent) -> list[AcquisitionAction]:
    """What these events lead to, from the beginning."""
    state, actions = S.ACQUIRING, []
    for event in events:
        state, action = TRANSITIONS[state][event]
        actions.append(action)
    return actions


def test_the_tables_have_every_state_and_event_and_no_other() -> None:
    assert set(TRANSITIONS) == set(OUTCOMES) == set(S)
    assert all(set(row) == set(E) for row in TRANSITIONS.values())
    assert all(set(row) == set(Told) for row in OUTCOMES.values())


@pytest.mark.parametrize(
    ("events", "actions"),
    [
        ((E.DISCHARGE, E.COMMITTED, E.FORGOTTEN), [A.HALT, A.KEEP, A.RESUME]),
        ((E.DISCHARGE, E.ROLLED_BACK, E.FORGOTTEN), [A.HALT, A.GIVE_BACK, A.RESUME]),
        ((E.FAILED, E.DISCHARGE, E.ROLLED_BACK, E.FORGOTTEN), [A.HALT, A.PROCEED, A.GIVE_BACK, A.RESUME]),
        ((E.ROLLED_BACK, E.FAILED, E.FORGOTTEN), [A.GIVE_BACK, A.PROCEED, A.RESUME]),  # its time is over
        ((E.DISCHARGE, E.FAILED, E.COMMITTED), [A.HALT, A.PROCEED, A.KEEP]),
        ((E.FORGOTTEN, E.FAILED, E.DISCHARGE, E.COMMITTED, E.ROLLED_BACK), [A.RESUME, *[A.PROCEED] * 4]),
    ],
)
def test_the_way_of_a_transaction(events: tuple[AcquisitionEvent, ...], actions: list[AcquisitionAction]) -> None:
    assert walk(*events) == actions


@pytest.mark.parametrize(("state", "event"), [*product(S, E)])
def test_only_the_end_of_a_transaction_lets_a_link_go_on(state: AcquisitionState, event: AcquisitionEvent) -> None:
    step = TRANSITIONS[state][event]
    assert step.state is not S.ACQUIRING
    assert (step.action is A.RESUME) == (event is E.FORGOTTEN and state is not S.ENDED)
    assert (step.action is A.GIVE_BACK) == (event is E.ROLLED_BACK and state is not S.ENDED)


@pytest.mark.parametrize("state", [S.ACQUIRING, S.HALTED])
def test_outcomes_before_the_discharge_are_in_the_same_transaction(state: AcquisitionState) -> None:
    assert OUTCOMES[state] == {
        Told.HERE: O.RETIRE,
        Told.ELSEWHERE: O.VIOLATE,
        Told.OUTSIDE: O.VIOLATE,
        Told.FORGOTTEN: O.RETIRE_DEFAULT,
    }


def test_outcomes_after_the_discharge_wait_for_its_answer() -> None:
    row = OUTCOMES[S.ENDING]
    assert row[Told.OUTSIDE] is O.HOLD
    assert row[Told.FORGOTTEN] is O.HOLD_DEFAULT
    assert row[Told.ELSEWHERE] is O.VIOLATE
