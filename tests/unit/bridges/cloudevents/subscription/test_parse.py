"""Subscription objects that are right: what is read, and the realized object that comes back (CE 3.2.1, 3.2.2)."""

from __future__ import annotations

from typing import Any

import pytest

from bridges.cloudevents.model.values import (
    AmqpSettings,
    Batching,
    FromEarliest,
    FromLatest,
    FromOffsets,
    FromTime,
    HttpSettings,
    KafkaSettings,
    MqttSettings,
    NatsSettings,
    PlainCredential,
    RetryLimits,
    SinkUri,
)
from tests.support.cloudevents.objects import (
    AMQP,
    HTTP,
    KAFKA,
    MQTT3,
    MQTT5,
    NATS,
    NOW_MS,
    PLAIN,
    mistakes_of,
    parsed,
    with_settings,
)
from tests.support.cloudevents.records import REQUIRED, event


@pytest.mark.row("CE-3.2.1-11")
@pytest.mark.row("CE-3.2.4.1-3")
@pytest.mark.parametrize(
    ("submitted", "defaults"),
    [
        (HTTP, {"method": "POST"}),
        (with_settings(HTTP, headers={"x-tenant": "7"}, method="PUT"), {}),
        (MQTT5, {"qos": 1, "retain": False}),
        (with_settings(MQTT3, qos=2), {"retain": False}),
        (AMQP, {"sendersettlementmode": "unsettled"}),
        (with_settings(AMQP, sendersettlementmode="settled"), {}),
        (KAFKA, {}),
        (NATS, {}),
    ],
)
def test_the_realized_object_is_what_was_submitted_with_its_defaults(
    submitted: dict[str, Any], defaults: dict[str, Any]
) -> None:
    settings = {**submitted.get("protocolsettings", {}), **defaults}
    assert parsed(submitted).document == {**submitted, "protocolsettings": settings}


@pytest.mark.row("CE-3.2.2.1-1", part="accepted")
def test_the_settings_of_http() -> None:
    value = with_settings(HTTP, headers={"X-A": "1"}, x_secretheaders={"X-Key": "k"}, method="PATCH", x_mode="batched")
    found = parsed(value)
    assert found.settings == HttpSettings((("X-A", "1"),), (("X-Key", "k"),), "PATCH", "batched")
    assert found.sink == SinkUri(HTTP["sink"], "https", (("hooks.partner.example", 443),), "/in", "")
    assert found.document["protocolsettings"]["x-secretheaders"] == {"X-Key": None}  # type: ignore[index,call-overload]
    assert found.delivery.batch == Batching(100, 2**18, 0.1)


def test_the_settings_of_the_other_protocols() -> None:
    mqtt = with_settings(MQTT5, qos=2, retain=True, expiry=60, userproperties={"a": "b"}, x_mode="structured")
    assert parsed(mqtt).settings == MqttSettings("a/b", 2, True, 60, (("a", "b"),), "structured")
    assert parsed(MQTT3).settings == MqttSettings("a/b", 1, False, None, (), "structured")
    amqp = with_settings(AMQP, linkname="l", sendersettlementmode="settled", linkproperties={"a": 1, "b": "x"})
    assert parsed(amqp).settings == AmqpSettings("q", "l", True, {"a": 1, "b": "x"}, "binary", ":", None)
    kafka = with_settings(KAFKA, partitionkeyextractor="data:/a/b", clientid="c", acks="1")
    assert parsed(kafka).settings == KafkaSettings("out.x", "data:/a/b", "c", "1", "binary", None)
    assert parsed(with_settings(NATS, x_ack="jetstream")).settings == NatsSettings("a.b", True, "binary")


@pytest.mark.row("CE-3.2.2.3-2")
@pytest.mark.parametrize(
    ("sink", "address", "used"),
    [
        ("amqps://a.partner.example/q2", None, "q2"),
        ("amqps://a.partner.example", "q1", "q1"),
        ("amqps://a.partner.example/", "q1", "q1"),
        ("amqps://a.partner.example/a%20b%2Fc", None, "a b/c"),
        ("amqps://a.partner.example/q", "q", "q"),
        ("amqp:///svc/x", None, "svc/x"),
        ("amqps://broker.example/push/x", None, "push/x"),
    ],
)
def test_an_amqp_address_is_in_the_path_or_in_the_settings(sink: str, address: str | None, used: str) -> None:
    settings = parsed(with_settings({**AMQP, "sink": sink}, address=address)).settings
    assert isinstance(settings, AmqpSettings)
    assert settings.address == used


def test_several_kafka_servers_are_one_sink() -> None:
    found = parsed({**KAFKA, "sink": "kafka://K1.internal,k9.partner.example:9093"})
    assert found.sink.hosts == (("k1.internal", 9092), ("k9.partner.example", 9093))
    assert found.sink.origin == "kafka://k1.internal:9092,k9.partner.example:9093"


@pytest.mark.parametrize(
    ("submitted", "guarantee"),
    [
        (HTTP, "at-least-once"),
        (with_settings(MQTT5, qos=0), "at-most-once"),
        (with_settings(AMQP, sendersettlementmode="settled"), "at-most-once"),
        (with_settings(KAFKA, acks="0"), "at-most-once"),
        (NATS, "at-most-once"),
        (with_settings(NATS, x_ack="jetstream"), "at-least-once"),
    ],
)
@pytest.mark.row("CE-3.2.2.2-4")
def test_what_a_subscription_can_promise(submitted: dict[str, Any], guarantee: str) -> None:
    assert parsed(submitted).guarantee == guarantee


def test_deliveries_are_those_of_the_policy_until_the_object_asks_for_less() -> None:
    usual = parsed(HTTP).delivery
    assert (usual.order, usual.connections, usual.timeout, usual.rate) == ("key", 8, 15.0, 100.0)
    asked = with_settings(
        HTTP,
        **{"x-order": "none", "x-connections": 2, "x-timeout": "500ms", "x-rate": "60/m"},
        **{"x-retry": {"min": "2s", "max": "1m", "attempts": 3, "within": "1h"}},
        **{"x-mode": "batched", "x-batch": {"events": 7, "bytes": "8KiB", "wait": "250ms"}},
    )
    found = parsed(asked).delivery
    assert (found.order, found.connections, found.timeout, found.rate) == ("none", 2, 0.5, 1.0)
    assert found.retry == RetryLimits(2.0, 60.0, 3, 3600.0)
    assert found.batch == Batching(7, 8192, 0.25)


def test_where_a_subscription_starts_and_ends() -> None:
    def config(**members: Any) -> Any:
        return parsed({**HTTP, "config": members}).config

    assert parsed(HTTP).config == (None, FromLatest(), None, None)
    assert config(start="earliest", address="events/orders") == (("events/orders",), FromEarliest(), None, None)
    assert config(start="2026-11-23T11:00:00+01:00").start == FromTime(NOW_MS - 2 * 3_600_000)
    assert config(start="2026-11-23T11:59:59.250Z").start == FromTime(NOW_MS - 750)
    offsets = config(start={"0": "00000000000000000017"}, address=["events/orders"])
    assert offsets.start == FromOffsets({0: 17})
    assert config(expires="2026-11-23T12:00:01Z", maxevents=3)[2:] == (NOW_MS + 1000, 3)


@pytest.mark.row("CE-3.2.1-13")
def test_every_part_of_a_filter_has_to_be_true() -> None:
    found = parsed({
        **HTTP,
        "filters": [{"prefix": {"type": "com."}}, {"not": {"exact": {"subject": "x"}}}],
        "types": ["com.a", "com.b"],
        "source": "/s",
    })
    right = {**REQUIRED, "type": "com.a", "source": "/s"}
    assert found.filter.matches(event(**right))
    for wrong in ({"type": "com.c"}, {"source": "/t"}, {"subject": "x"}):
        assert not found.filter.matches(event(**{**right, **wrong}))
    assert found.dialects == {"filters"}


@pytest.mark.row("CE-3.2.3.1-2")
@pytest.mark.parametrize("name", ["filters", "conditions"])
def test_the_array_of_basic_has_two_names_and_comes_back_under_the_one_it_had(name: str) -> None:
    given = {"dialect": "basic", name: [{"type": "prefix", "property": "type", "value": "com."}]}
    found = parsed({**HTTP, "filter": given})
    assert found.document["filter"] == given
    assert found.filter.matches(event(type="com.x"))
    assert not found.filter.matches(event(type="org.x"))


@pytest.mark.parametrize("nothing", [{}, {"filter": None}, {"filters": []}, {"types": []}])
@pytest.mark.row("CE-3.2.1-7")
def test_no_filter_wants_every_event(nothing: dict[str, Any]) -> None:
    found = parsed({**HTTP, **nothing})
    assert found.filter.matches(event())
    assert found.document.items() >= nothing.items()


@pytest.mark.row("CE-3.2.4.1-7")
def test_an_id_is_assigned_or_that_of_the_url() -> None:
    without = {name: value for name, value in HTTP.items() if name != "id"}
    assert parsed(without, new_id="n-1").document["id"] == "n-1"
    assert parsed(HTTP, new_id="n-1").id == "s"
    assert parsed(without, id="u").id == "u"
    assert mistakes_of(without) == {"/id": "required"}
    assert "does not change" in mistakes_of(HTTP, id="other")["/id"]


def test_an_update_keeps_secrets_for_the_same_origin_only() -> None:
    stored = parsed(with_settings({**HTTP, "sinkcredential": PLAIN}, x_secretheaders={"x-key": "k"}))
    again = parsed({**stored.document}, stored=stored)
    assert (again.credential, again.secret_headers) == (PlainCredential("u", "s3cret"), {"x-key": "k"})
    assert again == stored
    path = parsed({**stored.document, "sink": "https://hooks.partner.example:443/else"}, stored=stored)
    assert path.credential == PlainCredential("u", "s3cret")
    moved = mistakes_of({**stored.document, "sink": "https://evil.partner.example/in"}, stored=stored)
    assert moved.keys() == {"/sinkcredential/secret", "/protocolsettings/x-secretheaders/x-key"}
    assert all("given again" in message for message in moved.values())
    changed = {**stored.document, "sinkcredential": {**PLAIN, "secret": "new"}}
    assert parsed(changed, stored=stored).credential == PlainCredential("u", "new")
