"""What the answers of AMQP, Kafka and MQTT sinks mean (docs/subscriptions.md, Delivery)."""

from __future__ import annotations

import pytest

from bridges.cloudevents.delivery.answers import DeliveryOutcome
from bridges.cloudevents.sinks import kafka
from bridges.cloudevents.sinks.amqp.deliveries import answer_of, link_failure
from bridges.cloudevents.sinks.mqtt import connection
from bridges.kafka.produce.event_producer import EventReport, Written
from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, Modified, Outcome, Rejected
from gateway.errors import NOT_FOUND, UNAUTHORIZED_ACCESS, AmqpError


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (ACCEPTED, DeliveryOutcome.DONE),
        (Rejected(AmqpError("x:secret-condition", "words of the sink")), DeliveryOutcome.REFUSED),
        (Rejected(None), DeliveryOutcome.REFUSED),
        (Modified(failed=True, undeliverable=True), DeliveryOutcome.REFUSED),
        (RELEASED, DeliveryOutcome.FAILED),
        (Modified(failed=True), DeliveryOutcome.FAILED),
    ],
)
def test_outcomes_of_amqp(outcome: Outcome, verdict: DeliveryOutcome) -> None:
    answer = answer_of(outcome)
    assert answer.outcome is verdict
    assert "words of the sink" not in answer.reason


def test_links_that_amqp_refuses() -> None:
    assert link_failure(AmqpError(UNAUTHORIZED_ACCESS, "")).outcome is DeliveryOutcome.CREDENTIAL
    assert link_failure(AmqpError(NOT_FOUND, "")).outcome is DeliveryOutcome.SINK_FAILED
    assert link_failure(None).outcome is DeliveryOutcome.SINK_FAILED


@pytest.mark.parametrize(
    ("codes", "verdict"),
    [
        ((0x00, 0x10), DeliveryOutcome.DONE),
        ((0x90, 0x95, 0x99), DeliveryOutcome.REFUSED),
        ((0x87,), DeliveryOutcome.CREDENTIAL),
        ((0x89, 0x97), DeliveryOutcome.WAIT),
        ((0x80, 0x83, 0x91, 0x92), DeliveryOutcome.FAILED),
    ],
)
def test_reason_codes_of_mqtt(codes: tuple[int, ...], verdict: DeliveryOutcome) -> None:
    assert {connection._outcome(code).outcome for code in codes} == {verdict}


@pytest.mark.parametrize(
    ("written", "verdict", "reached"),
    [
        (Written.WRITTEN, DeliveryOutcome.DONE, True),
        (Written.TOO_LARGE, DeliveryOutcome.REFUSED, True),
        (Written.INVALID, DeliveryOutcome.REFUSED, True),
        (Written.DENIED, DeliveryOutcome.CREDENTIAL, True),
        (Written.LOGIN, DeliveryOutcome.CREDENTIAL, True),
        (Written.NO_TLS, DeliveryOutcome.SINK_FAILED, False),
        (Written.NO_TOPIC, DeliveryOutcome.SINK_FAILED, True),
        (Written.UNKNOWN, DeliveryOutcome.FAILED, False),
    ],
)
def test_reports_of_kafka(written: Written, verdict: DeliveryOutcome, reached: bool) -> None:
    answer = kafka._answer_of(EventReport(written, "NAME"))
    assert (answer.outcome, answer.reached) == (verdict, reached)
