"""What each error of Kafka means to whoever sent the record: exactly one outcome for each (KM-15)."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from bridges.kafka.common.errors import failed, refused
from gateway.amqp.link.outcomes import Modified, Outcome, Rejected, Released

REJECTED = {
    KafkaError.MSG_SIZE_TOO_LARGE: "amqp:link:message-size-exceeded",
    KafkaError.RECORD_LIST_TOO_LARGE: "amqp:link:message-size-exceeded",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "amqp:unauthorized-access",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "amqp:unauthorized-access",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "amqp:not-found",
    KafkaError._UNKNOWN_TOPIC: "amqp:not-found",
    KafkaError._UNKNOWN_PARTITION: "amqp:not-found",
    KafkaError.INVALID_RECORD: "amqp:invalid-field",
    KafkaError.INVALID_TIMESTAMP: "amqp:invalid-field",
}
UNKNOWN = [
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._PURGE_INFLIGHT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.KAFKA_STORAGE_ERROR,
]


def condition(outcome: Outcome) -> str:
    assert type(outcome) is Rejected
    assert outcome.error is not None
    return outcome.error.condition


@pytest.mark.parametrize("code", REJECTED, ids=lambda code: KafkaError(code).name())
def test_a_definitive_refusal_is_rejected(code: int) -> None:
    assert condition(failed(KafkaError(code))) == REJECTED[code]
    assert condition(refused(KafkaError(code))) == REJECTED[code]


@pytest.mark.parametrize("code", UNKNOWN, ids=lambda code: KafkaError(code).name())
def test_what_may_have_been_written_is_modified_and_never_released(code: int) -> None:
    outcome = failed(KafkaError(code))
    assert type(outcome) is Modified
    assert (outcome.failed, outcome.undeliverable) == (True, False)


@pytest.mark.parametrize("code", [KafkaError._QUEUE_FULL, KafkaError._STATE], ids=["full", "state"])
def test_what_has_not_left_the_process_is_released(code: int) -> None:
    assert type(refused(KafkaError(code))) is Released
    assert condition(refused(KafkaError(KafkaError._INVALID_ARG))) == "amqp:invalid-field"


def test_a_batch_that_is_refused_for_another_record() -> None:
    """Sure not to be written: released. With a key it is hardly the cause, and nobody knows: modified."""
    assert type(failed(KafkaError(KafkaError._INVALID_DIFFERENT_RECORD))) is Released
    assert type(failed(KafkaError(KafkaError.INVALID_RECORD), keyed=True)) is Modified
