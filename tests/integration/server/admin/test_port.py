"""The admin API at a TCP port with TLS: tokens, certificates, sessions of browsers, roles, and reloads of all these."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping

import pytest

from tests.support.cli.admin_port import DASH, OPS, AdminPort
from tests.support.cli.commands import run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import fresh_folder, wait_until
from tests.support.servers.certs import Authority, Pair


@pytest.fixture(scope="module")
def admin(start_module_gateway: Gateways, authority: Authority) -> AdminPort:
    certificates = {"alice": "operate", "bob": "view"}
    return AdminPort(
        start_module_gateway, Document(), authority=authority, certificates=certificates, hosts=["gate.example"]
    )


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Pair:
    return authority.client("alice", file="admin-alice")


PATHS = ("/status", "/connections", "/links", "/policy", "/policy/diff", "/keys", "/refusals", "/events", "/session")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong-token-0123456789"},
        {"Authorization": f"Basic {OPS}"},
        {"Authorization": OPS},
        {"Cookie": "scopegate=x"},
    ],
)
def test_nothing_is_readable_without_a_token_or_certificate(
    admin: AdminPort, path: str, headers: Mapping[str, str]
) -> None:
    status, found, answer = admin.at_port("GET", path, headers=headers)
    assert (status, found["error"]) in [(401, "unauthenticated"), (429, "toomany")]
    assert "set-cookie" not in answer
    assert found.keys() == {"error", "message"}


def test_a_token_may_what_its_role_says(admin: AdminPort) -> None:
    assert admin.at_port("GET", "/status", token=DASH)[0] == 200
    assert admin.at_port("GET", "/session", token=DASH)[1] == {"name": "token dash", "role": "view", "browser": False}
    for method, path in (("POST", "/check"), ("POST", "/reload"), ("POST", "/drain"), ("DELETE", "/connections/1")):
        status, found, _ = admin.at_port(method, path, token=DASH)
        assert (status, found["error"]) == (403, "role")
        assert found["message"] == "token dash has the role view; this needs operate"
    assert admin.at_port("POST", "/check", token=OPS)[0] == 200
    assert admin.gateway.wait_log("admin action", action="check", who="token ops")


def test_a_client_certificate_may_what_its_role_says(admin: AdminPort, authority: Authority, alice: Pair) -> None:
    bob, eve = authority.client("bob", file="admin-bob"), authority.client("eve", file="admin-eve")
    assert admin.at_port("POST", "/check", certificate=alice)[0] == 200
    assert admin.gateway.wait_log("admin action", action="check", who="certificate alice")
    assert admin.at_port("GET", "/status", certificate=bob)[0] == 200
    assert admin.at_port("POST", "/check", certificate=bob)[0] == 403
    assert admin.at_port("GET", "/status", certificate=eve)[0] == 401
    foreign = Authority(fresh_folder("foreign"), "foreign").client("alice")
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        admin.at_port("GET", "/status", certificate=foreign)


def test_a_browser_logs_in_with_a_cookie_that_scripts_cannot_read(admin: AdminPort) -> None:
    assert admin.at_port("POST", "/session", body={"token": "wrong-token-0123456789"})[0] in (401, 429)
    status, found, headers = admin.at_port("POST", "/session", body={"token": OPS})
    assert (status, found) == (200, {"name": "token ops", "role": "operate", "browser": True})
    assert OPS not in headers["set-cookie"]
    parts = headers["set-cookie"].split("; ")
    assert parts[0].startswith(f"__Host-scopegate-{admin.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/"} < set(parts)
    cookie = {"Cookie": parts[0]}
    assert admin.at_port("GET", "/status", headers=cookie)[0] == 200
    assert admin.at_port("GET", "/session", headers=cookie)[1]["browser"] is True


def test_a_session_ends_when_the_person_logs_out(admin: AdminPort) -> None:
    cookie = {"Cookie": admin.log_in(), "Origin": admin.base}
    assert admin.at_port("DELETE", "/session", headers=cookie)[0] == 200
    assert admin.at_port("GET", "/status", headers=cookie)[0] == 401
    assert admin.gateway.wait_log("admin action", action="log out", who="token ops")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "origin"),  # a browser always sends the origin of such a request
        ({"Origin": "https://evil.example"}, "origin"),
        ({"Origin": "null"}, "origin"),
        ({"Sec-Fetch-Site": "same-site", "Origin": "https://127.0.0.1:1"}, "origin"),
        ({"Host": "rebound.example", "Origin": "https://rebound.example"}, "host"),
    ],
)
def test_another_page_cannot_use_the_cookie(admin: AdminPort, headers: Mapping[str, str], code: str) -> None:
    cookie = admin.log_in()
    status, found, _ = admin.at_port("POST", "/check", headers={"Cookie": cookie, **headers})
    assert (status in (403, 421), found["error"]) == (True, code)
    assert admin.at_port("POST", "/check", headers={"Cookie": cookie, "Origin": admin.base})[0] == 200


def test_a_page_cannot_log_somebody_in(admin: AdminPort) -> None:
    """A form can send its text to any origin, but not as JSON."""
    headers = {"Content-Type": "text/plain"}
    assert admin.at_port("POST", "/session", body={"token": OPS}, headers=headers)[0] == 400
    foreign = {"Origin": "https://evil.example"}
    assert admin.at_port("POST", "/session", body={"token": OPS}, headers=foreign)[0] == 403
    for body in ([], {"token": 5}, {"token": ""}, {"token": "x" * 5000}):
        assert admin.at_port("POST", "/session", body=body)[0] == 400


def test_a_name_of_the_policy_is_a_host(admin: AdminPort) -> None:
    assert admin.at_port("GET", "/status", token=DASH, headers={"Host": f"Gate.example:{admin.port}"})[0] == 200
    assert admin.at_port("GET", "/status", token=DASH, headers={"Host": "gate.example.evil"})[0] == 421


def test_the_commands_use_a_token_or_a_certificate(admin: AdminPort, alice: Pair, authority: Authority) -> None:
    token = fresh_folder("token") / "dash"
    token.write_text(f"{DASH}\n")
    place = ("--admin", admin.base, "--ca", str(authority.ca))
    done = run("status", *place, "--token-file", str(token))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("gateway  gw-test, ")
    assert run("links", *place, env={"SCOPEGATE_ADMIN_TOKEN": OPS}).stdout == "no links\n"
    for arguments in (("reload",), ("reload", "--check")):
        refused = run(*arguments, *place, "--token-file", str(token))
        assert (refused.returncode, refused.stderr) == (1, "token dash has the role view; this needs operate\n")
    certificate = ("--cert", str(alice.cert), "--key", str(alice.key))
    assert run("reload", "--check", *place, *certificate).returncode == 0
    missing = run("status", *place)
    assert (missing.returncode, "needs a token or a client certificate" in missing.stderr) == (1, True)
    distrusted = run("status", "--admin", admin.base, "--token-file", str(token))
    assert distrusted.returncode == 1
    assert "certificate" in distrusted.stderr
    nowhere = run("status", "--admin", "ftp://127.0.0.1")
    assert (nowhere.returncode, "is unix:/path, https://host:port or http://host:port" in nowhere.stderr) == (1, True)


def test_many_wrong_tokens_are_slowed_down_and_right_ones_pass(admin: AdminPort) -> None:
    def refused() -> bool:
        return admin.at_port("GET", "/status", token="wrong-token-0123456789")[0] == 429

    wait_until(refused, "too many wrong tokens")
    assert admin.at_port("GET", "/status", token=DASH)[0] == 200
    line = admin.gateway.wait_log("authentication failed", reason="admin-token")
    assert line["peer"] == "127.0.0.1"
    assert admin.gateway.metrics()['scopegate_sasl_failures_total{reason="admin-token"}'] >= 5
    assert "wrong-token" not in admin.gateway.process.text()
    assert OPS not in admin.gateway.process.text()


def test_a_reload_takes_a_token_its_sessions_and_an_authority_away(
    start_gateway: Gateways, authority: Authority, alice: Pair
) -> None:
    admin = AdminPort(start_gateway, Document(), authority=authority, certificates={"alice": "operate"})
    model = admin.document.data["gateway"]["admin"]
    cookie = {"Cookie": admin.log_in()}
    with admin.connection(alice) as kept:
        kept.request("GET", "/api/v1/status")
        assert kept.getresponse().read()
        assert kept.sock is not None, "the connection is kept, and asked again after the reload"
        kept.sock.sendall(b"GET /api/v1/status HTTP/1.1\r\n")  # one that says nothing is kept for five seconds only
        del model["tokens"]["ops"]
        other = Authority(fresh_folder("other"), "other")
        model["tls"]["client_ca"] = str(other.ca)
        admin.gateway.reload(admin.document.text)
        kept.sock.sendall(f"Host: 127.0.0.1:{admin.port}\r\n\r\n".encode())
        answer = http.client.HTTPResponse(kept.sock)
        answer.begin()
        assert answer.status == 401, answer.read()
    assert admin.at_port("GET", "/status", token=OPS)[0] == 401
    assert admin.at_port("GET", "/status", headers=cookie)[0] == 401
    assert admin.at_port("GET", "/status", token=DASH)[0] == 200
    assert admin.at_port("GET", "/status", certificate=other.client("alice"))[0] == 200
    assert not [line for line in admin.gateway.log() if line.get("event") == "changes that need a restart"]
