"""Errors and outcomes on which Event Hubs' clients retry, or do not."""

from __future__ import annotations

import re

import pytest

from bridges.eventhubs.conditions import OUT_OF_RANGE, error_of, outcome_of, status_of
from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, Rejected
from gateway.errors import (
    DECODE_ERROR,
    INTERNAL_ERROR,
    INVALID_FIELD,
    NOT_FOUND,
    RESOURCE_LIMIT_EXCEEDED,
    RESOURCE_LOCKED,
    UNAUTHORIZED_ACCESS,
    AmqpError,
    Fault,
)


@pytest.mark.row("EH-7", "EH-11")
def test_conditions_of_links() -> None:
    assert error_of(AmqpError(RESOURCE_LOCKED, "x")).condition == "amqp:link:stolen"
    assert error_of(AmqpError(INTERNAL_ERROR, "x", fault=Fault.BACKEND)).condition == "com.microsoft:server-busy"
    assert error_of(AmqpError(INVALID_FIELD, "x")).condition == "com.microsoft:argument-out-of-range"
    known = error_of(AmqpError(UNAUTHORIZED_ACCESS, "x"))
    assert (known.condition, known.description) == (UNAUTHORIZED_ACCESS, "x")


@pytest.mark.row("EH-11", part="unknown hubs")
def test_what_is_not_there_is_told_in_the_words_of_the_service() -> None:
    found = error_of(AmqpError(NOT_FOUND, "x"))
    assert found.condition == NOT_FOUND
    assert re.search("The messaging entity .* could not be found.*x", found.description)  # as the client for Java does
    assert error_of(found) is found


@pytest.mark.row("EH-11")
def test_outcomes_are_accepted_or_rejected() -> None:
    assert outcome_of(ACCEPTED) is ACCEPTED
    for outcome, condition in ((RELEASED, "com.microsoft:server-busy"), (FAILED, "com.microsoft:timeout")):
        found = outcome_of(outcome)
        assert isinstance(found, Rejected)
        assert found.error is not None
        assert found.error.condition == condition
    rejected = Rejected(AmqpError(UNAUTHORIZED_ACCESS))
    assert outcome_of(rejected) is rejected
    for error, condition in ((RESOURCE_LIMIT_EXCEEDED, "com.microsoft:server-busy"), (DECODE_ERROR, OUT_OF_RANGE)):
        found = outcome_of(Rejected(AmqpError(error, "x", info={"delivery-tag": b"t"})))
        assert isinstance(found, Rejected)
        assert found.error is not None
        assert (found.error.condition, found.error.info) == (condition, {"delivery-tag": b"t"})


@pytest.mark.row("EH-3")
def test_status_codes() -> None:
    codes = [status_of(AmqpError(each)) for each in (UNAUTHORIZED_ACCESS, NOT_FOUND, INTERNAL_ERROR, "amqp:other")]
    assert codes == [401, 404, 500, 400]
