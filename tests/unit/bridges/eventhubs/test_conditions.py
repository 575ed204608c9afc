"""Errors and outcomes on which Event Hubs' clients retry, or do not."""

from __future__ import annotations

import pytest

from bridges.eventhubs.conditions import error_of, outcome_of, status_of
from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, Rejected
from gateway.errors import (
    INTERNAL_ERROR,
    NOT_FOUND,
    RESOURCE_LOCKED,
    UNAUTHORIZED_ACCESS,
    AmqpError,
    Fault,
)


@pytest.mark.row("EH-7", "EH-11")
def test_conditions_of_links() -> None:
    assert error_of(AmqpError(RESOURCE_LOCKED, "x")).condition == "amqp:link:stolen"
    assert error_of(AmqpError(INTERNAL_ERROR, "x", fault=Fault.BACKEND)).condition == "com.microsoft:server-busy"
    assert error_of(AmqpError(NOT_FOUND, "x")).condition == NOT_FOUND


@pytest.mark.row("EH-11")
def test_outcomes_are_accepted_or_rejected() -> None:
    assert outcome_of(ACCEPTED) is ACCEPTED
    for outcome, condition in ((RELEASED, "com.microsoft:server-busy"), (FAILED, "com.microsoft:timeout")):
        found = outcome_of(outcome)
        assert isinstance(found, Rejected)
        assert found.error is not None
        assert found.error.condition == condition
    rejected = Rejected(AmqpError(NOT_FOUND))
    assert outcome_of(rejected) is rejected


@pytest.mark.row("EH-3")
def test_status_codes() -> None:
    codes = [status_of(AmqpError(each)) for each in (UNAUTHORIZED_ACCESS, NOT_FOUND, INTERNAL_ERROR, "amqp:other")]
    assert codes == [401, 404, 500, 400]
