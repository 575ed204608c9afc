"""Subscription objects that are wrong: each mistake with its place and the way out, and nothing else is said."""

from __future__ import annotations

from typing import Any, Final

import pytest

from bridges.cloudevents.model.values import SinkProtocol
from bridges.cloudevents.subscription.policy_check import DENIED
from tests.support.cloudevents.objects import AMQP, HTTP, KAFKA, MQTT5, NATS, PLAIN, mistakes_of, with_settings

Case = tuple[Any, str, str]
_SINK: Final = "/sink"


def sink(text: Any, base: Any = HTTP) -> dict[str, Any]:
    return {**base, "sink": text}


def filtered(value: Any) -> dict[str, Any]:
    return {**HTTP, "filter": value}


def basic(**condition: Any) -> dict[str, Any]:
    right = {"type": "exact", "property": "type", "value": "x"}
    return filtered({"dialect": "basic", "filters": [{**right, **condition}]})


def login(base: Any = HTTP, **members: Any) -> dict[str, Any]:
    kept = {name: value for name, value in {**PLAIN, **members}.items() if value is not None}
    return {**base, "sinkcredential": kept}


def token(**members: Any) -> dict[str, Any]:
    right = {"accesstoken": "t", "accesstokenexpiresutc": "2026-12-01T00:00:00Z", "identifier": None, "secret": None}
    return login(**{"credentialtype": "ACCESSTOKEN", **right, **members})


def config(**members: Any) -> dict[str, Any]:
    return {**HTTP, "config": members}


def without(name: str, base: Any = HTTP) -> dict[str, Any]:
    return {key: value for key, value in base.items() if key != name}


TRAILING_COMMA: Final[list[Case]] = [
    (b'{"filter": {"dialect": "basic", "filters": [{"type": "exact"},]}}', "", "column 63: not JSON"),
]
NOT_JSON: Final[list[Case]] = [
    (b"", "", "line 1, column 1: not JSON"),
    (b"{", "", "line 1, column 2: not JSON"),
    (b'{"id": "a",\n "sink": "b",}', "", "line 2, column 14: not JSON"),
    (b'{"id": "a", "id": "b"}', "", 'column 13: the member "id" appears twice'),
    (b'{"id": "a", "i\\u0064": "b"}', "", "column 13: the member"),
    (b'{"config": {"a": 1,\n "a": 2}}', "", 'line 2, column 2: the member "a" appears twice'),
    (b'{"a": NaN}', "", "not JSON"),
    (b'{"a": -Infinity}', "", "not JSON"),
    (b'{"a": 1e999}', "", "not JSON"),
    (b'{"a": %s}' % (b"1" * 5000), "", "not JSON"),
    (b"[" * 17 + b"]" * 17, "", "column 17: nested more than 16 deep"),
    (b'{"a":' * 17 + b"1" + b"}" * 17, "", "nested more than 16 deep"),
    (b'{"a":' * 60_000, "", "nested more than 16 deep"),
    (b"[]", "", "a JSON object is needed"),
    (b'"text"', "", "a JSON object is needed"),
    (b"null", "", "a JSON object is needed"),
    (b'{"id": "\xff"}', "", "line 1, column 9: not UTF-8"),
    (b'{"id": "\\ud800"}', "/id", "half of a surrogate pair"),
    (b'{"protocolsettings": {"a": ["\\udc00"]}}', "/protocolsettings/a/0", "half of a surrogate pair"),
    (b'\xef\xbb\xbf{"id": "a"}', "", "not JSON"),
]
MEMBERS: Final[list[Case]] = [
    ({**HTTP, "filterz": []}, "/filterz", "did you mean filter?"),
    ({**HTTP, "sinkCredential": PLAIN}, "/sinkCredential", "did you mean sinkcredential?"),
    ({**HTTP, "protocolSettings": {}}, "/protocolSettings", "did you mean protocolsettings?"),
    ({**HTTP, "zzz": 1}, "/zzz", "unknown; known are id, protocol, sink"),
    ({**HTTP, "protocolsettings": []}, "/protocolsettings", "an object"),
    ({**HTTP, "sinkcredential": None}, "/sinkcredential", "an object"),
    ({**HTTP, "config": "latest"}, "/config", "an object"),
]
PROTOCOLS: Final[list[Case]] = [
    (without("protocol"), "/protocol", "required"),
    ({**HTTP, "protocol": "http"}, "/protocol", "one of HTTP, AMQP, KAFKA, MQTT3, MQTT5, NATS, in this spelling"),
    ({**HTTP, "protocol": "SMTP"}, "/protocol", "one of HTTP"),
    ({**HTTP, "protocol": 5}, "/protocol", "one of HTTP"),
]
IDS: Final[list[Case]] = [
    (without("id"), "/id", "required"),
    ({**HTTP, "id": ""}, "/id", "1 to 255 characters"),
    ({**HTTP, "id": 7}, "/id", "1 to 255 characters"),
    ({**HTTP, "id": "a" * 256}, "/id", "1 to 255 characters"),
    ({**HTTP, "id": "a/b"}, "/id", "without / and \\"),
    ({**HTTP, "id": "a\\b"}, "/id", "without / and \\"),
    ({**HTTP, "id": "."}, "/id", "neither . nor .."),
    ({**HTTP, "id": ".."}, "/id", "neither . nor .."),
    ({**HTTP, "id": "a\0b"}, "/id", "printable"),
    ({**HTTP, "id": "a\u202eb"}, "/id", "printable"),
]
SINKS: Final[list[Case]] = [
    (without("sink"), _SINK, "required"),
    (sink(""), _SINK, "1 to 2048 characters"),
    (sink(5), _SINK, "1 to 2048 characters"),
    (sink("/relative"), _SINK, "an absolute URI like https://host/path"),
    (sink("hooks.partner.example"), _SINK, "an absolute URI"),
    (sink("ftp://hooks.partner.example"), _SINK, "the scheme for HTTP is https or http"),
    (sink("https:hooks.partner.example"), _SINK, "an absolute URI"),
    (sink("https:///in"), _SINK, "names no host"),
    (sink("https://u:p@hooks.partner.example"), _SINK, "give them as sinkcredential"),
    (sink("https://hooks.partner.example@evil"), _SINK, "no user or password"),
    (sink("https://hooks.partner.example/#f"), _SINK, "without a fragment"),
    (sink("https://a.partner.example/" + "a" * 2023), _SINK, "1 to 2048 characters"),
    (sink("https://exa mple"), _SINK, "without spaces"),
    (sink("https://hooks.partner.example\\@evil"), _SINK, "without spaces and control characters"),
    (sink("https://hooks.partner.example/\r\nX: y"), _SINK, "without spaces and control characters"),
    (sink("https://hooks.partner.example/\t"), _SINK, "without spaces and control characters"),
    (sink("http://[::1%25eth0]"), _SINK, "no percent-encoding and no zone"),
    (sink("http://[::1"), _SINK, "a port is a number"),
    (sink("http://[::g]/"), _SINK, "not an IPv6 address"),
    (sink("http://::1/"), _SINK, "a port is a number"),
    (sink("https://hooks.partner.example:0"), _SINK, "a port is a number from 1 to 65535"),
    (sink("https://hooks.partner.example:65536"), _SINK, "a port is a number from 1 to 65535"),
    (sink("https://hooks.partner.example:"), _SINK, "a port is a number from 1 to 65535"),
    (sink("https://hooks.partner.example:+443"), _SINK, "a port is a number from 1 to 65535"),
    (sink("https://hooks.partner.example:\u0664\u0664\u0663"), _SINK, "a port is a number from 1 to 65535"),
    (sink("http://2130706433/"), _SINK, "the host is not an IPv4 address of four plain decimal parts"),
    (sink("http://0x7f.1/"), _SINK, "four plain decimal parts"),
    (sink("http://0177.0.0.1/"), _SINK, "four plain decimal parts"),
    (sink("http://127.1/"), _SINK, "four plain decimal parts"),
    (sink("http://a%2eb/"), _SINK, "no percent-encoding"),
    (sink("https://hooks..partner.example/"), _SINK, "not a host name"),
    (sink("https://-hooks.partner.example/"), _SINK, "not a host name"),
    (sink("https://" + "a" * 64 + ".partner.example/"), _SINK, "not a host name"),
    (sink("https://hooks.partner.example/%zz"), _SINK, "percent-encoded ASCII"),
    (sink("https://hooks.partner.example/\u00e9"), _SINK, "percent-encoded ASCII"),
    (sink("https://hooks.partner.example/?q=\u00e9"), _SINK, "percent-encoded ASCII"),
    (sink("http://collector.internal:8080/in/../admin"), _SINK, "no segments . and .."),
    (sink("http://collector.internal:8080/in/%2e%2E/admin"), _SINK, "no segments . and .."),
    (sink("http://collector.internal:8080/in/%252e%252e%252fadmin"), _SINK, "no segments . and .."),
    (sink("http://collector.internal:8080/in/..%2fadmin"), _SINK, "no segments . and .."),
    (sink("http://collector.internal:8080/in/..%5cadmin"), _SINK, "no segments . and .."),
    (sink("http://collector.internal:8080/in/..;a/admin"), _SINK, "no segments . and .."),
    (sink("http://collector.internal:8080/in/%00"), _SINK, "no control characters"),
    (sink("https://elsewhere.example/"), _SINK, DENIED),
    (sink("https://partner.example/"), _SINK, DENIED),
    (sink("https://a.b.partner.example/"), _SINK, DENIED),
    (sink("https://hooks.partner.example:444/"), _SINK, DENIED),
    (sink("http://hooks.partner.example/"), _SINK, DENIED),
    (sink("http://collector.internal:8080/admin"), _SINK, DENIED),
    (sink("http://collector.internal:8080/"), _SINK, DENIED),
    (sink("http://10.1.1.1:8082/"), _SINK, DENIED),  # its rule allows public addresses only
    (sink("wss://a.partner.example", AMQP), _SINK, "WebSockets are not offered here; the scheme for AMQP is amqps"),
    (sink("ws://mqtt.example", MQTT5), _SINK, "WebSockets are not offered here"),
    (sink("amqps://a.partner.example/q?x=1", AMQP), _SINK, "a query is for HTTP only"),
    (sink("amqps://a.partner.example:5672/q", AMQP), _SINK, DENIED),
    (sink("amqps:///svc/x", AMQP), _SINK, "names no host"),
    (sink("amqp:///", AMQP), _SINK, "amqp:///address needs an address"),
    (sink("amqp:///private/x", AMQP), _SINK, DENIED),
    (sink("amqps://broker.example/private", AMQP), _SINK, DENIED),
    (sink("h1:9092,h2:9092", KAFKA), _SINK, "an absolute URI like kafka://host:9092"),
    (sink("kafka://k1.internal", KAFKA), _SINK, DENIED),
    (sink("kafka://k9.partner.example:9093,k1.internal", KAFKA), _SINK, DENIED),
    (sink("kafka://" + ",".join(["k:1"] * 17), KAFKA), _SINK, "at most 16 servers"),
    (sink("kafka:///topic", KAFKA), _SINK, "no path here"),
    (with_settings(KAFKA, topicname="private"), _SINK, DENIED),
    (sink("mqtts://mqtt.example/a", MQTT5), _SINK, "no path here"),
    (sink("nats://nats.example", NATS), _SINK, DENIED),
    (sink("https://a.partner.example,b.partner.example"), _SINK, "not a host name"),
]
FILTERS: Final[list[Case]] = [
    (filtered({"filters": []}), "/filter/dialect", "required: the dialect, one of basic"),
    (filtered({"filter": {"dialect": "basic"}}), "/filter/dialect", "required"),
    (filtered({"dialect": 5}), "/filter/dialect", "required"),
    (filtered({"dialect": "jq"}), "/filter/dialect", "unknown; known are basic"),
    (filtered("type = 'x'"), "/filter", "an object"),
    (filtered({"dialect": "basic", "filters": [], "conditions": []}), "/filter/conditions", "only one of them"),
    (filtered({"dialect": "basic"}), "/filter/filters", "required"),
    (filtered({"dialect": "basic", "filters": [], "x": 1}), "/filter/x", "unknown"),
    (filtered({"dialect": "basic", "filters": {}}), "/filter/filters", "an array"),
    (basic(value=5), "/filter/filters/0/value", "a string"),
    (basic(type="contains"), "/filter/filters/0/type", "exact, prefix or suffix"),
    (basic(property="Type"), "/filter/filters/0/property", "lower-case"),
    (basic(property="data"), "/filter/filters/0/property", "not an attribute"),
    (basic(extra=1), "/filter/filters/0/extra", "unknown"),
    (filtered({"dialect": "sql"}), "/filter/expression", "required"),
    (filtered({"dialect": "sql", "expression": 5}), "/filter/expression", "an expression"),
    (filtered({"dialect": "sql", "expression": "TRUE", "x": 1}), "/filter/x", "unknown"),
    (filtered({"dialect": "sql", "expression": "1 ="}), "/filter/expression", ""),
    (filtered({"dialect": "sql", "expression": "size = 2147483648"}), "/filter/expression", "column"),
    (filtered({"dialect": "sql", "expression": "subject LIKE type"}), "/filter/expression", "column"),
    (filtered({"dialect": "sql", "expression": "FOO(subject)"}), "/filter/expression", "FOO"),
    (filtered({"dialect": "sql", "expression": "UPPER()"}), "/filter/expression", "UPPER"),
    ({**HTTP, "filter": None, "filters": []}, "/filters", "not both"),
    ({**HTTP, "filters": {}}, "/filters", "an array"),
    ({**HTTP, "filters": [{"exact": {"type": "a"}, "prefix": {"type": "b"}}]}, "/filters/0", "exactly one dialect"),
    ({**HTTP, "filters": [{}]}, "/filters/0", "exactly one dialect"),
    ({**HTTP, "filters": [{"all": []}]}, "/filters/0/all", "at least one"),
    ({**HTTP, "filters": [{"not": []}]}, "/filters/0/not", "exactly one dialect"),
    ({**HTTP, "filters": [{"exact": {"type": ""}}]}, "/filters/0/exact/type", "not empty"),
    ({**HTTP, "filters": [{"jq": "."}]}, "/filters/0/jq", "unknown dialect"),
    ({**HTTP, "filters": [{"sql": "1 ="}]}, "/filters/0/sql", ""),
    ({**HTTP, "types": "x"}, "/types", "an array"),
    ({**HTTP, "types": [""]}, "/types/0", "not empty"),
    ({**HTTP, "source": ""}, "/source", "a URI reference"),
]
CIRCLES: Final[list[Case]] = [
    (with_settings(KAFKA, topicname="orders"), "/protocolsettings/topicname", "would feed itself"),
    (
        with_settings(sink("kafka://k1.internal,k9.partner.example:9093", KAFKA), topicname="returns"),
        "/protocolsettings/topicname",
        "would feed itself",
    ),
    (sink("amqp:///again/orders", AMQP), "/sink", "would feed itself"),
]
LOGINS: Final[list[Case]] = [
    (login(secret=None), "/sinkcredential/secret", "has to be given"),
    (login(secret=5), "/sinkcredential/secret", "text of 1 to"),
    (login(identifier=None), "/sinkcredential/identifier", "required"),
    (login(identifier="a:b"), "/sinkcredential/identifier", "no user with a colon"),
    (login(credentialtype="plain"), "/sinkcredential/credentialtype", "PLAIN, ACCESSTOKEN or REFRESHTOKEN"),
    (login(credentialtype=None), "/sinkcredential/credentialtype", "required"),
    (login(password="x"), "/sinkcredential/password", "unknown"),
    (login(sink("amqp:///svc/x", AMQP)), "/sinkcredential", "the gateway's login"),
    (login(sink("amqps://broker.example/push/x", AMQP)), "/sinkcredential", "the gateway's login"),
    (login(KAFKA), "/sinkcredential", "the gateway's login"),
    (login(MQTT5, credentialtype="ACCESSTOKEN"), "/sinkcredential/credentialtype", "only PLAIN"),
    (token(accesstokenexpiresutc=None), "/sinkcredential/accesstokenexpiresutc", "required"),
    (token(accesstokenexpiresutc="2026-11-23T11:59:59Z"), "/sinkcredential/accesstokenexpiresutc", "has passed"),
    (token(accesstokenexpiresutc="tomorrow"), "/sinkcredential/accesstokenexpiresutc", "RFC 3339"),
    (token(accesstoken="a b"), "/sinkcredential/accesstoken", "a bearer token"),
    (token(accesstoken="a\r\nb"), "/sinkcredential/accesstoken", "a bearer token"),
    (token(accesstokentype="mac"), "/sinkcredential/accesstokentype", "only bearer"),
    (
        token(credentialtype="REFRESHTOKEN", refreshtoken="r", refreshtokenendpoint="https://evil.example/token"),
        "/sinkcredential/refreshtokenendpoint",
        "the policy allows no such endpoint",
    ),
]
CONFIGS: Final[list[Case]] = [
    (config(address="events/unknown"), "/config/address", "not an event stream of this manager"),
    (config(address=["events/orders", "svc/x"]), "/config/address/1", "not an event stream of this manager"),
    (config(address=[]), "/config/address", "a list of 1 to 1000"),
    (config(address=["events/orders", "events/orders"]), "/config/address/1", "named twice"),
    (config(address=5), "/config/address", "an array"),
    (config(start="2026-11-23T12:00:01Z"), "/config/start", "in the future"),
    (config(start="now"), "/config/start", "latest, earliest"),
    (config(start="2026-02-30T00:00:00Z"), "/config/start", "latest, earliest"),
    (config(start={"0": "7"}), "/config/start", "need one address"),
    (config(address="events/orders", start={"-1": "7"}), "/config/start/-1", "the number of a partition"),
    (config(address="events/orders", start={"0": 7}), "/config/start/0", "text of 1 to 20 digits"),
    (config(address="events/orders", start={}), "/config/start", "1 to 1000 partitions"),
    (config(expires="2026-11-23T12:00:00Z"), "/config/expires", "has passed"),
    (config(expires="2028-01-01T00:00:00Z"), "/config/expires", "at most 365 days ahead"),
    (config(expires=5), "/config/expires", "RFC 3339"),
    (config(maxevents=0), "/config/maxevents", "a whole number from 1"),
    (config(maxevents=True), "/config/maxevents", "a whole number from 1"),
    (config(x=1), "/config/x", "unknown"),
]


def _rows(cases: list[Case], *rows: str) -> list[Any]:
    """The cases, each of which shows these rows."""
    return [pytest.param(*case, marks=pytest.mark.row(*rows)) for case in cases]


@pytest.mark.row("CE-3.2.4.1-6")
@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        *_rows(TRAILING_COMMA, "CE-3.2.3.1-9"),
        *NOT_JSON,
        *MEMBERS,
        *_rows(PROTOCOLS, "CE-3.2.1-3"),
        *_rows(IDS, "CE-3.2.1-2"),
        *_rows(SINKS, "CE-3.2.1-6"),
        *FILTERS,
        *CIRCLES,
        *LOGINS,
        *CONFIGS,
    ],
)
def test_a_mistake_is_told_with_its_place_and_the_way_out(value: Any, field: str, words: str) -> None:
    found = mistakes_of(value)
    assert found.keys() == {field}
    assert words in found[field]


@pytest.mark.row("CE-3.2.1-4")
@pytest.mark.parametrize("protocol", ["SMTP", "X-SMTP", "x-smtp", "WS", "MQTT"])
def test_no_other_protocol_is_added(protocol: str) -> None:
    assert mistakes_of({**HTTP, "protocol": protocol}).keys() == {"/protocol"}


def test_all_mistakes_are_told_at_once() -> None:
    wrong = with_settings({**MQTT5, "id": "..", "sink": "mqtt:/x", "filter": {}, "config": {"maxevents": 0}}, qos=3)
    fields = ["/id", "/sink", "/protocolsettings/qos", "/filter/dialect", "/config/maxevents"]
    assert sorted(mistakes_of(wrong)) == sorted(fields)


@pytest.mark.row("CE-3.2.1-3")
def test_a_protocol_without_its_library_is_not_offered() -> None:
    found = mistakes_of(MQTT5, protocols=[SinkProtocol.HTTP])
    assert found == {"/protocol": "MQTT5 is not offered by this gateway"}


def test_what_a_dialect_of_the_policy_is_not_is_not_offered() -> None:
    found = mistakes_of(filtered({"dialect": "amqp-sql", "expression": "TRUE"}))
    assert found.keys() <= {"/filter/dialect", "/filter/expression"}
    assert found


def test_a_user_who_may_not_send_to_a_local_sink_is_denied_as_any_other() -> None:
    assert mistakes_of(sink("amqp:///svc/x", AMQP)) == {}
    assert mistakes_of(sink("amqp:///svc/x", AMQP), owner="shipping") == {"/sink": DENIED}
