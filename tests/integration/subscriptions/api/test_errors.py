"""What the API answers to mistakes: codes, every mistake at once, and nothing stored (CE-E2E-2)."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.subscriptions.api import (
    ApiClient,
    api_port,
    http_rule,
    sink_ports,
    subscription_policy,
)

PATH = "/subscriptions"


class Managers:
    """One gateway with three managers: of all operations, of few, and with upsert and small limits."""

    def __init__(self, document: Document) -> None:
        self.port = api_port(document)
        self.sink = f"http://127.0.0.1:{sink_ports(document)[0]}/hook"

    def client(self, user: str = "billing") -> ApiClient:
        return ApiClient(self.port, user)

    def proposal(self, **members: Any) -> dict[str, Any]:
        """A subscription without a mistake, but for `members`; None leaves one out."""
        whole = {"protocol": "HTTP", "sink": self.sink, **members}
        return {name: value for name, value in whole.items() if value is not None}

    def create(self, path: str = PATH, user: str = "billing", **members: Any) -> Any:
        return self.client(user).request("POST", path, self.proposal(**members))


@pytest.fixture(scope="module")
def managers(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Managers:
    document = subscription_policy(tmp_path_factory.mktemp("errors"), topics={"orders": 3, "secret": 1})
    scope = document.scope()
    scope["access"][1]["on"] = "events/orders"
    (first,) = scope["subscriptions"]
    few = {"name": "few", "path": "/few", "operations": ["create", "retrieve", "delete"]}
    small = {"name": "small", "path": "/small", "upsert": True, "limits": {"subscriptions": 3, "user": 2}}
    scope["subscriptions"] += [{**first, **few}, {**first, **small, "sinks": [http_rule(sink_ports(document)[0])]}]
    start_module_gateway(document.text)
    return Managers(document)


@pytest.mark.row("CE-3.2.4.1-2", "CE-3-4")
@pytest.mark.parametrize("missing", ["protocol", "sink"])
def test_required_properties(managers: Managers, missing: str) -> None:
    answer = managers.create(**{missing: None})
    assert (answer.status, answer.json["error"]) == (400, "invalid")
    assert f"/{missing}" in {each["field"] for each in answer.json["mistakes"]}


@pytest.mark.row("CE-3.2.4.1-6", "CE-3.2.1-2", "CE-3.2.1-5")
@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"id": ""}, "/id"),
        ({"id": "a/b"}, "/id"),
        ({"id": ".."}, "/id"),
        ({"id": "x" * 256}, "/id"),
        ({"id": 5}, "/id"),
        ({"protocol": "http"}, "/protocol"),
        ({"protocol": "SMTP"}, "/protocol"),
        ({"sink": "ftp://host/x"}, "/sink"),
        ({"sink": "/relative"}, "/sink"),
        ({"sink": "http://user@127.0.0.1/x"}, "/sink"),
        ({"sink": "http://10.0.0.1/x"}, "/sink"),
        ({"protocolsettings": {"method": "GET"}}, "/protocolsettings/method"),
        ({"protocolsettings": {"colour": "red"}}, "/protocolsettings/colour"),
        ({"filter": {"filters": []}}, "/filter/dialect"),
        ({"filterz": []}, "/filterz"),
        ({"sinkCredential": {}}, "/sinkCredential"),
        ({"config": {"address": "events/nowhere"}}, "/config/address"),
    ],
)
def test_one_mistake_has_its_pointer(managers: Managers, members: dict[str, Any], field: str) -> None:
    before = managers.client().request("GET", "/subscriptions?empty=1").json
    answer = managers.create(**members)
    assert (answer.status, answer.json["error"]) == (400, "invalid")
    assert [each["field"] for each in answer.json["mistakes"]] == [field]
    assert answer.json["mistakes"][0]["message"]
    assert managers.client().request("GET", "/subscriptions?empty=1").json == before


SETTINGS: dict[str, dict[str, str]] = {
    "HTTP": {},
    "AMQP": {},
    "KAFKA": {"topicname": "t"},
    "MQTT3": {"topicname": "t"},
    "MQTT5": {"topicname": "t"},
    "NATS": {"subject": "t"},
}
SCHEMES = {
    "HTTP": {"http", "https"},
    "AMQP": {"amqp", "amqps"},
    "KAFKA": {"kafka"},
    "MQTT3": {"mqtt", "mqtts"},
    "MQTT5": {"mqtt", "mqtts"},
    "NATS": {"nats", "tls"},
}


@pytest.mark.row("CE-3.2.1-6")
@pytest.mark.parametrize("protocol", SCHEMES)
def test_the_sink_has_a_scheme_of_its_protocol(managers: Managers, protocol: str) -> None:
    for scheme in ("http", "https", "amqp", "amqps", "kafka", "mqtt", "mqtts", "nats", "tls", "ftp", "ws", "file"):
        sink = f"{scheme}://sink.example/there" if protocol in ("HTTP", "AMQP") else f"{scheme}://sink.example"
        answer = managers.create(protocol=protocol, sink=sink, protocolsettings=SETTINGS[protocol])
        reported = [each["message"] for each in answer.json["mistakes"] if each["field"] == "/sink"]
        assert (answer.status, len(reported)) == (400, 1)
        assert ("policy" in reported[0]) is (scheme in SCHEMES[protocol]), reported  # then only the policy refuses


@pytest.mark.row("CE-3.2.4.1-6")
def test_all_mistakes_come_at_once(managers: Managers) -> None:
    answer = managers.create(protocol="HTTP", sink="nothing", filterz=1, config={"maxevents": 0, "expires": "soon"})
    fields = {each["field"] for each in answer.json["mistakes"]}
    assert fields == {"/sink", "/filterz", "/config/maxevents", "/config/expires"}
    assert answer.json["message"] == "4 mistakes"


@pytest.mark.row("CE-3.2.4.1-6")
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"a": 1,}', b'{"a": NaN}', b'{"a": 1, "a": 2}', b"\xff", b"[" * 99]
)
def test_what_is_no_json_object(managers: Managers, body: bytes) -> None:
    answer = managers.client().request("POST", PATH, body)
    assert (answer.status, answer.json["error"]) == (400, "invalid")


def test_the_right_to_a_source(managers: Managers) -> None:
    assert managers.create(config={"address": "events/secret"}).json == {
        "error": "forbidden",
        "message": 'you may not subscribe to "events/secret"',
    }
    assert managers.create(user="ops").status == 403  # manages, and may not subscribe to anything


@pytest.mark.row("CE-3.2.4.1-5", "CE-3.2.1-2")
async def test_the_same_id_at_once(managers: Managers) -> None:
    client = managers.client()
    answers = await asyncio.gather(
        *(client.ask("POST", PATH, managers.proposal(id="one", config={"maxevents": 5 + n})) for n in range(8))
    )
    assert sorted(each.status for each in answers) == [201] + [409] * 7
    made = next(each for each in answers if each.status == 201)
    assert {each.json["error"] for each in answers if each.status == 409} == {"conflict"}
    assert client.request("GET", f"{PATH}/one").json == made.json


@pytest.mark.row("CE-3.2.4.2-2", "CE-3.2.4.4-2", "CE-3.2.8-2")
def test_unknown_ids(managers: Managers) -> None:
    client = managers.client()
    for method, body in (("GET", None), ("PUT", managers.proposal()), ("DELETE", None)):
        answer = client.request(method, f"{PATH}/nowhere", body)
        assert (answer.status, answer.json["error"]) == (404, "notfound")
    for more in ("status", "resume", "test"):
        method = "GET" if more == "status" else "POST"
        assert client.request(method, f"{PATH}/nowhere/{more}").json["error"] == "notfound"
    assert client.request("GET", f"{PATH}/nowhere/").json["error"] == "notfound"
    for path in ("%2e%2e", "a%2fb", "%ff", "%00"):
        assert client.request("GET", f"{PATH}/{path}").status == 404


@pytest.mark.row("CE-3.2.4.4-2")
def test_the_id_of_an_update(managers: Managers) -> None:
    made = managers.create(id="kept")
    assert made.status == 201
    client = managers.client()
    answer = client.request("PUT", f"{PATH}/kept", managers.proposal(id="other"))
    assert (answer.status, answer.json["mistakes"][0]["field"]) == (400, "/id")
    assert client.request("PUT", f"{PATH}/kept", managers.proposal(id="kept")).status == 200
    assert client.request("PUT", f"{PATH}/kept", managers.proposal()).json["id"] == "kept"


def test_preconditions(managers: Managers) -> None:
    made, client = managers.create(id="tagged"), managers.client()
    tag = made.headers["etag"]
    at = f"{PATH}/tagged"
    assert client.request("GET", at).headers["etag"] == tag
    for known in (tag, f"W/{tag}", "*", f'"0", {tag}', f' "x" ,W/{tag}'):
        assert client.request("GET", at, headers={"if-none-match": known}).status == 304, known
    for other in ('"0"', "", tag.strip('"'), f"w/{tag}", '"0", "x"'):
        assert client.request("GET", at, headers={"if-none-match": other}).status == 200, other
    changed = client.request("PUT", at, managers.proposal(config={"maxevents": 9}), {"if-match": tag})
    assert changed.status == 200
    assert changed.headers["etag"] != tag
    for stale in (tag, f"W/{changed.headers['etag']}", '"x"', ""):
        for method, body in (("PUT", managers.proposal()), ("DELETE", None)):
            answer = client.request(method, at, body, {"if-match": stale})
            assert (answer.status, answer.json["error"]) == (412, "changed")
    for method, body in (("PUT", managers.proposal()), ("DELETE", None)):
        for known in ("*", changed.headers["etag"], f"W/{changed.headers['etag']}"):
            answer = client.request(method, at, body, {"if-none-match": known})
            assert (answer.status, answer.json["error"]) == (412, "changed")
    for method, path in (("DELETE", at), ("POST", f"{at}/resume"), ("POST", f"{at}/test")):
        asked = client.request(method, f"{path}?dry=1")
        assert (asked.status, asked.json["mistakes"][0]["field"]) == (400, "?dry"), "a check is never a change"
    assert client.request("DELETE", at, headers={"if-match": f'"0", {changed.headers["etag"]}'}).status == 200


@pytest.mark.row("CE-3.2.4-4", "CE-3.2.4-5")
def test_operations_that_are_off(managers: Managers) -> None:
    assert managers.create("/few", id="a").status == 201
    client = managers.client()
    for method, path, allow in (
        ("GET", "/few", "POST, OPTIONS"),
        ("HEAD", "/few", "POST, OPTIONS"),
        ("PUT", "/few/a", "GET, HEAD, DELETE, OPTIONS"),
        ("PATCH", "/few/a", "GET, HEAD, DELETE, OPTIONS"),
        ("DELETE", "/subscriptions", "GET, HEAD, POST, OPTIONS"),
        ("GET", "/few/a/resume", "POST"),
    ):
        answer = client.request(method, path, managers.proposal() if method == "PUT" else None)
        assert (answer.status, answer.headers["allow"]) == (405, allow)
        assert method == "HEAD" or answer.json["error"] == "unsupported"
    reported = client.request("OPTIONS", "/few/a")
    assert reported.headers["allow"] == "GET, HEAD, DELETE, OPTIONS"
    assert reported.json["operations"] == ["create", "retrieve", "delete"]
    assert reported.json["protocols"] == ["HTTP"]


def test_head_is_get_without_content(managers: Managers) -> None:
    """RFC 9110, 9.3.2; but a mail scanner that looks at the address of a consent does not give it."""
    client = managers.client()
    assert managers.create("/subscriptions", id="looked-at").status == 201
    for path in ("/subscriptions", "/subscriptions/looked-at", "/subscriptions/looked-at/status"):
        got, head = client.request("GET", path), client.request("HEAD", path)
        assert (got.status, head.status, head.body) == (200, 200, b"")
        assert head.headers.get("etag") == got.headers.get("etag")
    assert client.request("HEAD", "/subscriptions/nothing").status == 404
    refused = client.request("HEAD", "/subscriptions/looked-at/confirm?key=x")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, POST")


@pytest.mark.row("CE-3.2.4.4-5", "CE-3.2.1-1")
def test_upsert_and_limits(managers: Managers) -> None:
    client = managers.client()
    assert client.request("PUT", "/small/new", managers.proposal(), {"if-match": '"1"'}).status == 404
    made = client.request("PUT", "/small/new", managers.proposal(), {"if-none-match": "*"})
    assert client.request("PUT", "/small/new", managers.proposal(), {"if-none-match": "*"}).status == 412
    assert (made.status, made.headers["location"]) == (201, "/small/new")
    again = client.request("PUT", "/small/new", managers.proposal())
    assert (again.status, again.json) == (200, made.json)
    assert client.request("PUT", "/small/other", managers.proposal(), {"if-match": "*"}).status == 404
    assert managers.create("/small").status == 201
    refused = managers.create("/small")
    assert (refused.status, refused.json["error"]) == (400, "invalid")
    assert "limits.user" in refused.json["mistakes"][0]["message"]
    assert managers.create("/small", "shipping").status == 201
    assert "limits.subscriptions" in managers.create("/small", "shipping").json["mistakes"][0]["message"]


def test_a_body_that_is_compressed_is_not_taken_for_another(managers: Managers) -> None:
    answer = managers.client("billing").request(
        "POST", PATH, managers.proposal(id="gzip"), {"content-encoding": "gzip"}
    )
    assert (answer.status, answer.json["error"]) == (415, "unsupported")


def test_a_dry_run_stores_nothing(managers: Managers) -> None:
    client = managers.client()
    answer = client.request("POST", f"{PATH}?dry=1", managers.proposal(id="dry"))
    assert answer.status == 200
    assert answer.json["protocolsettings"]["method"] == "POST"
    assert "location" not in answer.headers
    assert client.request("GET", f"{PATH}/dry").status == 404
    assert client.request("POST", f"{PATH}?dry=1", managers.proposal(sink="x")).status == 400
    for query in ("dry=maybe", "dry=1&dry=0", "Dry=1", "dry=1&x=1"):
        assert client.request("POST", f"{PATH}?{query}", managers.proposal()).status == 400, query


def test_what_is_somebody_elses_is_not_there(managers: Managers) -> None:
    made = managers.create(id="mine", sink=managers.sink + "?token=abc")
    assert made.status == 201
    other, ops = managers.client("shipping"), managers.client("ops")
    for method in ("GET", "PUT", "DELETE"):
        known = other.request(method, f"{PATH}/mine", managers.proposal() if method == "PUT" else None)
        unknown = other.request(method, f"{PATH}/none", managers.proposal() if method == "PUT" else None)
        assert (known.status, known.body) == (unknown.status, unknown.body) == (404, unknown.body)
    assert ops.request("GET", f"{PATH}/mine").json["sink"] == managers.sink  # its query may hold a secret
    assert ops.request("PUT", f"{PATH}/mine", managers.proposal()).status == 403
    assert ops.request("DELETE", f"{PATH}/mine").status == 200
    assert managers.client().request("GET", f"{PATH}/mine").status == 404


def test_errors_tell_no_secret(managers: Managers) -> None:
    credential = {"credentialtype": "PLAIN", "identifier": "gate", "secret": "very-secret-word"}
    answer = managers.create(sinkcredential=credential, filterz=1)
    assert answer.status == 400
    assert "very-secret-word" not in json.dumps(answer.json)


def test_headers_in_several_lines_and_absolute_targets_mean_the_same(managers: Managers) -> None:
    made = managers.create(id="lines")
    assert made.status == 201
    tag, client = made.headers["etag"], managers.client()
    login = client.headers["authorization"]

    def ask(method: str, target: str, *headers: str, body: object = None) -> int:
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {target} HTTP/1.1", "host: gateway", f"authorization: {login}", "connection: close"]
        lines += ["content-type: application/json", f"content-length: {len(data)}", *headers]
        with socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) as peer:
            peer.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
            return int(peer.makefile("rb").readline().split()[1])

    at = f"{PATH}/lines"
    assert ask("GET", at, 'if-none-match: "0"', f"if-none-match: {tag}") == 304
    proposal = managers.proposal()
    assert ask("PUT", at, 'if-none-match: "0"', f"if-none-match: {tag}", body=proposal) == 412
    assert ask("PUT", at, 'if-match: "0"', 'if-match: "x"', body=proposal) == 412
    assert ask("PUT", at, 'if-match: "0"', f"if-match: {tag}", body=proposal) == 200
    assert ask("GET", f"{PATH}?limit=1&limit=2") == 400
    assert ask("GET", f"http://gateway{at}") == 200
    assert ask("GET", f"HTTP://gateway:1/elsewhere{at}") == 404
    assert ask("DELETE", f"http://gateway{at}") == 200
