"""Secrets of a subscription go over TLS, unless its entry of `sinks` says otherwise; every protocol has this rule."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

import pytest

from bridges.cloudevents.delivery.answers import DeliveryOutcome
from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.sinks.factory import SinkFactory
from bridges.cloudevents.subscription.policy_check import policy_violations
from policies.egress import EgressDenial
from policies.subscriptions import ManagerRules
from policies.text.diagnostics import PolicyErrors
from tests.support.cloudevents.answer_recorder import AnswerRecorder, attempt
from tests.support.cloudevents.objects import (
    AMQP,
    HTTP,
    KAFKA,
    MQTT3,
    MQTT5,
    NATS,
    PLAIN,
    POLICY,
    mistakes_of,
    parsed,
    with_settings,
)
from tests.support.cloudevents.objects import rules as rules_of

TOKEN: Final = {"credentialtype": "ACCESSTOKEN", "accesstoken": "t", "accesstokenexpiresutc": "2027-01-01T00:00:00Z"}
REFRESH: Final = {
    **TOKEN,
    "credentialtype": "REFRESHTOKEN",
    "refreshtoken": "r",
    "refreshtokenendpoint": "https://login.partner.example/token",
}
ENTRIES: Final = """
          - {protocol: http, to: "http://open.example", handshake: off, MORE}
          - {protocol: amqp, to: "amqp://open.example", MORE}
          - {protocol: kafka, to: "kafka://open.example:9092", MORE}
          - {protocol: kafka, to: "kafka://closed.example:9093", tls: {}}
          - {protocol: [mqtt3, mqtt5], to: "mqtt://open.example", MORE}
          - {protocol: nats, to: "nats://open.example", MORE}
        oauth:"""


def rules(more: str) -> ManagerRules:
    """The rules of a manager with sinks that have no TLS."""
    return rules_of(POLICY.replace("\n        oauth:", ENTRIES.replace(", MORE", more)))


STRICT, LAX = rules(""), rules(", allow_plain_without_tls: true")


def secured(base: Mapping[str, Any], sink: str, login: Any = PLAIN, **settings: Any) -> dict[str, Any]:
    return with_settings({**base, "sink": sink, "sinkcredential": login}, **settings)


HEADERS: Final = with_settings({**HTTP, "sink": "http://open.example/in"}, x_secretheaders={"x-key": "k"})
EXPOSED: Final = [
    pytest.param(secured(HTTP, "http://open.example/in"), "/sinkcredential", id="http-password"),
    pytest.param(secured(HTTP, "http://open.example/in", TOKEN), "/sinkcredential", id="http-token"),
    pytest.param(secured(HTTP, "http://open.example/in", REFRESH), "/sinkcredential", id="http-refresh"),
    pytest.param(HEADERS, "/protocolsettings/x-secretheaders", id="http-headers"),
    pytest.param(secured(MQTT3, "mqtt://open.example"), "/sinkcredential", id="mqtt3"),
    pytest.param(secured(MQTT5, "mqtt://open.example"), "/sinkcredential", id="mqtt5"),
    pytest.param(secured(NATS, "nats://open.example"), "/sinkcredential", id="nats-password"),
    pytest.param(secured(NATS, "nats://open.example", TOKEN), "/sinkcredential", id="nats-token"),
    pytest.param(
        secured(KAFKA, "kafka://open.example:9092", x_mechanism="PLAIN"), "/protocolsettings/x-mechanism", id="kafka"
    ),
    pytest.param(
        secured(AMQP, "amqp://open.example/q", x_mechanism="PLAIN"), "/protocolsettings/x-mechanism", id="amqp"
    ),
]
HIDDEN: Final = [
    pytest.param(secured(HTTP, "https://hooks.partner.example/in"), id="https"),
    pytest.param({**HTTP, "sink": "http://open.example/in"}, id="no-secret"),
    pytest.param(secured(AMQP, "amqp://open.example/q"), id="amqp-scram"),
    pytest.param(secured(KAFKA, "kafka://open.example:9092"), id="kafka-scram"),
    pytest.param(secured(KAFKA, "kafka://closed.example:9093", x_mechanism="PLAIN"), id="kafka-tls"),
    pytest.param(secured(AMQP, "amqps://a.partner.example/q", x_mechanism="PLAIN"), id="amqps"),
    pytest.param(secured(MQTT5, "mqtts://mqtt.example"), id="mqtts"),
    pytest.param(secured(NATS, "tls://nats.example"), id="tls"),
]


@pytest.mark.row("CE-3.2.1-15")
@pytest.mark.parametrize(("value", "field"), EXPOSED)
def test_a_secret_that_would_be_readable_is_refused(value: Any, field: str) -> None:
    (mistake,) = mistakes_of(value, rules=STRICT).items()
    assert mistake[0] == field
    assert "allow_plain_without_tls" in mistake[1]
    assert "TLS" in mistake[1]


@pytest.mark.row("CE-3.2.1-15")
@pytest.mark.parametrize(("value", "field"), EXPOSED)
def test_the_policy_may_allow_it(value: Any, field: str) -> None:
    assert mistakes_of(value, rules=LAX) == {}


@pytest.mark.parametrize("value", HIDDEN)
def test_secrets_that_nobody_can_read_are_accepted(value: Any) -> None:
    assert mistakes_of(value, rules=STRICT) == {}


@pytest.mark.row("CE-3.2.1-15")
@pytest.mark.parametrize(("value", "field"), EXPOSED)
async def test_it_is_not_sent_after_a_reload_either(value: Any, field: str) -> None:
    found, received = parsed(value, rules=LAX), AnswerRecorder()
    assert [each.field for each in policy_violations(found, STRICT)] == [field]
    parts: Any = SimpleNamespace(metrics=ManagerMetrics())  # no other service is used before the secret is refused
    sink = SinkFactory(STRICT, parts).open(found, received)
    sink.send(attempt())
    answer = await asyncio.wait_for(received.next(), 5)
    assert answer.outcome is DeliveryOutcome.CREDENTIAL
    assert "allow_plain_without_tls" in answer.reason
    assert parts.metrics.denials[EgressDenial.SECRET] == 1


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{protocol: http, to: "https://a.example", allow_plain_without_tls: true}', "https URLs have TLS"),
        ('{protocol: amqp, local: "svc/**", allow_plain_without_tls: true}', "is for URLs (to)"),
        ('{protocol: kafka, to: "kafka://a.example:1", tls: {}, allow_plain_without_tls: true}', "tls"),
    ],
)
def test_where_the_key_has_no_meaning_it_is_a_mistake(entry: str, message: str) -> None:
    with pytest.raises(PolicyErrors, match="allow_plain_without_tls") as found:
        rules_of(POLICY.replace("\n        oauth:", f"\n          - {entry}\n        oauth:"))
    assert message in str(found.value)
