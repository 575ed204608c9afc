"""Wrong `protocolsettings`: each mistake with its place and the way out, and nothing else is said (CE 3.2.2)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.cloudevents.objects import AMQP, HTTP, KAFKA, MQTT3, MQTT5, NATS, mistakes_of, with_settings

Case = tuple[Any, str, str]
NO_ADDRESS: Final = {**AMQP, "sink": "amqps://a.partner.example"}


UNKNOWN_SETTINGS: Final[list[Case]] = [
    (with_settings(HTTP, metod="POST"), "/protocolsettings/metod", "did you mean method?"),
    (with_settings(HTTP, qos=1), "/protocolsettings/qos", "unknown; known are headers"),
    (with_settings(NATS, acks="1"), "/protocolsettings/acks", "unknown; did you mean x-ack?"),
    (with_settings(HTTP, **{"x-unknown": 1}), "/protocolsettings/x-unknown", "unknown"),
]
SETTINGS: Final[list[Case]] = [
    *(
        (with_settings(HTTP, headers={name: "x"}), f"/protocolsettings/headers/{name}", "not for subscriptions to set")
        for name in (
            "ce_id", "content_type",
            "Host", "ce-id", "CE-Type", "Content-Type", "content-length", "Transfer-Encoding", "Connection", "te",
            "upgrade", "WebHook-Request-Origin", "Authorization", "cookie", "User-Agent", "proxy-authorization",
            "scopegate-attempt", "expect",
        )
    ),
    (with_settings(HTTP, headers={"a b": "x"}), "/protocolsettings/headers/a b", "not the name of a header"),
    (with_settings(HTTP, headers={"": "x"}), "/protocolsettings/headers/", "not the name of a header"),
    (with_settings(HTTP, headers={"x": "a\r\nb: c"}), "/protocolsettings/headers/x", "printable ASCII"),
    (with_settings(HTTP, headers={"x": "\u00e9"}), "/protocolsettings/headers/x", "printable ASCII"),
    (with_settings(HTTP, headers={"x": "a" * 4097}), "/protocolsettings/headers/x", "at most 4096"),
    (with_settings(HTTP, headers={"x": 1}), "/protocolsettings/headers/x", "printable ASCII"),
    (with_settings(HTTP, headers={"x": "1", "X": "2"}), "/protocolsettings/headers/X", "twice"),
    (with_settings(HTTP, headers={f"x{n}": "" for n in range(33)}), "/protocolsettings/headers", "at most 32"),
    (with_settings(HTTP, headers=[]), "/protocolsettings/headers", "an object"),
    (with_settings(HTTP, x_secretheaders={"x": None} | {}), "/protocolsettings/x-secretheaders/x", "has to be given"),
    (with_settings(HTTP, headers={"X": "1"}, x_secretheaders={"x": "2"}), "/protocolsettings/x-secretheaders", "also"),
    (with_settings(HTTP, method="GET"), "/protocolsettings/method", "POST, PUT or PATCH"),
    (with_settings(HTTP, method="post"), "/protocolsettings/method", "POST, PUT or PATCH"),
    (with_settings(HTTP, x_mode="both"), "/protocolsettings/x-mode", "binary, structured or batched"),
    (with_settings(HTTP, **{"x-batch": {"events": 2}}), "/protocolsettings/x-batch", "needs x-mode: batched"),
    (with_settings(MQTT5, **{"x-batch": {}}), "/protocolsettings/x-batch", "unknown"),
    (with_settings(HTTP, **{"x-order": "fifo"}), "/protocolsettings/x-order", "key, partition or none"),
    (with_settings(HTTP, **{"x-connections": 9}), "/protocolsettings/x-connections", "at most 8 here"),
    (with_settings(HTTP, **{"x-connections": True}), "/protocolsettings/x-connections", "a whole number"),
    (with_settings(HTTP, **{"x-rate": "101/s"}), "/protocolsettings/x-rate", "at most 100 here"),
    (with_settings(HTTP, **{"x-rate": "1/d"}), "/protocolsettings/x-rate", "needs a whole number and a time"),
    (with_settings(HTTP, **{"x-timeout": "16s"}), "/protocolsettings/x-timeout", "at most 15 here"),
    (with_settings(HTTP, **{"x-timeout": 5}), "/protocolsettings/x-timeout", "needs a whole number with a unit"),
    (with_settings(HTTP, **{"x-retry": {"min": "1ms"}}), "/protocolsettings/x-retry/min", "at least 1s here"),
    (with_settings(HTTP, **{"x-retry": {"attempts": 11}}), "/protocolsettings/x-retry/attempts", "at most 10 here"),
    (with_settings(HTTP, **{"x-retry": {"min": "9s", "max": "8s"}}), "/protocolsettings/x-retry", "min must not"),
    (with_settings(HTTP, **{"x-retry": {"x": 1}}), "/protocolsettings/x-retry/x", "unknown"),
    (with_settings(MQTT5, qos=3), "/protocolsettings/qos", "0, 1 or 2"),
    (with_settings(MQTT5, qos="1"), "/protocolsettings/qos", "0, 1 or 2"),
    (with_settings(MQTT5, qos=True), "/protocolsettings/qos", "0, 1 or 2"),
    (with_settings(MQTT5, qos=1.0), "/protocolsettings/qos", "0, 1 or 2"),
    (with_settings(MQTT5, retain=1), "/protocolsettings/retain", "true or false"),
    (with_settings(MQTT3, expiry=1), "/protocolsettings/expiry", "only for MQTT5"),
    (with_settings(MQTT3, userproperties={}), "/protocolsettings/userproperties", "only for MQTT5"),
    (with_settings(MQTT3, x_mode="binary"), "/protocolsettings/x-mode", "only structured"),
    (with_settings(MQTT5, expiry=-1), "/protocolsettings/expiry", "from 0 to 4294967295"),
    (with_settings(MQTT5, userproperties={"source": "x"}), "/protocolsettings/userproperties/source", "attribute"),
    (with_settings(MQTT5, userproperties={"x": 1}), "/protocolsettings/userproperties/x", "text"),
    (with_settings(MQTT5, userproperties={"x": "a\r\n"}), "/protocolsettings/userproperties/x", "control characters"),
    (with_settings(MQTT5, topicname="a\x85"), "/protocolsettings/topicname", "without control characters"),
    (with_settings(MQTT5, topicname=None), "/protocolsettings/topicname", "required"),
    (with_settings(MQTT5, topicname=""), "/protocolsettings/topicname", "1 to 65535 bytes"),
    (with_settings(MQTT5, topicname="a/#"), "/protocolsettings/topicname", "without the wildcards"),
    (with_settings(MQTT5, topicname="+/a"), "/protocolsettings/topicname", "without the wildcards"),
    (with_settings(MQTT5, topicname="$SYS/x"), "/protocolsettings/topicname", "begins with $"),
    (with_settings(MQTT5, topicname="a\0"), "/protocolsettings/topicname", "without control characters"),
    (NO_ADDRESS, "/protocolsettings/address", "required"),
    (with_settings(AMQP, address="other"), "/protocolsettings/address", "the path of the sink is another address"),
    (with_settings(NO_ADDRESS, address=""), "/protocolsettings/address", "1024"),
    (with_settings(AMQP, sendersettlementmode="mixed"), "/protocolsettings/sendersettlementmode", "unsettled or"),
    (with_settings(AMQP, linkproperties={f"p{n}": 1 for n in range(65)}), "/protocolsettings/linkproperties", "64"),
    (with_settings(AMQP, linkproperties={"p": [1]}), "/protocolsettings/linkproperties/p", "text, a number"),
    (with_settings(AMQP, linkproperties={"p": 2**63}), "/protocolsettings/linkproperties/p", "64 bits"),
    (with_settings(AMQP, linkproperties={"p q": 1}), "/protocolsettings/linkproperties/p q", "a symbol"),
    (with_settings(AMQP, linkname="a\0"), "/protocolsettings/linkname", "without control characters"),
    (with_settings(KAFKA, acks="2"), "/protocolsettings/acks", "0, 1 or all"),
    (with_settings(KAFKA, acks=1), "/protocolsettings/acks", "0, 1 or all"),
    (with_settings(KAFKA, topicname="a b"), "/protocolsettings/topicname", "a topic"),
    (with_settings(KAFKA, topicname=None), "/protocolsettings/topicname", "required"),
    (with_settings(KAFKA, partitionkeyextractor="data:"), "/protocolsettings/partitionkeyextractor", "JSON pointer"),
    (with_settings(KAFKA, partitionkeyextractor="data"), "/protocolsettings/partitionkeyextractor", "attribute"),
    (with_settings(KAFKA, partitionkeyextractor="Type"), "/protocolsettings/partitionkeyextractor", "attribute"),
    (with_settings(NATS, subject=None), "/protocolsettings/subject", "required"),
    (with_settings(NATS, subject="a.*"), "/protocolsettings/subject", "without wildcards"),
    (with_settings(NATS, subject="a.>"), "/protocolsettings/subject", "without wildcards"),
    (with_settings(NATS, subject="a b"), "/protocolsettings/subject", "without wildcards and spaces"),
    (with_settings(NATS, subject="a..b"), "/protocolsettings/subject", "tokens between dots"),
    (with_settings(NATS, subject="$JS.x"), "/protocolsettings/subject", "begins with $"),
    (with_settings(NATS, x_ack="core"), "/protocolsettings/x-ack", "only jetstream"),
]


@pytest.mark.parametrize(
    ("value", "field", "words"),
    [*(pytest.param(*case, marks=pytest.mark.row("CE-3.2.1-5")) for case in UNKNOWN_SETTINGS), *SETTINGS],
)
def test_a_wrong_setting_is_told_with_its_place_and_the_way_out(value: Any, field: str, words: str) -> None:
    found = mistakes_of(value)
    assert found.keys() == {field}
    assert words in found[field]


@pytest.mark.row("CE-3.2.2.2-1", "CE-3.2.2.4-1", "CE-3.2.2.5-1", "CE-3-4")
@pytest.mark.parametrize(
    ("base", "name"), [(MQTT3, "topicname"), (MQTT5, "topicname"), (KAFKA, "topicname"), (NATS, "subject")]
)
def test_a_target_is_required_and_supported(base: Any, name: str) -> None:
    assert mistakes_of(base) == {}
    assert mistakes_of(with_settings(base, **{name: None})) == {f"/protocolsettings/{name}": "required"}
