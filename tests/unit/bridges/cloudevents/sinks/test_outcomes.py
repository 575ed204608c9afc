"""What the answers of AMQP, Kafka and MQTT sinks mean (docs/subscriptions.md, Delivery)."""

from __future__ import annotations

import pytest

from bridges.cloudevents.delivery.answers import Verdict
from bridges.cloudevents.sinks import kafka
from bridges.cloudevents.sinks.amqp.deliveries import answer_of, link_failure
from bridges.cloudevents.sinks.mqtt import connection
from bridges.kafka.produce.event_producer import EventReport, Written
from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, Modified, Outcome, Rejected
from gateway.errors import NOT_FOUND, UNAUTHORIZED_ACCESS, AmqpError


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (ACCEPTED, Verdict.DONE),
        (Rejected(AmqpError("x:secret-condition", "words of the sink")), Verdict.REFUSED),
        (Rejected(None), Verdict.REFUSED),
        (Modified(failed=True, undeliverable=True), Verdict.REFUSED),
        (RELEASED, Verdict.FAILED),
        (Modified(failed=True), Verdict.FAILED),
    ],
)
def test_outcomes_of_amqp(outcome: Outcome, verdict: Verdict) -> None:
    answer = answer_of(outcome)
    assert answer.verdict is verdict
    assert "words of the sink" not in answer.reason


def test_links_that_amqp_refuses() -> None:
    assert link_failure(AmqpError(UNAUTHORIZED_ACCESS, "")).verdict is Verdict.CREDENTIAL
    assert link_failure(AmqpError(NOT_FOUND, "")).verdict is Verdict.SINK_FAILED
    assert link_failure(None).verdict is Verdict.SINK_FAILED


@pytest.mark.parametrize(
    ("codes", "verdict"),
    [
        ((0x00, 0x10), Verdict.DONE),
        ((0x90, 0x95, 0x99), Verdict.REFUSED),
        ((0x87,), Verdict.CREDENTIAL),
        ((0x89, 0x97), Verdict.WAIT),
        ((0x80, 0x83, 0x91, 0x92), Verdict.FAILED),
    ],
)
def test_reason_codes_of_mqtt(codes: tuple[int, ...], verdict: Verdict) -> None:
    assert {connection._outcome(code).verdict for code in codes} == {verdict}


@pytest.mark.parametrize(
    ("written", "verdict", "reached"),
    [
        (Written.WRITTEN, Verdict.DONE, True),
        (Written.TOO_LARGE, Verdict.REFUSED, True),
        (Written.INVALID, Verdict.REFUSED, True),
        (Written.DENIED, Verdict.CREDENTIAL, True),
        (Written.NO_TOPIC, Verdict.SINK_FAILED, True),
        (Written.UNKNOWN, Verdict.FAILED, False),
    ],
)
def test_reports_of_kafka(written: Written, verdict: Verdict, reached: bool) -> None:
    answer = kafka._answer_of(EventReport(written, "NAME"))
    assert (answer.verdict, answer.reached) == (verdict, reached)
