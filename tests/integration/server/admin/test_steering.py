"""Reload, check and drain through the admin API: answered when they are done, with every mistake, and audited."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.amqp.peer import Peer
from tests.support.cli.admin import Admin
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways


@pytest.fixture
def admin(start_gateway: Gateways) -> Admin:
    return Admin(start_gateway, Document())


def test_reload_waits_until_the_policy_is_in_force(admin: Admin) -> None:
    before = admin.ask("GET", "/policy")[1]["digest"]
    with Peer(admin.document.edge) as peer:
        peer.start()
        peer.attach_receiver("chat/room")
        admin.document.scope()["addresses"] = [{"match": "hall/**", "direct": "balanced"}]
        _write(admin)
        assert admin.run("reload", "--check").stdout == "ok: a reload would accept the policy\n"
        done = admin.run("reload")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("reloaded: digest ")
        peer.until("detach", closed=True)
    status, found = admin.ask("GET", "/policy")
    assert (status, found["last_reload"]["result"]) == (200, "ok")
    assert found["digest"] != before
    assert [each["digest"] for each in found["before"]] == [before]
    assert found["digest"] in done.stdout
    assert admin.gateway.wait_log("admin action", action="reload", result="ok")["who"].startswith("uid ")


def test_reload_answers_every_mistake_and_keeps_the_policy(admin: Admin) -> None:
    before = admin.ask("GET", "/policy")[1]["digest"]
    admin.document.data["gateway"]["drian"] = "1s"
    admin.document.scope()["adresses"] = []
    _write(admin)
    for arguments in (["reload", "--check"], ["reload"]):
        done = admin.run(*arguments)
        assert done.returncode == 1
        assert "gateway.drian: unknown key; did you mean drain?" in done.stderr
        assert "scopes.edge.adresses: unknown key; did you mean addresses?" in done.stderr
        assert done.stderr.endswith("2 mistakes: the policy in force stays\n")
    found = admin.ask("GET", "/policy")[1]
    assert (found["digest"], found["last_reload"]["result"]) == (before, "failed")
    assert len(json.loads(admin.run("reload", "-o", "json").stdout)["problems"]) == 2
    assert admin.gateway.is_ready()


def test_reloads_at_once_are_all_answered(admin: Admin) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda _: admin.ask("POST", "/reload"), range(8))]
    assert {(status, found["result"]) for status, found in answers} == {(200, "ok")}


@pytest.mark.parametrize("body", ["{", '{"dry_run": true}', "[]", "null", "x" * 5000])
def test_a_body_that_nobody_reads_is_refused(admin: Admin, body: str) -> None:
    """Whoever asks for something else than the whole must not get the whole."""
    for method, path in (("POST", "/drain"), ("POST", "/reload"), ("POST", "/check"), ("DELETE", "/connections/1")):
        status, found = admin.ask(method, path, body=body)
        assert (status, found["error"]) == (400, "query"), path
    assert admin.gateway.is_ready()
    assert not [line for line in admin.gateway.log() if line["event"] == "admin action"]
    assert admin.ask("POST", "/check", body="{}")[0] == 200


def test_drain_ends_the_gateway_in_order(admin: Admin) -> None:
    with Peer(admin.document.edge) as peer:
        peer.start()
        done = admin.run("drain", "--no-wait")
        assert (done.returncode, done.stdout) == (0, "draining: 0 unsettled\n")
        peer.until("close", error="amqp:connection:forced")
        peer.close()
    assert admin.gateway.process.wait() == 0
    assert not admin.socket.exists()
    assert admin.gateway.wait_log("admin action", action="drain")


def test_drain_waits_for_the_end(admin: Admin) -> None:
    done = admin.run("drain")
    assert done.returncode == 0, done.stderr
    assert admin.gateway.process.wait() == 0  # it listens no more a moment before it removes the socket
    assert not admin.socket.exists()


def _write(admin: Admin) -> None:
    """Replace the policy file in one step."""
    beside = admin.gateway.policy.with_name("next.yaml")
    beside.write_text(admin.document.text)
    beside.replace(admin.gateway.policy)
