"""Subscription objects in tests, and the rules of the manager they are for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from bridges.cloudevents.model.values import InvalidSubscription
from bridges.cloudevents.subscription.parse import parse
from bridges.cloudevents.subscription.subscription import Subscription
from policies.subscriptions import ManagerRules, manager_rules
from tests.support.gateway.policy import KEY, load_text

NOW_MS: Final = 1795435200000
"""2026-11-23T12:00:00Z."""
POLICY: Final = """
gateway: {state: "redis://127.0.0.1:6379/0"}
keys: {active: k, ring: {k: {env: K}}}
kafka:
  main: {bootstrap: "k1.internal:9092,k2.internal:9092"}
  other: {bootstrap: "k9.internal:9092"}
scopes:
  edge:
    connect: [{name: broker, to: "amqps://broker.example:5671"}]
    addresses:
      - {match: "events/{topic}", kafka: main, topic: "{topic}", dead_letter: "{topic}.dlq"}
      - {match: "again/{topic}", relay: core, address: "log/{topic}", replies: none}
      - {match: "svc/**", direct: balanced}
      - {match: "$subscriptions", service: subscriptions, manager: orders}
    access:
      - {who: [billing, shipping], may: subscribe, on: ["events/orders", "events/returns"]}
      - {who: billing, may: send, on: ["svc/**", "again/**", "events/**", "$subscriptions"]}
    subscriptions:
      - name: orders
        events: [events/orders, events/returns, events/stock]
        manage: [ops]
        handshake: {origin: gw.events.example}
        delivery: {rate: 100/s}
        sinks:
          - {protocol: http, to: "https://*.partner.example"}
          - {protocol: http, to: "http://collector.internal:8080/in/**", networks: ["10.20.0.0/16"], handshake: off}
          - {protocol: http, to: "http://127.0.0.1:8081", networks: ["127.0.0.0/8"], handshake: off}
          - {protocol: http, to: "http://10.1.1.1:8082", handshake: off}
          - {protocol: amqp, local: "svc/**"}
          - {protocol: amqp, local: "again/**"}
          - {protocol: amqp, connector: broker, address: "push/**"}
          - {protocol: amqp, to: "amqps://*.partner.example:5671"}
          - {protocol: kafka, cluster: main, topics: ["out.*", orders]}
          - {protocol: kafka, to: "kafka://k1.internal:9092,k9.partner.example:9093"}
          - {protocol: [mqtt3, mqtt5], to: "mqtts://mqtt.example:8883"}
          - {protocol: nats, to: "tls://nats.example:4222"}
        oauth:
          - {endpoint: "https://login.partner.example/token", client: scopegate, secret: {env: OAUTH}}
  core:
    addresses: [{match: "log/{topic}", kafka: main, topic: "{topic}"}]
"""
HTTP: Final[Mapping[str, Any]] = {"id": "s", "protocol": "HTTP", "sink": "https://hooks.partner.example/in"}
MQTT5: Final[Mapping[str, Any]] = {
    "id": "s",
    "protocol": "MQTT5",
    "sink": "mqtts://mqtt.example",
    "protocolsettings": {"topicname": "a/b"},
}
MQTT3: Final[Mapping[str, Any]] = {**MQTT5, "protocol": "MQTT3"}
AMQP: Final[Mapping[str, Any]] = {"id": "s", "protocol": "AMQP", "sink": "amqps://a.partner.example/q"}
KAFKA: Final[Mapping[str, Any]] = {
    "id": "s",
    "protocol": "KAFKA",
    "sink": "kafka:///",
    "protocolsettings": {"topicname": "out.x"},
}
NATS: Final[Mapping[str, Any]] = {
    "id": "s",
    "protocol": "NATS",
    "sink": "tls://nats.example",
    "protocolsettings": {"subject": "a.b"},
}
PLAIN: Final = {"credentialtype": "PLAIN", "identifier": "u", "secret": "s3cret"}
REFRESH: dict[str, Any] = {
    "credentialtype": "REFRESHTOKEN",
    "accesstoken": "acc3ss",
    "accesstokenexpiresutc": "2026-11-24T00:00:00Z",
    "refreshtoken": "r3fresh",
    "refreshtokenendpoint": "https://login.partner.example/token",
}


def rules(text: str = POLICY) -> ManagerRules:
    """The rules of the first manager of a policy."""
    return manager_rules(load_text(text, environ={"K": KEY, "OAUTH": "o-secret"}))[0]


RULES: Final = rules()


def with_settings(base: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """An object with more settings; `x_mode` is `x-mode`; None takes a setting out."""
    named = {name.replace("x_", "x-", 1): value for name, value in settings.items()}
    both = {**base.get("protocolsettings", {}), **named}
    return {**base, "protocolsettings": {name: value for name, value in both.items() if value is not None}}


def parsed(value: Mapping[str, Any] | bytes, **arguments: Any) -> Subscription:
    """The subscription of billing that an object is."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return parse(body, **{"rules": RULES, "owner": "billing", "now_ms": NOW_MS, **arguments})


def mistakes_of(value: Mapping[str, Any] | bytes, **arguments: Any) -> dict[str, str]:
    """The mistakes in an object by field; none: it is a subscription."""
    try:
        parsed(value, **arguments)
    except InvalidSubscription as invalid:
        return dict(reversed(invalid.mistakes)) or {"": "no mistake, and yet invalid"}
    return {}
