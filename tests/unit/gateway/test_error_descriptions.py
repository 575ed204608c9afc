"""The descriptions of errors that a peer receives, where a function alone makes them."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from bridges.kafka.common import errors
from gateway.amqp.codec.types import Described, Symbol
from gateway.amqp.link.outcomes import Rejected
from gateway.errors import AmqpError
from gateway.filters.parse import filter_set
from gateway.state.leases import lease

SQL = Symbol("amqp:sql-filter")

KAFKA = {
    KafkaError._UNKNOWN_PARTITION: "the partition does not exist",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic does not exist",
    KafkaError.MSG_SIZE_TOO_LARGE: "Kafka does not accept a record of this size",
    KafkaError.INVALID_RECORD: "the topic refuses the record, for example because it has no key",
    KafkaError.INVALID_TIMESTAMP: "the topic refuses the record's timestamp",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the gateway is not authorized to write to this topic",
}


@pytest.mark.parametrize("code", KAFKA)
def test_what_a_producer_reads(code: int) -> None:
    outcome = errors.failed(KafkaError(code))
    assert isinstance(outcome, Rejected)
    assert outcome.error.description == KAFKA[code]


LINKS = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "there is no event log behind this address",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the gateway is not authorized to use the event log behind this address",
    KafkaError._TRANSPORT: "the Kafka cluster behind this address does not answer; try again",
}


@pytest.mark.parametrize("code", LINKS)
def test_what_a_link_to_an_event_log_reads(code: int) -> None:
    assert errors.link_error(KafkaError(code)).description == LINKS[code]


def test_what_the_owner_of_a_partition_reads() -> None:
    assert [reason.value for reason in lease.RevocationReason] == [
        "a link with a greater epoch has taken the partition",
        "a link with the same epoch has taken the partition",
        "the gateway could not renew its lease of the partition; attach again",
        "the partitions of the group are being rebalanced; attach again",
    ]
    assert lease.unavailable().description == "the shared state of consumer groups is unavailable; attach again later"


FILTERS = {
    "the expressions of the filter set are too long in total": {
        Symbol(str(number)): Described(SQL, f"a.x = '{'x' * 4000}'") for number in range(3)
    },
    "the filters have too many terms in total": {
        Symbol(str(number)): Described(SQL, " OR ".join(["a.x = 1"] * 20)) for number in range(60)
    },
    "the filter set has 257 filters": {Symbol(str(number)): Described(SQL, "TRUE") for number in range(257)},
}


@pytest.mark.parametrize("text", FILTERS)
def test_what_a_link_with_too_much_of_filters_reads(text: str) -> None:
    with pytest.raises(AmqpError) as caught:
        filter_set.read(FILTERS[text])
    assert text in caught.value.description
