"""Error conditions and outcomes as Event Hubs' clients expect them, so that their retries do what is right. Pure."""

from __future__ import annotations

from typing import Final

from gateway.amqp.link.outcomes import Modified, Outcome, Rejected, Released
from gateway.errors import INTERNAL_ERROR, RESOURCE_LOCKED, STOLEN, AmqpError, Fault

SERVER_BUSY: Final = "com.microsoft:server-busy"
TIMEOUT: Final = "com.microsoft:timeout"
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
    """The error of an attach or link: a lost owner level is `amqp:link:stolen`, a backend that is away is busy."""
    if error.condition == RESOURCE_LOCKED:
        text = "a receiver with a higher owner level (epoch) reads this partition in this consumer group"
        return _other(error, STOLEN, text)
    if error.condition == INTERNAL_ERROR and error.fault is not Fault.PEER:
        return _other(error, SERVER_BUSY, f"{error.description}; try again")
    return error


def _other(error: AmqpError, condition: str, text: str) -> AmqpError:
    return AmqpError(condition, text, info=error.info, fault=error.fault, scope=error.scope)


def outcome_of(outcome: Outcome) -> Outcome:
    """The outcome of a message of the client: these clients know only accepted and rejected."""
    if isinstance(outcome, Released):
        return Rejected(AmqpError(SERVER_BUSY, "the event was not written; try again", fault=Fault.BACKEND))
    if isinstance(outcome, Modified):
        text = "there was no answer in time: the event may have been written; try again"
        return Rejected(AmqpError(TIMEOUT, text, fault=Fault.BACKEND))
    return outcome


def status_of(error: AmqpError) -> int:
    """The status code of a request that failed."""
    return _STATUS.get(error.condition, _BAD_REQUEST)
