"""Error conditions and outcomes as Event Hubs' clients expect them, so that their retries do what is right. Pure."""

from __future__ import annotations

from typing import Final

from gateway.amqp.link.outcomes import Modified, Outcome, Rejected, Released
from gateway.errors import (
    DECODE_ERROR,
    INTERNAL_ERROR,
    INVALID_FIELD,
    NOT_FOUND,
    RESOURCE_LIMIT_EXCEEDED,
    RESOURCE_LOCKED,
    STOLEN,
    AmqpError,
    Fault,
)

SERVER_BUSY: Final = "com.microsoft:server-busy"
TIMEOUT: Final = "com.microsoft:timeout"
OUT_OF_RANGE: Final = "com.microsoft:argument-out-of-range"
_NEVER_RIGHT: Final = frozenset((DECODE_ERROR, INVALID_FIELD))
"""What no try will mend. The client for Go does not know these, connects again and tries for half a minute."""
_NO_ENTITY: Final = "The messaging entity of this address could not be found"
"""Without these words of the service, the client for Java takes `amqp:not-found` for something that will pass."""
_STATUS: Final = {
    "amqp:unauthorized-access": 401,
    "amqp:not-found": 404,
    "amqp:resource-limit-exceeded": 403,
    "amqp:not-allowed": 403,
    "amqp:not-implemented": 501,
    SERVER_BUSY: 503,
    INTERNAL_ERROR: 500,
}
_BAD_REQUEST: Final = 400


def error_of(error: AmqpError) -> AmqpError:
    """The error of an attach, link or message, by which all of the clients know whether to try again.

    A lost owner level is `amqp:link:stolen`, a backend that is away is busy, and a mistake is out of range.
    """
    if error.condition in _NEVER_RIGHT:
        return _other(error, OUT_OF_RANGE, error.description)
    if error.condition == NOT_FOUND and _NO_ENTITY not in error.description:
        return _other(error, NOT_FOUND, f"{_NO_ENTITY}: {error.description}")
    if error.condition == RESOURCE_LOCKED:
        text = "a receiver with a higher owner level (epoch) reads this partition in this consumer group"
        return _other(error, STOLEN, text)
    if error.condition == INTERNAL_ERROR and error.fault is not Fault.PEER:
        return _other(error, SERVER_BUSY, f"{error.description}; try again")
    return error


def named(error: AmqpError, address: str, hub: str) -> AmqpError:
    """The error with the name of the event hub, which the client knows, for the address that the policy maps it to."""
    return _other(error, error.condition, error.description.replace(address, hub))


def _other(error: AmqpError, condition: str, text: str) -> AmqpError:
    return AmqpError(condition, text, info=error.info, fault=error.fault, scope=error.scope)


def outcome_of(outcome: Outcome) -> Outcome:
    """The outcome of a message of the client, which knows only accepted and rejected.

    The one for Go takes released and modified for accepted.
    """
    if isinstance(outcome, Released):
        return Rejected(AmqpError(SERVER_BUSY, "the event was not written; try again", fault=Fault.BACKEND))
    if isinstance(outcome, Modified):
        text = "there was no answer in time: the event may have been written; try again"
        return Rejected(AmqpError(TIMEOUT, text, fault=Fault.BACKEND))
    if not isinstance(outcome, Rejected) or outcome.error is None:
        return outcome
    if outcome.error.condition == RESOURCE_LIMIT_EXCEEDED:  # of memory, which is there again when others are done
        return Rejected(_other(outcome.error, SERVER_BUSY, outcome.error.description))
    told = error_of(outcome.error)
    return outcome if told is outcome.error else Rejected(told)


def status_of(error: AmqpError) -> int:
    """The status code of a request that failed."""
    return _STATUS.get(error.condition, _BAD_REQUEST)
