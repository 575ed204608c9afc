"""The states of a transaction: every event in every state is handled, and each end is reached once."""

from __future__ import annotations

from itertools import product

import pytest

from gateway.transactions.states import TRANSITIONS, TransactionAction, TransactionEvent, TransactionState

OVER = {TransactionState.COMMITTING, TransactionState.ROLLING_BACK, TransactionState.ENDED}


def test_the_table_has_every_state_and_event_and_no_other() -> None:
    assert set(TRANSITIONS) == set(TransactionState)
    assert all(set(row) == set(TransactionEvent) for row in TRANSITIONS.values())


@pytest.mark.parametrize(("state", "event"), [*product(TransactionState, TransactionEvent)])
def test_work_is_taken_only_by_an_active_transaction(state: TransactionState, event: TransactionEvent) -> None:
    step = TRANSITIONS[state][event]
    if event is TransactionEvent.WORK:
        assert (step.action is TransactionAction.PROCEED) == (state is TransactionState.ACTIVE)
        assert step.state is state
    if step.action is TransactionAction.COMMIT:
        assert (state, event) == (TransactionState.ACTIVE, TransactionEvent.COMMIT)
    if step.action is TransactionAction.ROLL_BACK:
        assert state in (TransactionState.ACTIVE, TransactionState.FAILED)
    if state in OVER:
        assert step.state in OVER
        assert step.action in (TransactionAction.PROCEED, TransactionAction.REFUSE)


@pytest.mark.parametrize("state", TransactionState)
def test_a_transaction_never_outlives_its_controller(state: TransactionState) -> None:
    assert TRANSITIONS[state][TransactionEvent.LOST].state in OVER
