"""Kafka errors as AMQP outcomes of sent messages (KM-15) and as errors of links (0.3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from gateway.amqp.link.outcomes import FAILED, RELEASED, Outcome, Rejected
from gateway.errors import (
    INTERNAL_ERROR,
    INVALID_FIELD,
    MESSAGE_SIZE_EXCEEDED,
    NOT_FOUND,
    UNAUTHORIZED_ACCESS,
    AmqpError,
    Fault,
)

UNKNOWN_TOPIC: Final = frozenset(
    {KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}
)
UNAUTHORIZED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)

TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})

# Definitive refusals only: after any other error, such as a time-out, the record may have been written.
_REFUSALS: Final[dict[int, tuple[str, str]]] = {
    **dict.fromkeys(TOO_LARGE, (MESSAGE_SIZE_EXCEEDED, "Kafka does not accept a record of this size")),
    KafkaError.INVALID_RECORD: (INVALID_FIELD, "the topic refuses the record, for example because it has no key"),
    KafkaError.INVALID_TIMESTAMP: (INVALID_FIELD, "the topic refuses the record's timestamp"),
    KafkaError._UNKNOWN_PARTITION: (NOT_FOUND, "the partition does not exist"),
    **dict.fromkeys(UNKNOWN_TOPIC, (NOT_FOUND, "the topic does not exist")),
    **dict.fromkeys(UNAUTHORIZED, (UNAUTHORIZED_ACCESS, "the gateway is not authorized to write to this topic")),
}


def refused(error: KafkaError) -> Outcome:
    """The outcome of a record that the client itself refused, so that it was certainly not written."""
    if (known := _REFUSALS.get(error.code())) is not None:
        return Rejected(AmqpError(*known))
    if error.code() == KafkaError._INVALID_ARG:
        return Rejected(AmqpError(INVALID_FIELD, "the record is not valid for Kafka"))
    return RELEASED


def failed(error: KafkaError, *, keyed: bool = False) -> Outcome:
    """The outcome for the error of a delivery report.

    A broker refuses a whole batch because of one record, and librdkafka tells which one only if the batch has several.
    Most records are refused because they have no key, so a record with a key may be sent again.
    """
    if error.code() == KafkaError._INVALID_DIFFERENT_RECORD:
        return RELEASED
    if keyed and error.code() == KafkaError.INVALID_RECORD:
        return FAILED
    known = _REFUSALS.get(error.code())
    return FAILED if known is None else Rejected(AmqpError(*known))


def cause_of(error: KafkaException) -> KafkaError:
    """The error that an exception of the client carries."""
    cause: KafkaError = error.args[0]
    return cause


@contextmanager
def making_client(bootstrap: object) -> Iterator[None]:
    """Raise `AmqpError` for settings of which no client can be made, such as a key that is not the certificate's."""
    try:
        yield
    except KafkaException as error:
        text = f"no client of Kafka at {bootstrap} can be made: {cause_of(error).str()}"
        raise AmqpError(INTERNAL_ERROR, text) from None


def link_error(error: KafkaError) -> AmqpError:
    """The error for a link; it does not have the name of the topic, because the peer may be in another scope."""
    if error.code() in UNKNOWN_TOPIC:
        return AmqpError(NOT_FOUND, "there is no event log behind this address")
    if error.code() in UNAUTHORIZED:
        return AmqpError(UNAUTHORIZED_ACCESS, "the gateway is not authorized to use the event log behind this address")
    return unreachable()


def unreachable() -> AmqpError:
    """The error while Kafka does not answer: the peer may try again."""
    return AmqpError(
        INTERNAL_ERROR, "the Kafka cluster behind this address does not answer; try again", fault=Fault.BACKEND
    )
