"""docs/guide/clients.md: its policy, and its programs with the unmodified libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from proton import Message, symbol

from tests.support.amqp.foreign import JAVA, rhea_environment
from tests.support.cli.commands import run
from tests.support.cli.guides import Guide, ported
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, fresh_folder, ports
from tests.support.project.commands import program
from tests.support.project.named_tests import missing_tests, named_tests
from tests.support.project.parts import CLIENTS, folder
from tests.support.servers.certs import Authority

GUIDE = Guide("clients.md")


class Shop:
    """The gateway of the guide; `alice` may log in."""

    def __init__(self, start: Gateways, authority: Authority) -> None:
        self.folder, self.authority = fresh_folder("clients"), authority
        self.tls, self.tcp, http = ports(3)
        pair = authority.server(file="clients")
        shutil.copy(pair.cert, self.folder / "gateway.crt")
        shutil.copy(pair.key, self.folder / "gateway.key")
        run("users", "add", str(self.folder / "users.yaml"), "alice", "--password-stdin", text="alice-of-the-shop\n")
        text = ported(GUIDE.named("clients.yaml"), {5671: self.tls, 5672: self.tcp})
        policy = self.folder / "clients.yaml"
        policy.write_text(f'gateway: {{http: "127.0.0.1:{http}", admin: {{listen: off}}}}\n{text}')
        start(policy)

    def program(self, name: str) -> Path:
        """Write a program of the guide to a file."""
        path = self.folder / name
        path.write_text(GUIDE.named(name))
        return path

    def output(self, *command: str, secure: bool = True, env: Mapping[str, str] | None = None) -> str:
        """Run a client and return what it printed."""
        url = f"amqps://localhost:{self.tls}" if secure else f"amqp://localhost:{self.tcp}"
        login = {"AMQP_URL": url, "PASSWORD": "alice-of-the-shop", "CA_FILE": str(self.authority.ca)}
        done = subprocess.run(
            command, env={**os.environ, **login, **(env or {})}, capture_output=True, text=True, timeout=2 * PATIENCE,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def shop(start_module_gateway: Gateways, authority: Authority) -> Shop:
    return Shop(start_module_gateway, authority)


def test_proton(shop: Shop) -> None:
    assert shop.output(sys.executable, str(shop.program("orders.py"))) == "from proton\na request\n"


def test_jms(shop: Shop) -> None:
    command = [program("java"), *JAVA, "-cp", f"{folder('jms')}/*", str(shop.program("Orders.java"))]
    assert shop.output(*command, secure=False) == "from JMS\n"


def test_rhea(shop: Shop) -> None:
    assert shop.output(program("node"), str(shop.program("orders.js")), env=rhea_environment()) == "from rhea\n"


def test_go_amqp(shop: Shop) -> None:
    assert GUIDE.named("main.go") == (CLIENTS / "go-amqp/main.go").read_text(), "the part is built from this file"
    assert shop.output(str(folder("go-amqp") / "client")) == "from go-amqp\n"


def test_the_tests_that_the_guide_names_exist() -> None:
    assert len(named_tests(GUIDE.text)) > 6
    assert list(missing_tests(GUIDE.text)) == []


def test_binary_values_of_proton_are_views_that_change() -> None:
    """Why the guide says to copy them."""
    first, second = (Message(annotations={symbol("cookie"): value}).encode() for value in (b"first", b"later"))
    received = Message()
    received.decode(first)
    kept = received.annotations[symbol("cookie")]
    assert bytes(kept) == b"first"
    received.decode(second)
    assert bytes(kept) == b"later"
