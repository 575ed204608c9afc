"""`scopegate top` in a terminal and without one, and `scopegate console` for a browser on this machine."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.support.amqp.peer import Peer
from tests.support.browser.window import Browser
from tests.support.cli.admin import Admin
from tests.support.cli.commands import command
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.project.parts import ROOT


@pytest.fixture(scope="module")
def admin(start_module_gateway: Gateways) -> Admin:
    document = Document()
    document.scope()["listen"][0]["limits"] = {"idle_timeout": "0s"}  # the client of all tests says nothing more
    return Admin(start_module_gateway, document)


@pytest.fixture(scope="module")
def peer(admin: Admin) -> Iterator[Peer]:
    """A client with a sender that waits for credit."""
    with Peer(admin.document.edge) as found:
        found.start()
        found.attach_sender("chat/nobody")
        wait_until(lambda: admin.items("links", "--starved"), "a starving sender")
        yield found


@pytest.mark.usefixtures("peer")
def test_top_without_a_terminal_prints_one_look(admin: Admin) -> None:
    done = admin.run("top", "--interval", "0.3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("gw-test, ready, up ")
    assert "\n1 connection, 1 link, 0 unsettled\n" in done.stdout
    assert "chat/nobody" in done.stdout
    assert "\x1b" not in done.stdout
    looks = admin.run("top", "--interval", "0.3", "--count", "2", "-o", "json").stdout.splitlines()
    assert [json.loads(look)["links"][0]["address"] for look in looks] == ["chat/nobody"] * 2


@pytest.mark.usefixtures("peer")
def test_top_in_a_terminal_ends_with_q_and_leaves_the_terminal_as_it_was(admin: Admin) -> None:
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 20, 100, 0, 0))
    before = termios.tcgetattr(its)
    arguments = command("top", "--interval", "0.5", "--admin", f"unix:{admin.socket}")
    child = subprocess.Popen(arguments, stdin=its, stdout=its, stderr=its, cwd=ROOT)
    try:
        shown = b""
        while b"chat/nobody" not in shown:
            shown += os.read(mine, 65_536)
        assert b"\x1b[?1049h" in shown
        os.write(mine, b"q")
        assert child.wait(PATIENCE) == 0
        assert termios.tcgetattr(its) == before
        while b"\x1b[?1049l" not in shown:
            shown += os.read(mine, 65_536)
    finally:
        child.kill()
        child.wait()
        os.close(mine)
        os.close(its)


@contextmanager
def console(admin: Admin) -> Iterator[str]:
    """`scopegate console`; the address that it prints."""
    arguments = command("console", "--admin", f"unix:{admin.socket}")
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE) == 0
    finally:
        child.kill()
        child.communicate()


@pytest.mark.usefixtures("peer")
def test_the_console_of_a_socket_opens_once(admin: Admin) -> None:
    with console(admin) as address, Browser() as browser:
        browser.window(1440, 900)
        browser.open(address)
        browser.wait_text("operate", "#who")
        assert "token" not in browser.run("location.href")
        browser.run("location.hash = '#/links'")
        browser.wait_text("waiting for credit since", "main table")
        browser.wait_text("1", "#figures")  # by the stream
        assert browser.errors == []
        base, _, token = address.partition("/#token=")
        port = int(base.rpartition(":")[2])
        assert asked(port, "POST", "/api/v1/session", {"Content-Type": "application/json"}, {"token": token})[0] == 401
        for path in ("/api/v1/status", "/api/v1/session", "/api/v1/events"):
            assert asked(port, "GET", path)[0] == 401
        assert asked(port, "GET", "/", {"Host": "rebound.example"})[0] == 421
        (cookie,) = browser.send("Network.getCookies")["cookies"]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        mine = {"Cookie": f"{cookie['name']}={cookie['value']}"}
        assert asked(port, "GET", "/api/v1/status", mine)[0] == 200
        assert asked(port, "POST", "/api/v1/check", mine)[0] == 403
        assert asked(port, "POST", "/api/v1/check", {**mine, "Origin": "https://evil.example"})[0] == 403
        assert asked(port, "POST", "/api/v1/check", {**mine, "Origin": base})[0] == 200
        assert admin.gateway.wait_log("admin action", action="check")["who"] == f"uid {os.geteuid()}"


def asked(
    port: int, method: str, path: str, headers: Mapping[str, str] | None = None, body: object = None
) -> tuple[int, bytes]:
    """Status and body of an answer of the console's port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
