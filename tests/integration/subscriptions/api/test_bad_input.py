"""Bad input, line by line, sent to a real process: the answer names the field and the way out (CE-E2E-2).

Nothing is stored, and nothing is dialled: wherever the policy lets sinks be, and where it does not, listens a tripwire.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest

from tests.support.gateway.gateway import Gateways
from tests.support.gateway.policy import KEY
from tests.support.project.parts import ROOT
from tests.support.servers.tripwire import Tripwires, tripwires
from tests.support.subscriptions.api import PATH, Answered, ApiClient, api_port, subscription_policy

DENIED = "not allowed by the policy of this gateway"
LOOPBACK: Final = {"networks": ["127.0.0.0/8"]}
PRIVATE: Final = {"allow_plain_without_tls": True}


class Where(NamedTuple):
    """What a text of a case stands for: `{http}` and the others are ports."""

    http: int
    other: int
    consent: int
    amqp: int
    kafka: int
    mqtt: int
    nats: int
    denied: int


class BadInput(NamedTuple):
    """A gateway with three managers, and what must stay as it is."""

    api: ApiClient
    wires: Tripwires
    where: Where

    def filled(self, value: Any) -> Any:
        """A case with the ports of this gateway."""
        text = json.dumps(value)
        for name, port in self.where._asdict().items():
            text = text.replace(f"{{{name}}}", str(port))
        return json.loads(text)

    def stored(self) -> list[Answered]:
        """What the managers have."""
        return [self.api.request("GET", f"{path}?empty=1") for path in (PATH, "/full", "/small")]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Iterator[BadInput]:
    with tripwires(len(Where._fields)) as wires:
        where = Where(*wires.ports)
        document = subscription_policy(tmp_path_factory.mktemp("bad"), topics={"orders": 3, "out.x": 1, "secret": 1})
        document.data["keys"] = {"active": "k", "ring": {"k": {"env": "BAD_INPUT_KEY"}}}
        scope = document.scope()
        scope["access"][1]["on"] = "events/orders"
        scope["subscriptions"] = managers(scope["subscriptions"][0], where)
        start_module_gateway(document.text, env={"BAD_INPUT_KEY": KEY, "OAUTH": "o-secret"})
        api = ApiClient(api_port(document))
        http = {"protocol": "HTTP", "sink": f"http://127.0.0.1:{where.http}/in"}
        assert api.request("POST", PATH, {**http, "id": "kept"}).status == 201
        assert api.request("POST", PATH, {**http, "id": "login", "sinkcredential": PLAIN}).status == 201
        for path in ("/full", "/small"):
            assert api.request("POST", path, {**http, "id": "only"}).status == 201
        shipping = ApiClient(api.port, "shipping").request
        assert shipping("POST", "/full", {**http, "id": "foreign"}).status == 201
        yield BadInput(api, wires, where)


def managers(first: dict[str, Any], where: Where) -> list[dict[str, Any]]:
    """One with sinks of every protocol, and two that have all they may have: of the user, and at all."""
    at = "127.0.0.1"
    sinks = [
        {"protocol": "http", "to": f"http://{at}:{where.http}", "handshake": "off", **LOOPBACK, **PRIVATE},
        {"protocol": "http", "to": f"http://{at}:{where.other}", "handshake": "off", **LOOPBACK, **PRIVATE},
        {"protocol": "http", "to": f"http://{at}:{where.consent}", **LOOPBACK},
        {"protocol": "http", "to": f"http://localhost:{where.denied}", "handshake": "off"},
        {"protocol": "http", "to": f"http://nowhere.invalid:{where.denied}", "handshake": "off"},
        {"protocol": "amqp", "local": "**"},
        {"protocol": "amqp", "to": f"amqp://{at}:{where.amqp}", **LOOPBACK},
        {"protocol": "kafka", "cluster": "main", "topics": ["out.*", "orders", "*_offsets"]},
        {"protocol": "kafka", "to": f"kafka://{at}:{where.kafka}"},
        {"protocol": ["mqtt3", "mqtt5"], "to": f"mqtt://{at}:{where.mqtt}", **LOOPBACK},
        {"protocol": "nats", "to": f"nats://{at}:{where.nats}", **LOOPBACK},
    ]
    oauth = [{"endpoint": "https://login.example/token", "client": "scopegate", "secret": {"env": "OAUTH"}}]
    usual = {
        "events": ["events/orders", "events/secret"], "sinks": sinks, "oauth": oauth, "limits": {"unindexed": 0},
        "handshake": {"origin": "gw.example", "patience": "1s"},
    }  # fmt: skip
    full = {"name": "full", "path": "/full", "limits": {"subscriptions": 3, "user": 1}}
    small = {"name": "small", "path": "/small", "limits": {"subscriptions": 1}}
    return [{**first, **usual}, {**first, **usual, **full}, {**first, **usual, **small}]


class Case(NamedTuple):
    """A request, and the answer: `field` of its mistake, and words that say what is right."""

    field: str
    words: str
    body: Any
    status: int = 400
    error: str = "invalid"
    path: str = PATH
    method: str = "POST"
    headers: Mapping[str, str] = MappingProxyType({})


HTTP: Final = {"protocol": "HTTP", "sink": "http://127.0.0.1:{http}/in"}
AMQP: Final = {"protocol": "AMQP", "sink": "amqp://127.0.0.1:{amqp}/q"}
KAFKA: Final = {"protocol": "KAFKA", "sink": "kafka:///", "protocolsettings": {"topicname": "out.x"}}
MQTT5: Final = {"protocol": "MQTT5", "sink": "mqtt://127.0.0.1:{mqtt}", "protocolsettings": {"topicname": "a"}}
MQTT3: Final = {**MQTT5, "protocol": "MQTT3"}
NATS: Final = {"protocol": "NATS", "sink": "nats://127.0.0.1:{nats}", "protocolsettings": {"subject": "a"}}
RIGHT: Final[dict[str, dict[str, Any]]] = {
    "HTTP": HTTP, "AMQP": AMQP, "KAFKA": KAFKA, "MQTT5": MQTT5, "MQTT3": MQTT3, "NATS": NATS,
}  # fmt: skip
SECRET: Final = "a-very-secret-word"
PLAIN: Final = {"credentialtype": "PLAIN", "identifier": "u", "secret": SECRET}
TOKEN: Final = {"credentialtype": "ACCESSTOKEN", "accesstoken": SECRET, "accesstokenexpiresutc": "2126-01-01T00:00:00Z"}


def sink(uri: str, words: str) -> Case:
    return Case("/sink", words, {**HTTP, "sink": uri})


def setting(base: dict[str, Any], name: str, value: Any, words: str, field: str = "") -> Case:
    """A setting with this value; None takes it out."""
    settings = {**base.get("protocolsettings", {}), name: value}
    kept = {key: each for key, each in settings.items() if each is not None}
    return Case(f"/protocolsettings/{field or name}", words, {**base, "protocolsettings": kept})


def basic(words: str, field: str, **condition: Any) -> Case:
    right = {"type": "exact", "property": "type", "value": "x"}
    filter = {"dialect": "basic", "filters": [{**right, **condition}]}
    return Case(f"/filter/filters/0/{field}", words, {**HTTP, "filter": filter})


def filtered(field: str, words: str, **filter: Any) -> Case:
    return Case(f"/filter{field}", words, {**HTTP, "filter": filter})


def sql(expression: str, words: str, field: str = "/expression") -> Case:
    return filtered(field, words, dialect="sql", expression=expression)


def draft(field: str, words: str, *filters: Any) -> Case:
    return Case(f"/filters{field}", words, {**HTTP, "filters": list(filters)})


def config(field: str, words: str, **members: Any) -> Case:
    return Case(f"/config/{field}", words, {**HTTP, "config": members})


def credential(field: str, words: str, value: dict[str, Any], base: dict[str, Any] = HTTP) -> Case:
    return Case(f"/sinkcredential{field}", words, {**base, "sinkcredential": value})


def media(name: str | None) -> Case:
    headers = {"content-type": name} if name is not None else {"content-type": ""}
    return Case("", "application/json", HTTP, 415, "unsupported", headers=headers)


def header(name: str, value: Any, words: str) -> Case:
    return setting(HTTP, "headers", {name: value}, words, f"headers/{name}")


def without(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key != name}


EXPIRED: Final = {**TOKEN, "accesstokenexpiresutc": "2020-01-01T00:00:00Z"}
REFRESH: Final = {**TOKEN, "credentialtype": "REFRESHTOKEN", "refreshtoken": SECRET}
CASES: Final[dict[str, Case]] = {
    "body-not-json": Case("", "line 1, column 1: not JSON", b"nothing"),
    "body-empty": Case("", "line 1, column 1: not JSON", b""),
    "body-trailing-comma": Case("", "line 2, column 14: not JSON", b'{"id": "a",\n "sink": "b",}'),
    "body-duplicate-member": Case("", 'column 13: the member "id" appears twice', b'{"id": "a", "id": "b"}'),
    "body-nan": Case("", "line 1, column 7: not JSON", b'{"a": NaN}'),
    "body-depth-over-16": Case("", "nested more than 16 deep", b'{"a":' * 17 + b"1" + b"}" * 17),
    "body-not-an-object": Case("", "a JSON object is needed", b"[]"),
    "media-other": media("text/plain"),
    "media-none": media(None),
    "body-over-limit": Case("", "", b" " * 70_000, 413, "toolarge"),
    "member-filterz": Case("/filterz", "did you mean filter?", {**HTTP, "filterz": []}),
    "member-sinkCredential": Case("/sinkCredential", "did you mean sinkcredential?", {**HTTP, "sinkCredential": PLAIN}),
    "protocol-missing": Case("/protocol", "required", without("protocol", HTTP)),
    "protocol-http": Case("/protocol", "one of HTTP, AMQP, KAFKA, MQTT3, MQTT5, NATS", {**HTTP, "protocol": "http"}),
    "protocol-SMTP": Case("/protocol", "one of HTTP, AMQP, KAFKA", {**HTTP, "protocol": "SMTP"}),
    "protocol-5": Case("/protocol", "one of HTTP, AMQP, KAFKA", {**HTTP, "protocol": 5}),
    "sink-missing": Case("/sink", "required", without("sink", HTTP)),
    "sink-relative": sink("/in", "an absolute URI like https://host/path"),
    "sink-ftp": sink("ftp://127.0.0.1:{http}/in", "the scheme for HTTP is https or http"),
    "sink-user": sink("http://u:p@127.0.0.1:{http}/in", "give them as sinkcredential"),
    "sink-fragment": sink("http://127.0.0.1:{http}/in#f", "without a fragment"),
    "sink-2049": sink("http://127.0.0.1/" + "a" * 2032, "1 to 2048 characters"),
    "sink-space": sink("https://exa mple", "without spaces"),
    "sink-zone": sink("http://[::1%25eth0]", "no zone"),
    "sink-port-0": sink("http://127.0.0.1:0/in", "a port is a number from 1 to 65535"),
    "sink-no-rule": sink("http://127.0.0.1:{denied}/in", DENIED),
    "sink-internal-topic": Case("/sink", DENIED, {**KAFKA, "protocolsettings": {"topicname": "__consumer_offsets"}}),
    "sink-resolves-to-none": sink("http://nowhere.invalid:{denied}/in", DENIED),
    "sink-resolves-to-private": sink("http://localhost:{denied}/in", DENIED),
    "id-empty": Case("/id", "1 to 255 characters", {**HTTP, "id": ""}),
    "id-256": Case("/id", "1 to 255 characters", {**HTTP, "id": "a" * 256}),
    "id-slash": Case("/id", "without / and \\", {**HTTP, "id": "a/b"}),
    "id-dots": Case("/id", "neither . nor ..", {**HTTP, "id": ".."}),
    "id-nul": Case("/id", "printable", {**HTTP, "id": "a\0b"}),
    "id-surrogate": Case("/id", "half of a surrogate pair", b'{"id": "\\ud800"}'),
    "id-encoded-dots-in-path": Case("", "no subscription", None, 404, "notfound", f"{PATH}/%2e%2e", "GET"),
    "limit-of-the-manager": Case("", "limits.subscriptions", HTTP, path="/small"),
    "limit-of-the-user": Case("", "limits.user", HTTP, path="/full"),
    "filter-no-dialect": filtered("/dialect", "required: the dialect, one of basic", filters=[]),
    "filter-nested-dialect": filtered("/dialect", "required", filter={"dialect": "basic", "filters": []}),
    "filter-jq": filtered("/dialect", "unknown; known are basic", dialect="jq"),
    "filter-filters-and-conditions": filtered(
        "/conditions", "only one of them", dialect="basic", filters=[], conditions=[]
    ),
    "filter-neither": filtered("/filters", "required", dialect="basic"),
    "filter-extra-key": filtered("/x", "unknown", dialect="basic", filters=[], x=1),
    "filter-value-5": basic("a string", "value", value=5),
    "filter-contains": basic("exact, prefix or suffix", "type", type="contains"),
    "filter-property-Type": basic("lower-case", "property", property="Type"),
    "filter-property-data": basic("not an attribute", "property", property="data"),
    "filter-and-filters": Case(
        "/filters", "not both", {**HTTP, "filter": {"dialect": "basic", "filters": []}, "filters": []}
    ),
    "filters-two-dialects": draft("/0", "exactly one dialect", {"exact": {}, "prefix": {}}),
    "filters-none": draft("/0", "exactly one dialect", {}),
    "filters-empty-all": draft("/0/all", "at least one", {"all": []}),
    "filters-not-of-a-list": draft("/0/not", "exactly one dialect", {"not": []}),
    "filters-empty-text": draft("/0/exact/type", "not empty", {"exact": {"type": ""}}),
    "sql-not-parsed": sql("type =", "line 1, column 7"),
    "sql-unknown-function": sql("FOO(type)", "column 1"),
    "sql-arity": sql("UPPER()", "column 1"),
    "sql-integer": sql("size = 2147483648", "column 8"),
    "sql-like-attribute": sql("subject LIKE type", "column 14"),
    "filter-unindexed": sql("size > 1", "add exact, prefix or suffix on an attribute", ""),
    "headers-host": header("Host", "x", "not for subscriptions to set"),
    "headers-ce-id": header("ce-id", "x", "not for subscriptions to set"),
    "headers-crlf": header("x", "a\r\nb: c", "printable ASCII"),
    "headers-non-ascii": header("x", "\u00e9", "printable ASCII"),
    "headers-33": setting(HTTP, "headers", {f"x{n}": "" for n in range(33)}, "at most 32"),
    "headers-4097": header("x", "a" * 4097, "at most 4096"),
    "method-get": setting(HTTP, "method", "GET", "POST, PUT or PATCH"),
    "mqtt-qos-3": setting(MQTT5, "qos", 3, "0, 1 or 2"),
    "mqtt-qos-text": setting(MQTT5, "qos", "1", "0, 1 or 2"),
    "mqtt-qos-true": setting(MQTT5, "qos", True, "0, 1 or 2"),
    "mqtt-retain-1": setting(MQTT5, "retain", 1, "true or false"),
    "mqtt3-expiry": setting(MQTT3, "expiry", 1, "only for MQTT5"),
    "mqtt-expiry-negative": setting(MQTT5, "expiry", -1, "from 0 to 4294967295"),
    "mqtt-no-topic": setting(MQTT5, "topicname", None, "required"),
    "mqtt-wildcard": setting(MQTT5, "topicname", "a/#", "without the wildcards"),
    "mqtt-sys": setting(MQTT5, "topicname", "$SYS/x", "begins with $"),
    "mqtt-nul": setting(MQTT5, "topicname", "a\0", "without control characters"),
    "amqp-no-address": Case("/protocolsettings/address", "required", {**AMQP, "sink": "amqp://127.0.0.1:{amqp}"}),
    "amqp-two-addresses": setting(AMQP, "address", "other", "the path of the sink is another address"),
    "amqp-mode-mixed": setting(AMQP, "sendersettlementmode", "mixed", "unsettled or settled"),
    "amqp-65-properties": setting(AMQP, "linkproperties", {f"p{n}": 1 for n in range(65)}, "64"),
    "circle-kafka": setting(KAFKA, "topicname", "orders", "would feed itself"),
    "circle-amqp": Case("/sink", "would feed itself", {**AMQP, "sink": "amqp:///events/orders"}),
    "kafka-client-id": setting(KAFKA, "clientid", "__admin_client", "does not begin with __"),
    "kafka-acks-2": setting(KAFKA, "acks", "2", "0, 1 or all"),
    "kafka-topic-space": setting(KAFKA, "topicname", "a b", "a topic"),
    "kafka-extractor": setting(KAFKA, "partitionkeyextractor", "data:", "JSON pointer"),
    "nats-no-subject": setting(NATS, "subject", None, "required"),
    "nats-wildcard": setting(NATS, "subject", "a.*", "without wildcards"),
    "nats-space": setting(NATS, "subject", "a b", "without wildcards and spaces"),
    "nats-dollar": setting(NATS, "subject", "$JS.x", "begins with $"),
    "credential-no-secret": credential("/secret", "has to be given", without("secret", PLAIN)),
    "credential-type": credential(
        "/credentialtype", "PLAIN, ACCESSTOKEN or REFRESHTOKEN", {**PLAIN, "credentialtype": "OAUTH"}
    ),
    "credential-no-expiry": credential("/accesstokenexpiresutc", "required", without("accesstokenexpiresutc", TOKEN)),
    "credential-past": credential("/accesstokenexpiresutc", "has passed", EXPIRED),
    "credential-for-mqtt": credential("/credentialtype", "only PLAIN", TOKEN, MQTT5),
    "credential-for-cluster": credential("", "the gateway's login", PLAIN, KAFKA),
    "credential-endpoint": credential(
        "/refreshtokenendpoint", "the policy allows no such endpoint",
        {**REFRESH, "refreshtokenendpoint": "https://evil.example/token"},
    ),
    "config-address-unknown": config("address", "not an event stream of this manager", address="events/nowhere"),
    "config-address-no-right": Case(
        "", 'you may not subscribe to "events/secret"', {**HTTP, "config": {"address": "events/secret"}}, 403,
        "forbidden",
    ),
    "config-start-future": config("start", "in the future", start="2126-01-01T00:00:00Z"),
    "config-start-partition": config(
        "start/9", "no such partition; the stream has 3", address="events/orders", start={"9": "0"}
    ),
    "config-expires-past": config("expires", "has passed", expires="2020-01-01T00:00:00Z"),
    "config-maxevents-0": config("maxevents", "a whole number from 1", maxevents=0),
    "put-other-id": Case(
        "/id", "another id than that of the URL", {**HTTP, "id": "other"}, path=f"{PATH}/kept", method="PUT"
    ),
    "put-unknown-id": Case("", "no subscription", HTTP, 404, "notfound", f"{PATH}/none", "PUT"),
    "put-old-tag": Case(
        "", "changed", HTTP, 412, "changed", f"{PATH}/kept", "PUT", {"if-match": '"0"'}
    ),
    "put-new-origin": Case(
        "/sinkcredential/secret", "given again",
        {**HTTP, "sink": "http://127.0.0.1:{other}/in", "sinkcredential": without("secret", PLAIN)},
        path=f"{PATH}/login", method="PUT",
    ),
    "foreign-get": Case("", "no subscription", None, 404, "notfound", "/full/foreign", "GET"),
    "foreign-put": Case("", "no subscription", HTTP, 404, "notfound", "/full/foreign", "PUT"),
    "foreign-delete": Case("", "no subscription", None, 404, "notfound", "/full/foreign", "DELETE"),
    "login-wrong": Case("", "log in", HTTP, 401, "unauthenticated", headers={"authorization": "Basic eDp5"}),
    "login-none": Case("", "log in", HTTP, 401, "unauthenticated", headers={"authorization": ""}),
}  # fmt: skip


@pytest.mark.row("CE-3.2.4.1-6")
@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_answered_with_its_field_and_the_way_out(gate: BadInput, name: str) -> None:
    case, before = CASES[name], gate.stored()
    body = case.body if isinstance(case.body, bytes | None) else gate.filled(case.body)
    answer = gate.api.request(case.method, case.path, body, case.headers)
    assert (answer.status, answer.json["error"]) == (case.status, case.error), answer.body
    mistakes = {each["field"]: each["message"] for each in answer.json.get("mistakes", [])}
    assert mistakes.keys() <= {case.field}, "one mistake"
    assert case.words in mistakes.get(case.field, answer.json["message"])
    assert SECRET.encode() not in answer.body
    assert [each.body for each in gate.stored()] == [each.body for each in before]
    assert not gate.wires.touched()


@pytest.mark.parametrize("protocol", RIGHT)
def test_what_the_cases_change_is_right_without_the_change(gate: BadInput, protocol: str) -> None:
    answer = gate.api.request("POST", f"{PATH}?dry=1", gate.filled(RIGHT[protocol]))
    assert answer.status == 200, answer.body
    assert not gate.wires.touched(), "a check dials nothing"


def test_a_protocol_without_its_library_is_not_offered(
    gate: BadInput, tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways
) -> None:
    folder = tmp_path_factory.mktemp("without")
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules.update(paho=None, nats=None)\n")
    document = subscription_policy(folder)
    start_gateway(document.text, env={"PYTHONPATH": f"{folder}:{ROOT}"})
    api = ApiClient(api_port(document))
    for protocol in ("MQTT3", "MQTT5", "NATS"):
        answer = api.request("POST", PATH, gate.filled(RIGHT[protocol]))
        found = {each["field"]: each["message"] for each in answer.json["mistakes"]}
        assert (answer.status, found["/protocol"]) == (400, f"{protocol} is not offered by this gateway")
    assert api.request("GET").status == 204
    assert not gate.wires.touched()


def test_a_sink_without_consent_is_dialled_and_not_stored(gate: BadInput) -> None:
    before = gate.stored()[0].body
    answer = gate.api.request("POST", PATH, gate.filled({**HTTP, "sink": "http://127.0.0.1:{consent}/in"}))
    assert (answer.status, [each["field"] for each in answer.json["mistakes"]]) == (400, ["/sink"])
    assert gate.wires.touched() == [gate.where.consent]
    assert gate.stored()[0].body == before
