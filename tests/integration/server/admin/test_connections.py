"""The admin API and its commands, against the process, with a peer that is seen, starves and is closed."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway import __version__
from tests.support.amqp.peer import Peer
from tests.support.cli.admin import Admin
from tests.support.cli.commands import run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import socket_folder, wait_until

MESSAGE = b"\x00\x53\x75\xa0\x01x"
"""A message with a body of one byte."""


@pytest.fixture(scope="module")
def admin(start_module_gateway: Gateways) -> Admin:
    document = Document()
    document.add_scope("core", {"match": "jobs/**", "direct": "balanced"})
    return Admin(start_module_gateway, document)


@pytest.fixture
def peer(admin: Admin) -> Iterator[Peer]:
    """A client with a receiver at `chat/room`, and its connection as the only one."""
    wait_until(lambda: not admin.items("connections"), "earlier connections to end")
    with Peer(admin.document.edge) as found:
        found.start()
        found.attach_receiver("chat/room")
        yield found


def test_status_says_what_runs(admin: Admin) -> None:
    done = admin.run("status")
    assert done.returncode == 0, done.stderr
    assert f"gateway  gw-test, version {__version__}, process {admin.gateway.process.pid}\n" in done.stdout
    assert "\nlisteners  yes    yes" in done.stdout
    found = json.loads(admin.run("status", "-o", "json").stdout)
    assert found["ready"] is True
    assert found["policy"]["file"] == str(admin.gateway.policy)


def test_a_connection_and_its_links_are_listed(admin: Admin, peer: Peer) -> None:
    (connection,) = admin.items("connections")
    assert connection["scope"] == "edge"
    assert (connection["state"], connection["user"], connection["links"]) == ("open", "anonymous", 1)
    assert connection["bytes_in"] > 0
    (link,) = admin.items("links")
    assert link["id"] == f"{connection['id']}.1"
    assert (link["direction"], link["address"], link["rule"]) == ("out", "chat/room", "chat/**")
    assert admin.items("links", "--rule", "jobs/**") == []
    (same,) = admin.items("links", "--user", "anonymous", "--direction", "out")
    assert same["id"] == link["id"]
    assert admin.items("connections", "--scope", "core") == []
    assert "chat/room  chat/**" in admin.run("links").stdout


def test_a_sender_without_credit_starves_and_a_receiver_ends_that(admin: Admin, peer: Peer) -> None:
    peer.attach_sender("chat/hall", 1)
    (starved,) = wait_until(lambda: admin.items("links", "--starved", "--direction", "in"), "a starving sender")
    assert (starved["address"], starved["credit"]) == ("chat/hall", 0)
    assert starved["waiting_since"].endswith("Z")
    with Peer(admin.document.edge) as reader:
        reader.start()
        reader.attach_receiver("chat/hall")
        reader.flow(0, link_credit=10)
        wait_until(lambda: not admin.items("links", "--starved", "--direction", "in"), "credit for the sender")
        peer.until("flow", handle=1)
        peer.transfer(MESSAGE, handle=1)
        (link,) = wait_until(
            lambda: [each for each in admin.items("links", "--direction", "in") if each["transfers"]], "the transfer"
        )
        assert (link["id"], link["unsettled"]) == (starved["id"], 1)
        reader.until("transfer")
        (out,) = admin.items("links", "--direction", "out", "--address", "chat/hall")
        assert (out["transfers"], out["unsettled"]) == (1, 1)
        reader.disposition(0, "accepted")
        admin.gateway.metrics()  # takes what the link has counted; its own counts go on
        wait_until(lambda: _link(admin, link["id"])["outcomes"] == {"accepted": 1}, "the outcome to be counted")
        assert _link(admin, link["id"])["transfers"] == 1
        assert (_link(admin, out["id"])["outcomes"], _link(admin, out["id"])["unsettled"]) == ({}, 0)


def test_close_ends_a_link_and_then_its_connection(admin: Admin, peer: Peer) -> None:
    (link,) = admin.items("links")
    done = admin.run("close", link["id"], "--reason", "maintenance")
    assert (done.returncode, done.stdout) == (0, f"closed {link['id']}\n")
    text = "closed by an operator of the gateway: maintenance"
    detach = peer.until("detach", closed=True, error="amqp:link:detach-forced")
    assert detach.error["description"] == text
    done = admin.run("close", link["connection"])
    assert done.returncode == 0, done.stderr
    close = peer.until("close", error="amqp:connection:forced")
    assert close.error["description"] == "closed by an operator of the gateway"
    peer.close()
    for action in ("close link", "close connection"):
        line = admin.gateway.wait_log("admin action", action=action)
        assert line["who"].startswith("uid ")
    wait_until(lambda: not admin.items("connections"), "the connection to end")
    again = admin.run("close", link["connection"])
    assert (again.returncode, again.stderr) == (1, "no connection has this id; it may have ended\n")


def test_lists_come_in_pages(admin: Admin, peer: Peer) -> None:
    for handle in range(1, 8):
        peer.attach_receiver(f"chat/{handle}", handle)
    whole = [link["id"] for link in admin.items("links")]
    assert len(whole) == 8
    paged, after = [], ""
    while True:
        status, page = admin.ask("GET", f"/links?limit=3{after}")
        assert status == 200
        paged += [link["id"] for link in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert paged == whole
    status, page = admin.ask("GET", "/connections?limit=1")
    assert (status, len(page["items"]), page["total"]) == (200, 1, 1)


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/links?limit=1000000", 400, "limit: a number from 1 to 1000"),
        ("GET", "/links?limit=0", 400, "limit: a number from 1 to 1000"),
        ("GET", "/links?limit=10&limit=20", 400, "limit: given twice; give it once"),
        ("GET", "/links?after=17", 400, "an id here is like 17.3"),
        ("GET", "/links?starved=maybe", 400, "starved: true or false"),
        ("GET", "/connections?usr=alice", 400, "'usr': unknown parameter; allowed: limit, after, scope, user"),
        ("GET", "/connections/x", 400, "an id here is like 17"),
        ("GET", "/connections/999999", 404, "no connection has this id"),
        ("DELETE", "/links/999999.1", 404, "no link has this id"),
        ("DELETE", "/connections/1?reason=a%0Ab", 400, "reason: up to 200 printable characters"),
        ("GET", "/secrets", 404, "there is nothing at this path"),
        ("POST", "/connections", 405, "this path has no such method"),
    ],
)
def test_a_mistake_gets_a_clear_answer(admin: Admin, method: str, path: str, status: int, words: str) -> None:
    answer, found = admin.ask(method, path)
    assert (answer, words in found["message"]) == (status, True), found


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Host": "rebound.example"}, 421, "host"),
        ({"Host": "localhost", "Origin": "https://evil.example"}, 403, "origin"),
        ({"Host": "localhost", "Origin": "null"}, 403, "origin"),
        ({"Host": "localhost", "Sec-Fetch-Site": "cross-site"}, 403, "origin"),
        ({"Host": "localhost", "Origin": "http://localhost"}, 200, None),
        ({"Host": "127.0.0.1:9000"}, 200, None),
    ],
)
def test_pages_of_other_origins_are_refused(
    admin: Admin, headers: Mapping[str, str], status: int, code: str | None
) -> None:
    answer, found = admin.ask("GET", "/status", headers)
    assert (answer, found.get("error")) == (status, code)


def test_the_socket_is_its_owners_alone(admin: Admin) -> None:
    assert stat.S_IMODE(admin.socket.stat().st_mode) == 0o600


def test_nothing_is_answered_elsewhere(admin: Admin) -> None:
    assert admin.gateway.get("/api/v1/status")[0] == 404


def test_a_socket_that_nobody_answers_is_told(tmp_path: Path) -> None:
    done = run("status", "--admin", f"unix:{tmp_path}/no.sock")
    assert done.returncode == 1
    assert done.stderr == f"no answer from unix:{tmp_path}/no.sock: No such file or directory (gateway.admin)\n"


def test_the_commands_find_the_only_gateway(start_gateway: Gateways) -> None:
    folder = socket_folder("runtime")
    folder.chmod(0o700)
    where = {"RUNTIME_DIRECTORY": str(folder)}
    assert "no gateway of this user answers" in run("status", env=where).stderr
    first = start_gateway(Document(id="one").text, env=where)
    first.wait_log("serving")  # it is ready before its admin API
    assert run("status", env=where).stdout.startswith("gateway  one, ")
    second = start_gateway(Document(id="two").text, env=where)
    second.wait_log("serving")
    both = run("status", env=where)
    assert both.returncode == 1
    assert both.stderr.startswith("2 gateways answer on this machine; choose one with --admin: unix:")
    second.kill()  # its socket stays, and nobody answers it
    assert run("status", env=where).stdout.startswith("gateway  one, ")
    first.stop()
    assert sorted(each.name.partition(".")[0] for each in folder.iterdir()) == ["two"]


def test_a_gateway_without_admin_api_serves(start_gateway: Gateways) -> None:
    folder = socket_folder("runtime")
    gateway = start_gateway(Document(admin={"listen": "off"}).text, env={"RUNTIME_DIRECTORY": str(folder)})
    assert gateway.is_ready()
    assert [*folder.iterdir()] == []


def test_a_policy_with_a_wrong_place_is_refused(tmp_path: Path) -> None:
    document = Document(admin={"listen": "unix:relative.sock"})
    policy = tmp_path / "policy.yaml"
    policy.write_text(document.text)
    done = run("check", str(policy))
    assert done.returncode == 1
    assert "gateway.admin.listen: needs an absolute path after \"unix:\"" in done.stderr


def _link(admin: Admin, key: str) -> dict[str, Any]:
    return admin.ask("GET", f"/links/{key}")[1]
