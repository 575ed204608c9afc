"""A reload checks each open connection as a new one at its listener (row X-8)."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.amqp.sasl.user_file import make_entry, put_user
from tests.support.amqp import frames
from tests.support.amqp.links import connected, passes, receiving, sending
from tests.support.amqp.login import authenticate
from tests.support.amqp.peer import SENDER, Listener, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, ports, wait_until
from tests.support.servers.certs import Authority, Pair

pytestmark = pytest.mark.row("X-8")

Change = Callable[[dict[str, Any]], object]


def users_file(path: Path, **passwords: str) -> str:
    """A users file, written in one step; returns its path as the policy names it."""
    text = ""
    for name, password in passwords.items():
        text = put_user(text, name, make_entry(password, salt=b"sixteen bytes of"), secret=b"a secret of sixteen bytes")
    beside = path.with_name("next-users.yaml")
    beside.write_text(text)
    beside.replace(path)
    return str(path)


def scram(port: int, user: str, password: str) -> Peer:
    """A connection that is open, logged in by SCRAM without TLS."""
    peer = Peer(port)
    assert authenticate(peer, "SCRAM-SHA-256", user, password).done
    peer.negotiate()
    return peer


def revoked(peer: Peer) -> None:
    """The gateway closes the connection because it would not be accepted any more."""
    peer.until("close", error="amqp:unauthorized-access")


def stays(peer: Peer) -> None:
    """Nothing has happened to the connection: the next that comes is the answer to our close."""
    assert peer.close().expect("close").error is None


class House:
    """A gateway whose only listener takes `bob` of `one.yaml` by SCRAM; in `two.yaml` somebody else is called so."""

    def __init__(self, start_gateway: Gateways, folder: Path) -> None:
        self.folder = folder
        self.one = users_file(folder / "one.yaml", bob="bob's password", carol="carol's password")
        self.two = users_file(folder / "two.yaml", bob="another bob's")
        self.document = Document()
        self.document.add_scope("other", {"match": "x", "direct": "balanced"})
        self.listener |= {"sasl": ["scram-sha-256"], "users": self.one}
        self.gateway: Gateway = start_gateway(self.document.text)

    @property
    def listener(self) -> dict[str, Any]:
        listener: dict[str, Any] = self.document.scope()["listen"][0]
        return listener

    @listener.setter
    def listener(self, listener: dict[str, Any]) -> None:
        self.document.scope()["listen"][0] = listener

    def bob(self) -> Peer:
        return scram(self.document.edge, "bob", "bob's password")

    def reload(self) -> int:
        """Reload; returns how many logins it took away."""
        return int(self.gateway.reload(self.document.text)["logins_revoked"])


@pytest.fixture
def house(start_gateway: Gateways, tmp_path: Path) -> House:
    return House(start_gateway, tmp_path)


def test_a_user_goes_with_the_last_listener_of_the_scope(house: House) -> None:
    bob = house.bob()
    house.document.scope()["listen"] = []
    assert house.reload() == 1
    revoked(bob)


def test_a_changed_password_takes_no_login_away(house: House) -> None:
    """As with most servers; `scopegate close` ends what the old one has opened."""
    bob = house.bob()
    users_file(Path(house.one), bob="bob's new password", carol="carol's password")
    assert house.reload() == 0
    stays(bob)
    scram(house.document.edge, "bob", "bob's new password").close()
    with pytest.raises(AssertionError):
        house.bob()


def test_a_user_who_was_removed_goes_although_the_new_port_is_taken(house: House) -> None:
    bob, carol = house.bob(), scram(house.document.edge, "carol", "carol's password")
    users_file(house.folder / "one.yaml", carol="carol's password")
    with Listener() as taken:
        house.listener |= {"bind": f"127.0.0.1:{taken.port}"}
        assert house.reload() == 1
        house.gateway.wait_log("cannot listen")
        revoked(bob)
        assert house.reload() == 0
        stays(carol)


def test_a_namesake_in_another_users_file_is_somebody_else(house: House) -> None:
    bob = house.bob()
    house.document.add_listener(sasl=["scram-sha-256"], users=house.two)
    house.document.scope()["listen"].pop(0)
    assert house.reload() == 1
    revoked(bob)


def test_a_user_stays_where_another_listener_of_the_scope_has_the_same_users(house: House) -> None:
    bob = house.bob()
    house.document.add_listener(sasl=["scram-sha-256"], users=house.one)
    house.document.scope()["listen"].pop(0)
    assert house.reload() == 0
    stays(bob)


def test_nobody_is_judged_by_another_listener_while_the_own_is_there(house: House) -> None:
    house.document.add_listener(sasl=["scram-sha-256"], users=house.one)
    house.reload()
    bob = house.bob()
    house.listener |= {"users": users_file(house.folder / "three.yaml", carol="carol's password")}
    assert house.reload() == 1
    revoked(bob)


def test_a_login_under_way_ends_at_open_where_a_reload_took_it_away(house: House) -> None:
    house.listener |= {"sasl": ["plain"], "allow_plain_without_tls": True}
    house.reload()
    slow = Peer(house.document.edge)
    slow.send_raw(frames.SASL_HEADER).expect_header(frames.SASL_HEADER)
    slow.expect("sasl_mechanisms")  # the exchange has its users
    users_file(house.folder / "one.yaml", carol="carol's password")
    assert house.reload() == 0
    slow.send("sasl_init", mechanism="PLAIN", initial_response=b"\0bob\0bob's password").expect("sasl_outcome", code=0)
    slow.send_raw(frames.AMQP_HEADER).expect_header()
    slow.open()
    revoked(slow)
    house.gateway.wait_log("login revoked", user="bob")


def test_a_user_without_verifiers_of_the_mechanism_goes(house: House) -> None:
    bob = house.bob()
    entry = make_entry("bob's password", salt=b"sixteen bytes of")
    del entry["scram-sha-256"]
    (house.folder / "one.yaml").write_text(put_user("", "bob", entry, secret=b"a secret of sixteen bytes"))
    assert house.reload() == 1
    revoked(bob)


# -- listeners that ask for more


class Secured:
    """A gateway with a listener on TLS that takes client certificates; who has none is anonymous or logs in."""

    def __init__(self, start_gateway: Gateways, authority: Authority, folder: Path) -> None:
        self.authority, self.other = authority, Authority(folder, "other")
        self.trusted = folder / "trusted.pem"
        self.trusted.write_text(authority.ca.read_text() + self.other.ca.read_text())
        pair = authority.server(file="stricter")
        self.tls = {"cert": str(pair.cert), "key": str(pair.key), "client_ca": str(self.trusted)}
        users = users_file(folder / "users.yaml", bob="bob's password")
        self.document = Document()
        self.document.scope()["listen"][0] |= {
            "sasl": ["external", "plain", "anonymous"], "users": users, "tls": self.tls
        }  # fmt: skip
        self.gateway: Gateway = start_gateway(self.document.text)

    def peer(self, certificate: Pair | None = None) -> Peer:
        context = ssl.create_default_context(cafile=self.authority.ca)
        if certificate is not None:
            context.load_cert_chain(certificate.cert, certificate.key)
        return Peer(self.document.edge, tls=context)

    def login(self, mechanism: str, said: bytes = b"", certificate: Pair | None = None) -> Peer:
        peer = self.peer(certificate).sasl(mechanism, said)
        peer.negotiate()
        return peer

    def reload(self, change: Change) -> int:
        change(self.document.scope()["listen"][0])
        return int(self.gateway.reload(self.document.text)["logins_revoked"])


@pytest.fixture
def secured(start_gateway: Gateways, authority: Authority, tmp_path: Path) -> Secured:
    return Secured(start_gateway, authority, tmp_path)


PLAIN = b"\0bob\0bob's password"


def test_who_has_no_certificate_goes_when_one_is_required(secured: Secured) -> None:
    own = secured.authority.client("bob", file="bob")
    anonymous, bob = secured.login("ANONYMOUS"), secured.login("PLAIN", PLAIN)
    shown, named = secured.login("PLAIN", PLAIN, own), secured.login("EXTERNAL", b"", own)
    assert secured.reload(lambda listener: listener["tls"].update(require_client_cert=True)) == 2
    revoked(anonymous)
    revoked(bob)
    stays(shown)
    stays(named)


def test_a_certificate_that_is_not_trusted_any_more_goes_with_any_login(secured: Secured) -> None:
    bob = secured.login("PLAIN", PLAIN, secured.other.client("bob", file="theirs"))
    without = secured.login("PLAIN", PLAIN)
    secured.trusted.write_text(secured.authority.ca.read_text())
    assert secured.reload(lambda listener: None) == 1
    revoked(bob)
    stays(without)


def test_a_certificate_that_is_not_asked_for_any_more_is_no_login(secured: Secured) -> None:
    own = secured.authority.client("bob", file="bob")
    named, shown = secured.login("EXTERNAL", b"", own), secured.login("PLAIN", PLAIN, own)
    change = {"sasl": ["plain"], "tls": {name: secured.tls[name] for name in ("cert", "key")}}
    assert secured.reload(lambda listener: listener.update(change)) == 1
    revoked(named)
    stays(shown)


def test_a_certificate_that_is_trusted_itself_is_a_login(secured: Secured) -> None:
    own = secured.authority.pinned("bob")
    secured.trusted.write_text(secured.authority.ca.read_text() + own.cert.read_text())
    secured.reload(lambda listener: None)
    bob = secured.login("EXTERNAL", b"", own)
    assert secured.reload(lambda listener: listener.update(limits={"links": 7})) == 0
    secured.trusted.write_text(secured.authority.ca.read_text())
    assert secured.reload(lambda listener: None) == 1
    revoked(bob)


def test_a_resumed_tls_session_is_a_login_like_the_first(secured: Secured) -> None:
    secured.reload(lambda listener: listener["tls"].update(require_client_cert=True))
    own = secured.authority.client("bob", file="bob")
    context = ssl.create_default_context(cafile=secured.authority.ca)
    context.load_cert_chain(own.cert, own.key)

    def login(session: ssl.SSLSession | None) -> tuple[ssl.SSLSocket, Peer]:
        plain = socket.create_connection(("127.0.0.1", secured.document.edge), timeout=PATIENCE)
        wrapped = context.wrap_socket(plain, server_hostname="localhost", session=session)
        peer = Peer(connection=wrapped).sasl("EXTERNAL", b"")
        peer.negotiate()
        return wrapped, peer

    first, peer = login(None)
    second, again = login(first.session)
    assert second.session_reused
    assert secured.reload(lambda listener: listener.update(limits={"links": 7})) == 0
    stays(peer)
    stays(again)


def test_a_listener_that_gets_tls_keeps_no_connection_without(
    start_gateway: Gateways, authority: Authority
) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    peer, pair = connected(document.edge), authority.server(file="added")
    document.scope()["listen"][0]["tls"] = {"cert": str(pair.cert), "key": str(pair.key)}
    assert gateway.reload(document.text)["logins_revoked"] == 1
    revoked(peer)


def test_a_connection_without_tls_does_not_stay_for_a_listener_with_tls(
    start_gateway: Gateways, authority: Authority
) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    peer, pair = connected(document.edge), authority.server(file="added")
    document.add_listener(tls={"cert": str(pair.cert), "key": str(pair.key)})
    document.scope()["listen"].pop(0)
    assert gateway.reload(document.text)["logins_revoked"] == 1
    revoked(peer)


def test_a_password_sent_without_tls_is_no_login_once_that_is_not_allowed(house: House) -> None:
    house.listener |= {"sasl": ["plain", "scram-sha-256"], "allow_plain_without_tls": True}
    house.reload()
    bob = house.bob()
    plain = Peer(house.document.edge).sasl_plain("bob", "bob's password")
    plain.negotiate()
    house.listener |= {"allow_plain_without_tls": False}
    assert house.reload() == 1
    revoked(plain)
    stays(bob)


# -- limits


@pytest.mark.parametrize("limit", ["connections", "users"])
def test_connections_are_counted_on_over_reloads_that_change_their_listener(
    start_gateway: Gateways, limit: str
) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    limits: dict[str, Any] = {limit: 2}
    document.scope()["listen"][0]["limits"] = limits
    first = connected(document.edge)
    for links in (7, 8, 9):
        limits["links"] = links
        gateway.reload(document.text)
        if links == 7:
            second = connected(document.edge)
    assert one_too_many(document.edge)
    second.close().until("close")
    second.disconnect()
    reason = "too-many-connections" if limit == "connections" else "too-many-connections-of-user"
    gateway.wait_log("bad input", reason=reason)
    wait_until(lambda: not one_too_many(document.edge), "room for another connection")
    stays(first)  # a lower limit closes nothing


def test_a_listener_that_moves_to_another_address_counts_from_nothing_there(start_gateway: Gateways) -> None:
    """docs/policy.md, Limits."""
    document = Document()
    document.scope()["listen"][0]["limits"] = {"connections": 1, "users": 1}
    gateway = start_gateway(document.text)
    first, (elsewhere,) = connected(document.edge), ports(1)
    assert one_too_many(document.edge)
    document.scope()["listen"][0]["bind"] = f"127.0.0.1:{elsewhere}"
    gateway.reload(document.text)
    second = connected(elsewhere)
    assert one_too_many(elsewhere)
    stays(first)
    stays(second)


def one_too_many(port: int) -> bool:
    """Whether a connection is refused."""
    with Peer(port) as peer:
        try:
            peer.sasl_anonymous().send_raw(frames.AMQP_HEADER).expect_header()
            peer.open().expect("open")
            peer.begin()
            return peer.until("begin") is None
        except (AssertionError, OSError):
            return True


def test_limits_of_a_user_reach_open_connections_and_those_of_a_connection_do_not(start_gateway: Gateways) -> None:
    """docs/policy.md, Limits."""
    document = Document()
    gateway = start_gateway(document.text)
    receiver, sender = receiving(document.edge, "chat/room"), sending(document.edge, "chat/room")
    document.scope()["listen"][0]["limits"] = {"links": 1, "max_message_size": "10B", "user_links": 3}
    gateway.reload(document.text)
    sender.attach_sender("chat/room", handle=1)  # the second of its connection, the third of its user
    passes(sender, receiver, 0)  # more than ten bytes
    sender.attach("third", SENDER, 2, target=frames.target("chat/room"))
    sender.until("detach", handle=2, error="amqp:resource-limit-exceeded")
    assert connected(document.edge).close().until("close")
