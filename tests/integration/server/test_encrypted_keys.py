"""Private keys that are encrypted: the policy names where their passwords are, and `check` says when it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.amqp.links import connected, passes, receiving
from tests.support.cli.commands import run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.servers.certs import Authority, lock_key

PASSWORD = "correct horse battery staple"


def encrypted(authority: Authority, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The `tls` of a listener that asks for certificates, and of a connector that has one; both keys are encrypted."""
    server, client = authority.server(file="locked-server"), authority.client("device-7", file="locked-client")
    for pair in (server, client):
        lock_key(pair.key, PASSWORD.encode())
    (folder / "key-password").write_text(PASSWORD + "\n")
    locked = {"key_password": {"file": str(folder / "key-password")}}
    listener = {"cert": str(server.cert), "key": str(server.key), "client_ca": str(authority.ca), **locked}
    return listener, {"ca": str(authority.ca), "cert": str(client.cert), "key": str(client.key), **locked}


def check(document: Document, folder: Path) -> str:
    """Return what `scopegate check` prints for a policy with mistakes."""
    (folder / "policy.yaml").write_text(document.text)
    done = run("check", str(folder / "policy.yaml"))
    assert done.returncode == 1, done.stdout
    return " ".join((done.stdout + done.stderr).split())


def test_a_listener_and_a_connector_use_encrypted_keys(
    start_gateway: Gateways, authority: Authority, tmp_path: Path
) -> None:
    listener, connector = encrypted(authority, tmp_path)
    document = Document()
    far = document.add_scope("far", {"match": "queues/**", "direct": "balanced"}, sasl=["external"], tls=listener)
    open_port = document.add_listener("far")
    may = [{"who": "device-7", "may": "send", "on": "**"}, {"who": "anonymous", "may": "receive", "on": "**"}]
    document.scope("far")["access"] = may
    document.connector(0, to=f"amqps://localhost:{far}", sasl={"mechanism": "external"}, tls=connector)
    gateway = start_gateway(document.text)
    receiver = receiving(open_port, "queues/a", credit=10)
    sender = connected(document.edge)
    sender.attach_sender("queues/a")
    sender.until("flow", handle=0)
    passes(sender, receiver)
    assert PASSWORD not in gateway.process.text()


def test_check_says_what_the_key_needs(authority: Authority, tmp_path: Path) -> None:
    listener, _ = encrypted(authority, tmp_path)
    document = Document()
    document.add_listener(sasl=["external"], tls={**listener, "key_password": None})
    assert "the key is encrypted; a policy names its password with key_password" in check(document, tmp_path)
    (tmp_path / "key-password").write_text("not this one")
    document.scope()["listen"][1]["tls"] = listener
    assert "key_password does not decrypt the key" in check(document, tmp_path)
