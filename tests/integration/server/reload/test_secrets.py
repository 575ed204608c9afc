"""Reloads of what a policy names beside itself: keys, users, certificates (row X-8)."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.amqp import frames
from tests.support.amqp.links import connected, passes, receiving
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Listener, Peer
from tests.support.cli.commands import run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import RELOADED, Gateway, Gateways, written
from tests.support.servers.certs import Authority, Pair

pytestmark = pytest.mark.row("X-8")


class Exchange:
    """A requester in `edge` and a service in `core` that understands cookies, all on links that stay."""

    def __init__(self, edge: int, core: int) -> None:
        self.home = receiving(edge, "chat/replies", credit=100)
        self.service = connected(core, offered_capabilities=["RESPONSE_ANNOTATIONS_V1_0"])
        capable = frames.target(capabilities=["response-address-supported"])
        self.service.attach_receiver("services/echo", target=capable)
        self.service.flow(0, link_credit=100)
        self.requester = connected(edge)
        self.requester.attach_sender("svc/echo")
        self.requester.until("flow", handle=0)
        self._replying = False
        self._asked = self._answered = 0

    def ask(self) -> bytes:
        """Send a request; return the cookie it came with."""
        self.requester.transfer(message(b"?", reply_to="chat/replies"))
        transfer = self.service.until("transfer")
        self.service.disposition(transfer.delivery_id, "accepted")
        self.requester.until("disposition", first=self._asked, state="accepted")
        self._asked += 1
        annotations = sections(transfer.payload)["delivery_annotations"]
        if not self._replying:
            self.service.attach_sender(annotations["response-link-target-address"], handle=1)
            self._replying = True
        cookie: bytes = annotations["response-address-cookie"]
        return cookie

    def answer(self, cookie: bytes) -> None:
        """Send a response with a cookie and wait until the requester has it."""
        self._respond(cookie)
        transfer = self.home.until("transfer")
        assert sections(transfer.payload)["data"] == b"!"
        self.home.disposition(transfer.delivery_id, "accepted")
        self.service.until("disposition", role=RECEIVER, first=self._answered - 1, state="accepted")

    def refused(self, cookie: bytes) -> str:
        """Send a response with a cookie that is refused; return the condition."""
        self._respond(cookie)
        state = self.service.until("disposition", role=RECEIVER, first=self._answered - 1).state
        assert state.name == "rejected"
        return str(state["error"]["condition"])

    def _respond(self, cookie: bytes) -> None:
        self.service.transfer(message(b"!", da={"address-cookie": cookie}), handle=1)
        self._answered += 1


def test_keys_are_rotated_under_way(start_gateway: Gateways) -> None:
    document = Document()
    core = document.relay(key={"file": "old.key"})
    gateway = start_gateway_with_keys(start_gateway, document)
    exchange = Exchange(document.edge, core)
    old = exchange.ask()
    exchange.answer(old)
    rotated = document.but()
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    ring = {"one": {"file": "old.key", "until": tomorrow}, "two": {"file": "new.key"}}
    rotated.data["keys"] = {"active": "two", "ring": ring}
    gateway.reload(rotated.text)
    exchange.answer(old)  # the old key still verifies
    new = exchange.ask()
    assert new != old
    exchange.answer(new)
    ring["one"]["until"] = "2020-01-01"
    gateway.reload(rotated.text)
    assert exchange.refused(old) == "amqp:unauthorized-access"
    exchange.answer(new)
    del ring["one"]
    gateway.reload(rotated.text)
    assert exchange.refused(old) == "amqp:unauthorized-access"
    exchange.answer(exchange.ask())
    gateway.wait_log("message refused", reason="retired key")
    assert old.hex() not in gateway.process.text()


def test_a_link_through_a_connector_signs_with_the_new_key(start_gateway: Gateways) -> None:
    document = Document()
    document.relay(key={"file": "old.key"})
    capable = frames.target("queues/a", capabilities=["response-address-supported"])
    with Listener() as listener:
        document.connector(listener.port, scope="core", replies="auto", annotations="trust")
        document.scope("core")["connect"][0]["replies"] = {"address": "gateway"}
        rule = {"match": "far/{name}", "relay": "core", "address": "queues/{name}"}
        document.scope()["addresses"].append(rule)
        gateway = start_gateway_with_keys(start_gateway, document, ready=False)
        sender = connected(document.edge)
        sender.attach("sender", SENDER, target=frames.target("far/a"))
        far = listener.accept_started()
        far.attach(far.until("attach").name, RECEIVER, target=capable)
        far.flow(0, link_credit=5)
        sender.until("flow", handle=0)
        assert b"one" in request_cookie(sender, far)
        document.data["keys"] = {"active": "two", "ring": {"two": {"file": "new.key"}}}
        gateway.reload(document.text)
        assert b"two" in request_cookie(sender, far)


def request_cookie(sender: Peer, far: Peer) -> bytes:
    """Send a request; return the cookie it has beyond the gateway."""
    sender.transfer(message(b"?", reply_to="chat/replies"))
    annotations = sections(far.until("transfer").payload)["delivery_annotations"]
    cookie: bytes = annotations["response-address-cookie"]
    return cookie


def start_gateway_with_keys(
    start_gateway: Gateways, document: Document, *, ready: bool = True
) -> Gateway:
    """Key files have to be there before the gateway, beside its policy."""
    policy = written(document.text)
    policy.with_name("old.key").write_text("k" * 43)
    policy.with_name("new.key").write_text("n" * 43)
    return start_gateway(policy, ready=ready)


class Secured:
    """A gateway with one listener: PLAIN on TLS, a user file made by the real command."""

    def __init__(self, start_gateway: Gateways, authority: Authority, folder: Path) -> None:
        self.users, self.authority = folder / "users.yaml", authority
        self.add_user("alice", "wonderland")
        self.pair = authority.server(file="reloaded")
        self.document = Document()
        files = {"cert": str(self.pair.cert), "key": str(self.pair.key)}
        self.document.scope()["listen"][0] |= {"sasl": ["plain"], "users": str(self.users), "tls": files}
        self.port = self.document.edge
        self.gateway: Gateway = start_gateway(self.document.text)

    def add_user(self, name: str, password: str) -> None:
        """Run `scopegate users add`."""
        added = run("users", "add", str(self.users), name, "--password-stdin", text=f"{password}\n")
        assert added.returncode == 0, added.stderr

    def peer(self) -> Peer:
        """A TLS connection, nothing said yet."""
        trust = ssl.create_default_context(cafile=self.authority.ca)
        return Peer(self.port, tls=trust)

    def login(self, name: str, password: str, code: int = 0) -> Peer:
        """Authenticate; with success, open and begin too."""
        peer = self.peer().sasl("PLAIN", f"\0{name}\0{password}".encode(), code)
        if not code:
            peer.negotiate()
        return peer

    def serial(self) -> str:
        """The serial number of the certificate a new connection sees."""
        with self.peer() as peer:
            return str(peer.certificate["serialNumber"])


@pytest.fixture
def secured(start_gateway: Gateways, authority: Authority, tmp_path: Path) -> Secured:
    return Secured(start_gateway, authority, tmp_path)


def links_of_alice(secured: Secured) -> tuple[Peer, Peer]:
    receiver, sender = secured.login("alice", "wonderland"), secured.login("alice", "wonderland")
    receiver.attach_receiver("chat/room")
    receiver.flow(0, link_credit=10)
    sender.attach("sender", SENDER, target=frames.target("chat/room"))
    sender.until("flow", handle=0)
    return sender, receiver


def test_users_and_certificates_are_read_again(secured: Secured) -> None:
    stays = links_of_alice(secured)
    before = secured.serial()
    secured.add_user("carol", "looking-glass")
    secured.add_user("alice", "rabbit-hole")
    secured.authority.server(file="reloaded")
    secured.gateway.reload()
    secured.login("carol", "looking-glass").close().until("close")
    secured.login("alice", "rabbit-hole")
    secured.login("alice", "wonderland", code=1)
    assert secured.serial() != before
    passes(*stays)


def revoked(peer: Peer) -> None:
    """The connection is closed because its login is no longer accepted."""
    assert str(peer.until("close").error["condition"]) == "amqp:unauthorized-access"


def test_a_user_who_was_removed_is_disconnected_and_others_stay(secured: Secured) -> None:
    secured.add_user("carol", "looking-glass")
    secured.gateway.reload()
    carol, stays = secured.login("carol", "looking-glass"), links_of_alice(secured)
    lines = secured.users.read_text().splitlines(keepends=True)
    secured.users.write_text("".join(lines[: lines.index("carol:\n")]))
    assert secured.gateway.reload()["logins_revoked"] == 1
    revoked(carol)
    secured.gateway.wait_log("login revoked", user="carol")
    secured.login("carol", "looking-glass", code=1)
    passes(*stays)
    assert secured.gateway.metrics()["scopegate_logins_revoked_total"] == 1


def test_nothing_is_taken_from_a_connection_that_was_closed(secured: Secured) -> None:
    """A peer that does not heed our close goes on in vain (AMQP 2.4.6, DISCARDING)."""
    secured.add_user("carol", "looking-glass")
    secured.gateway.reload()
    carol, (_, receiver) = secured.login("carol", "looking-glass"), links_of_alice(secured)
    carol.attach("sender", SENDER, target=frames.target("chat/room"))
    carol.until("flow", handle=0)
    lines = secured.users.read_text().splitlines(keepends=True)
    secured.users.write_text("".join(lines[: lines.index("carol:\n")]))
    secured.gateway.reload()
    carol.transfer(message(b"over the open link"))
    revoked(carol)
    carol.transfer(message(b"after the close"))
    carol.attach("another", SENDER, 1, target=frames.target("chat/room"))
    carol.transfer(message(b"over another link"), handle=1)
    carol.expect_eof()
    alice = secured.login("alice", "wonderland")
    alice.attach("last", SENDER, target=frames.target("chat/room"))
    alice.until("flow", handle=0)
    alice.transfer(message(b"from alice"))
    assert sections(receiver.until("transfer").payload)["data"] == b"from alice"


def test_a_mechanism_that_was_removed_ends_the_logins_made_with_it(secured: Secured) -> None:
    alice = secured.login("alice", "wonderland")
    secured.document.scope()["listen"][0]["sasl"] = ["scram-sha-256"]
    secured.gateway.reload(secured.document.text)
    revoked(alice)


def test_a_certificate_that_is_no_longer_trusted_ends_its_connections(
    start_gateway: Gateways, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    trusted, pair = tmp_path / "trusted.pem", authority.server(file="revoking")
    trusted.write_text(authority.ca.read_text() + other.ca.read_text())
    document = Document()
    tls = {"cert": str(pair.cert), "key": str(pair.key), "client_ca": str(trusted)}
    document.scope()["listen"][0] |= {"sasl": ["external"], "tls": tls}
    gateway = start_gateway(document.text)

    def login(client: Pair) -> Peer:
        context = ssl.create_default_context(cafile=authority.ca)
        context.load_cert_chain(client.cert, client.key)
        peer = Peer(document.edge, tls=context).sasl("EXTERNAL", b"")
        peer.negotiate()
        return peer

    ours, theirs = authority.client("ours", file="ours"), other.client("theirs", file="theirs")
    stays, goes = login(ours), login(theirs)
    trusted.write_text(authority.ca.read_text())
    assert gateway.reload()["logins_revoked"] == 1
    revoked(goes)
    login(ours).close().until("close")
    with pytest.raises((ssl.SSLError, OSError, AssertionError)):
        login(theirs)
    gateway.wait_metric("scopegate_tls_failures_total", lambda count: count == 1)
    stays.close().until("close")


def test_a_reload_warns_of_a_certificate_that_has_expired(secured: Secured) -> None:
    before = len(secured.gateway.log())  # before the file: each reload that takes it is counted with its warning
    secured.authority.expired(file="reloaded")
    secured.gateway.reload()
    lines = secured.gateway.log()[before:]
    reloads = [line for line in lines if line["event"] == RELOADED]  # it may have noticed the file by itself, too
    warned = [line["warning"] for line in lines if line["event"] == "policy warning"]
    expired = f"{secured.pair.cert}: the certificate of 'CN=localhost' expired on"
    assert [warning.startswith(expired) for warning in warned].count(True) == len(reloads)


@pytest.mark.parametrize("wrong", ["users", "empty users", "cert", "key", "pair"])
def test_a_wrong_file_beside_the_policy_keeps_everything_as_it_was(secured: Secured, wrong: str) -> None:
    stays = links_of_alice(secured)
    before = secured.serial()
    spoil(secured, wrong)
    if "users" not in wrong:
        secured.add_user("carol", "looking-glass")
    changed = secured.document.but()
    changed.scope()["access"] = []
    problems = " ".join(secured.gateway.reload(changed.text, ok=False)["problems"])
    assert str(secured.users if "users" in wrong else secured.pair.cert.with_suffix("")) in problems
    passes(*stays)
    assert secured.serial() == before
    secured.login("carol", "looking-glass", code=1)
    assert secured.gateway.metrics()['scopegate_reloads_total{result="failed"}'] >= 1
    assert secured.gateway.metrics().get("scopegate_task_failures_total", 0) == 0


def spoil(secured: Secured, what: str) -> None:
    """Make one of the files beside the policy useless."""
    if what == "empty users":
        secured.users.write_text("")
    elif what == "users":
        secured.users.write_text(secured.users.read_text().replace("iterations: 4096", "iterations: one"))
    elif what == "pair":
        secured.pair.key.write_bytes(secured.authority.server(file="another").key.read_bytes())
    else:
        {"cert": secured.pair.cert, "key": secured.pair.key}[what].write_text("nonsense")
