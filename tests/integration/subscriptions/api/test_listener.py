"""The `api` listener of a scope: logins, rates, limits and TLS, before any subscription is looked at."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
from pathlib import Path

import pytest

from tests.support.amqp.links import passes, receiving, sending
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import free_port
from tests.support.servers.certs import Authority
from tests.support.subscriptions.api import (
    Answered,
    ApiClient,
    basic,
    subscription_policy,
    write_users,
)

ITEM = "/subscriptions/none"


class Api:
    """The gateway of this module, with a listener for each way to log in."""

    def __init__(self, document: Document, gateway: Gateway, authority: Authority, folder: Path) -> None:
        self.gateway, self.authority, self.folder = gateway, authority, folder
        self.plain, self.tls, self.anonymous, self.limited, self.failing = (
            int(each["bind"].rpartition(":")[2]) for each in document.scope()["api"]
        )

    def client(self, user: str | None = "billing") -> ApiClient:
        """A user's on the listener without TLS."""
        return ApiClient(self.plain, user)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Api:
    folder = tmp_path_factory.mktemp("api")
    authority = Authority(folder)
    server = authority.server()
    document = subscription_policy(folder)
    first = document.scope()["api"][0]
    tls = {"cert": str(server.cert), "key": str(server.key), "client_ca": str(authority.ca)}
    document.scope()["api"] += [
        {**first, "bind": f"127.0.0.1:{free_port()}", "tls": tls, "auth": ["basic", "certificate"]},
        {"bind": f"127.0.0.1:{free_port()}", "auth": ["anonymous"]},
        {**first, "bind": f"127.0.0.1:{free_port()}", "limits": {"user_requests": "2/m", "connections": 3}},
        {**first, "bind": f"127.0.0.1:{free_port()}"},
    ]
    return Api(document, start_module_gateway(document.text), authority, folder)


def test_a_user_of_the_scope_logs_in_with_a_password(api: Api) -> None:
    assert api.client().request("GET").status == 204
    answer = api.client().request("OPTIONS")
    assert answer.status == 200
    assert "date" in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("billing", "wrong"),
        basic("nobody", "wrong"),
        basic("", ""),
        {"authorization": "Basic !!!"},
        {"authorization": "Basic"},
        {"authorization": "Bearer abc"},
    ],
)
def test_everybody_else_gets_the_same_answer(api: Api, headers: dict[str, str]) -> None:
    client = ApiClient(api.failing, None)
    client.headers = headers
    first = client.request("GET", ITEM)
    while first.status == 429:  # the cases of this test come from one address
        first = client.request("GET", ITEM)
    assert (first.status, first.json["error"]) == (401, "unauthenticated")
    assert first.headers["www-authenticate"].startswith("Basic realm=")
    assert first.json == {"error": "unauthenticated", "message": "log in with a user of this scope"}


async def test_the_sixth_failure_of_an_address_in_a_second_has_to_wait(api: Api) -> None:
    while ApiClient(api.failing, "shipping").request("GET").status != 204:
        pass  # the failures of the tests before it
    client = ApiClient(api.failing, "nobody")
    refused: list[Answered] = []
    while not refused:
        answers = await asyncio.gather(*(client.ask("GET") for _ in range(12)))
        refused = [each for each in answers if each.status == 429]
    answer = refused[0]
    assert ApiClient(api.failing, "shipping").request("GET").status == 204  # remembered: not kept out by others
    assert answer.json["error"] == "toomany"
    assert answer.headers["retry-after"] == "1"
    api.gateway.wait_log("authentication failed", reason="basic")


def test_certificates_name_their_user(api: Api) -> None:
    context = ssl.create_default_context(cafile=str(api.authority.ca))
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        ApiClient(api.tls, None).request("GET")  # no TLS
    assert ApiClient(api.tls, None, tls=context).request("GET").status == 401
    assert ApiClient(api.tls, "shipping", tls=context).request("GET").status == 204
    pair = api.authority.client("billing")
    context.load_cert_chain(pair.cert, pair.key)
    assert ApiClient(api.tls, None, tls=context).request("GET").status == 204


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_requests_of_web_pages_are_refused(api: Api, headers: dict[str, str]) -> None:
    for port, user in ((api.anonymous, None), (api.plain, "billing")):
        answer = ApiClient(port, user).request("GET", headers=headers)
        assert (answer.status, answer.json["error"]) == (403, "forbidden")


def test_anonymous_requests_are_those_of_the_user_anonymous(api: Api) -> None:
    assert ApiClient(api.anonymous, None).request("GET").status == 204
    assert ApiClient(api.anonymous, "billing").request("GET").status == 401  # logins are not offered here
    host = f"127.0.0.1:{api.anonymous}"
    answer = ApiClient(api.anonymous, None).request("GET", headers={"origin": f"http://{host}"})
    assert answer.status == 403  # whoever else listens at this name


def test_a_user_has_a_rate(api: Api) -> None:
    client = ApiClient(api.limited, "billing")
    assert client.request("GET").status == 204
    answer = client.request("GET")
    assert (answer.status, answer.json["error"]) == (429, "toomany")
    assert 0 < int(answer.headers["retry-after"]) <= 31
    assert ApiClient(api.limited, "shipping").request("GET").status == 204


def test_connections_beyond_the_limit_take_the_place_of_those_that_wait(api: Api) -> None:
    waiting = [socket.create_connection(("127.0.0.1", api.limited)) for _ in range(5)]
    try:
        assert ApiClient(api.limited, "ops").request("GET").status == 204
        assert waiting[0].recv(1) == b""
    finally:
        for each in waiting:
            each.close()


@pytest.mark.parametrize("path", ["/", "/subscription", "/subscriptionsx", "/subscriptions/a/b/c", "/metrics"])
def test_other_paths_are_not_there(api: Api, path: str) -> None:
    answer = api.client().request("GET", path)
    assert (answer.status, answer.json["error"]) == (404, "notfound")


def test_a_body_is_json_and_bounded(api: Api) -> None:
    client = api.client()
    answer = client.request("POST", body=b"{}", headers={"content-type": "text/plain"})
    assert (answer.status, answer.json["error"]) == (415, "unsupported")
    connection = http.client.HTTPConnection("127.0.0.1", api.plain, timeout=10)
    connection.putrequest("POST", "/subscriptions")
    for name, value in {**client.headers, "content-type": "application/json", "content-length": "70000"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
    answer = client.request("POST", body=iter([b"x" * 40_000] * 2), headers={"transfer-encoding": "chunked"})
    assert (answer.status, answer.json["error"]) == (413, "toolarge")


def test_a_reload_takes_a_user_away(api: Api) -> None:
    client = api.client("ops")
    assert client.request("GET").status == 204
    write_users(api.folder / "users.yaml", ["billing", "shipping"])
    try:
        api.gateway.reload()
        assert client.request("GET").status == 401  # also while it is remembered
    finally:
        write_users(api.folder / "users.yaml")
        api.gateway.reload()
    assert client.request("GET").status == 204


def test_amqp_goes_on_whatever_the_api_hears(api: Api) -> None:
    edge = api.gateway.ports[0]
    with receiving(edge, "chat/a") as receiver, sending(edge, "chat/a") as sender:
        for _ in range(20):
            api.client(None).request("GET")
        passes(sender, receiver)


@pytest.mark.parametrize(
    "head",
    [
        b"POST /subscriptions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /subscriptions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n",
        b"POST /subscriptions HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
)
@pytest.mark.parametrize("operators", [False, True])
def test_a_request_of_two_lengths_smuggles_no_other_one_in(api: Api, head: bytes, operators: bool) -> None:
    port = int(str(api.gateway.http).rpartition(":")[2]) if operators else api.anonymous
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(head + b"0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = b""
        while piece := peer.recv(1000):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1, "the connection is closed, and what follows is not looked at"


def answer_to(port: int, request: bytes) -> bytes:
    """The bytes of the answer to a request that closes its connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(request)
        answer = b""
        while piece := peer.recv(1000):
            answer += piece
    return answer


@pytest.mark.parametrize("operators", [False, True])
def test_another_version_of_http_is_refused(api: Api, operators: bool) -> None:
    port = int(str(api.gateway.http).rpartition(":")[2]) if operators else api.anonymous
    for version in (b"9.9", b"2.0", b"0.9"):
        answer = answer_to(port, b"GET /healthz HTTP/%b\r\nhost: x\r\nconnection: close\r\n\r\n" % version)
        assert answer.startswith(b"HTTP/1.1 505 "), answer


def test_old_forms_of_headers_are_read_in_one_way(api: Api) -> None:
    """A folded line is one value with a space, and a bare LF ends a line: nothing is passed on, so nobody differs."""
    usual = b"GET /subscriptions HTTP/1.1\r\nhost: x\r\nx-a: b c\r\nconnection: close\r\n\r\n"
    first = answer_to(api.anonymous, usual).partition(b"\r\n")[0]
    for odd in (usual.replace(b"b c", b"b\r\n c"), usual.replace(b"\r\n", b"\n")):
        assert answer_to(api.anonymous, odd).partition(b"\r\n")[0] == first


def test_a_request_for_a_websocket_is_answered_and_not_logged(api: Api) -> None:
    upgrade = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AA==\r\n"
    with socket.create_connection(("127.0.0.1", api.anonymous), timeout=10) as peer:
        peer.sendall(b"GET /subscriptions HTTP/1.1\r\nhost: x\r\n" + upgrade + b"\r\n")
        assert peer.recv(1000).startswith(b"HTTP/1.1 2")
    assert "upgrade" not in api.gateway.process.text().lower()
