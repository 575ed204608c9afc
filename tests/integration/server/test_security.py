"""Who gets in and what they may do: SASL and TLS on real sockets, access rules, what is counted and logged."""

from __future__ import annotations

import base64
import socket
import ssl
from pathlib import Path

import pytest

from gateway.amqp.codec.codec import Array
from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.frames import SASL_HEADER
from tests.support.amqp.login import authenticate
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.cli.commands import run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.servers.certs import Authority, Pair

PASSWORDS = {"alice": "wonder-land-1865", "bob": "b0b-has-another"}
WRONG = "not-the-pass-word"
SCRAM = pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])


class Secured:
    """One gateway with a listener for each way in; its users were made by the real command."""

    def __init__(self, start: Gateways, authority: Authority, folder: Path) -> None:
        users = folder / "users.yaml"
        for name, password in PASSWORDS.items():
            added = run("users", "add", str(users), name, "--password-stdin", text=f"{password}\n")
            assert added.returncode == 0, added.stderr
        server = authority.server(file="security")
        tls = {"cert": str(server.cert), "key": str(server.key)}
        trusting = {**tls, "client_ca": str(authority.ca)}
        document = Document(id="gw-security")
        every = {"sasl": ["plain", "scram-sha-256", "scram-sha-512"], "users": str(users)}
        document.scope()["listen"][0] |= {**every, "tls": tls}
        self.tls, self.authority = document.edge, authority
        self.bare = document.add_listener(**{**every, "sasl": ["scram-sha-256", "scram-sha-512"]})
        self.insecure = document.add_listener(**{**every, "sasl": ["plain"], "allow_plain_without_tls": True})
        self.external = document.add_listener(sasl=["external"], tls=trusting)
        self.strict = document.add_listener(sasl=["external"], tls={**trusting, "require_client_cert": True})
        document.scope()["addresses"] = [{"match": "rooms/**", "direct": "balanced"}]
        document.scope()["access"] = [
            {"who": "alice", "may": ["send", "receive"], "on": "rooms/alice/**"},
            {"who": ["alice", "bob"], "may": "receive", "on": "rooms/shared"},
            {"who": "device-7", "may": "send", "on": "rooms/shared"},
        ]
        self.gateway = start(document.text)

    def peer(self, port: int, client: Pair | None = None) -> Peer:
        """A TLS connection, with a client certificate if one is given."""
        context = ssl.create_default_context(cafile=self.authority.ca)
        if client is not None:
            context.load_cert_chain(client.cert, client.key)
        return Peer(port, tls=context)


@pytest.fixture(scope="module")
def secured(
    start_module_gateway: Gateways, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Secured:
    return Secured(start_module_gateway, authority, tmp_path_factory.mktemp("security"))


@pytest.fixture(autouse=True)
def says_no_secret(secured: Secured) -> object:
    """Whatever a test does, no password is in the log, in clear or in base64, and no task failed."""
    yield
    log = secured.gateway.process.text()
    for secret in (*PASSWORDS.values(), WRONG):
        assert secret not in log
        assert base64.b64encode(secret.encode()).decode().rstrip("=") not in log
    assert secured.gateway.metrics().get("scopegate_task_failures_total", 0) == 0


class Failures:
    """What is counted and logged from here on."""

    def __init__(self, secured: Secured) -> None:
        self._gateway = secured.gateway
        self._before, self._lines = secured.gateway.metrics(), len(secured.gateway.log())

    def counted(self, name: str, count: int = 1) -> None:
        """Exactly so many more."""
        wanted = self._before.get(name, 0.0) + count
        self._gateway.wait_metric(name, lambda value: value >= wanted)
        assert self._gateway.metrics()[name] == wanted

    def logged(self, event: str, **fields: object) -> None:
        """One line."""
        line = self._gateway.wait_log(event, after=self._lines, **fields)
        assert line["peer"].startswith("127.0.0.1:")
        assert line.get("connection") or line["bind"]


@pytest.fixture
def failures(secured: Secured) -> Failures:
    # what a test before has done is counted when its connections have ended
    secured.gateway.wait_metric("scopegate_connections", lambda count: count == 0)
    return Failures(secured)


def may(peer: Peer, role: bool, address: str, handle: int) -> str:
    """Attach; return "yes" or the condition of the refusal."""
    terminus = {"source": frames.source(address)} if role else {"target": frames.target(address)}
    name = f"link-{handle}"
    attach = peer.attach(name, role, handle, **terminus).until("attach", name=name)
    if (attach.source if role else attach.target) is not None:
        return "yes"
    condition = str(peer.until("detach", handle=attach.handle).error["condition"])
    peer.detach(handle)
    return condition


# -- ways in


def test_plain_on_tls(secured: Secured) -> None:
    with secured.peer(secured.tls).sasl_plain("alice", PASSWORDS["alice"]) as peer:
        peer.negotiate()
        assert may(peer, SENDER, "rooms/alice/1", 0) == "yes"
    secured.gateway.wait_log("connection open", user="alice")


@SCRAM
@pytest.mark.parametrize("tls", [True, False], ids=["tls", "tcp"])
def test_scram(secured: Secured, mechanism: str, tls: bool) -> None:
    with secured.peer(secured.tls) if tls else Peer(secured.bare) as peer:
        client = authenticate(peer, mechanism, "bob", PASSWORDS["bob"])
        assert (client.done, client.mechanism) == (True, mechanism)
        peer.negotiate()
        assert may(peer, RECEIVER, "rooms/shared", 0) == "yes"


def test_scram_by_an_unmodified_client(secured: Secured) -> None:
    address = "rooms/alice/jms"
    jms = Foreign("jms", secured.bare, "alice", PASSWORDS["alice"])
    receiver = jms.run("receive", address, count=1).attached()
    (outcome,) = jms.run("send", address, count=1, body="by SCRAM").finish()
    assert outcome["outcome"] == "accepted"
    assert [line["body"] for line in receiver.finish()] == ["by SCRAM"]


def test_plain_is_not_even_offered_without_tls(secured: Secured, failures: Failures) -> None:
    with Peer(secured.bare) as peer:
        peer.send_raw(SASL_HEADER).expect_header(SASL_HEADER)
        offered = peer.expect("sasl_mechanisms").sasl_server_mechanisms
        assert offered == Array("symbol", ("SCRAM-SHA-256", "SCRAM-SHA-512"))
        peer.send("sasl_init", mechanism="PLAIN", initial_response=b"\0alice\0" + PASSWORDS["alice"].encode())
        peer.expect("sasl_outcome", code=1)
        peer.expect_eof()
    failures.counted('scopegate_sasl_failures_total{reason="mechanism"}')


def test_plain_without_tls_where_the_policy_allows_it(secured: Secured) -> None:
    with Peer(secured.insecure).sasl_plain("bob", PASSWORDS["bob"]) as peer:
        peer.negotiate()


def test_external_takes_the_name_of_the_certificate(secured: Secured) -> None:
    pair = secured.authority.client("device-7", file="device-7")
    for port in (secured.external, secured.strict):
        with secured.peer(port, pair).sasl("EXTERNAL", b"") as peer:
            peer.negotiate()
            assert may(peer, SENDER, "rooms/shared", 0) == "yes"
            assert may(peer, RECEIVER, "rooms/shared", 1) == "amqp:unauthorized-access"
    secured.gateway.wait_log("connection open", user="device-7")


def test_a_listener_with_one_way_in_has_no_other(secured: Secured) -> None:
    with Peer(secured.bare) as peer:  # AMQP without SASL is ANONYMOUS
        peer.send_raw(frames.AMQP_HEADER).expect_header(SASL_HEADER)
        peer.expect_eof()
    with secured.peer(secured.tls).sasl("ANONYMOUS", b"", code=1) as peer:
        peer.expect_eof()
    with secured.peer(secured.external) as peer:  # no certificate: nothing can be offered
        peer.send_raw(SASL_HEADER).expect_header(SASL_HEADER)
        assert peer.expect("sasl_outcome").code != 0
        peer.expect_eof()


# -- who does not get in


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_and_an_unknown_user_look_alike(secured: Secured, failures: Failures, user: str) -> None:
    with secured.peer(secured.tls).sasl("PLAIN", f"\0{user}\0{WRONG}".encode(), code=1) as peer:
        peer.expect_eof()
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        with Peer(secured.bare) as peer:
            assert authenticate(peer, mechanism, user, WRONG).failed
            peer.expect_eof()
    failures.counted('scopegate_sasl_failures_total{reason="credentials"}', 3)
    failures.logged("authentication failed", claimed=user, reason="credentials")


def test_a_name_is_not_borrowed(secured: Secured, failures: Failures) -> None:
    with secured.peer(secured.tls) as peer:
        peer.sasl("PLAIN", f"bob\0alice\0{PASSWORDS['alice']}".encode(), code=1).expect_eof()
    failures.counted('scopegate_sasl_failures_total{reason="authorization-identity"}')


def test_failed_tls_handshakes_are_counted(secured: Secured, failures: Failures) -> None:
    with Peer(secured.tls) as peer:
        peer.send_raw(b"this is no TLS record" * 3)
        peer.read(100)
    failures.counted("scopegate_tls_failures_total", 1)
    with pytest.raises(ssl.SSLError):  # this client does not trust the gateway
        ssl.create_default_context().wrap_socket(
            socket.create_connection(("127.0.0.1", secured.tls)), server_hostname="localhost"
        )
    failures.counted("scopegate_tls_failures_total", 2)
    with pytest.raises((ssl.SSLError, OSError, AssertionError)):  # TLS 1.3: refused after the handshake
        secured.peer(secured.strict).sasl("EXTERNAL", b"")
    failures.counted("scopegate_tls_failures_total", 3)
    stranger = Authority(secured.authority.ca.parent, "stranger").client("device-7", file="stranger")
    with pytest.raises((ssl.SSLError, OSError, AssertionError)):
        secured.peer(secured.strict, stranger).sasl("EXTERNAL", b"")
    failures.counted("scopegate_tls_failures_total", 4)
    failures.logged("TLS handshake failed", error="CERTIFICATE_VERIFY_FAILED")


# -- what they may do


def test_access_is_by_user(secured: Secured) -> None:
    asked = [
        (SENDER, "rooms/alice/1"),
        (RECEIVER, "rooms/alice/1"),
        (SENDER, "rooms/shared"),
        (RECEIVER, "rooms/shared"),
        (SENDER, "rooms/other"),
        (SENDER, "nowhere"),
    ]
    denied, unknown = "amqp:unauthorized-access", "amqp:not-found"
    expected = {
        "alice": ["yes", "yes", denied, "yes", denied, unknown],
        "bob": [denied, denied, denied, "yes", denied, unknown],
    }
    for user, answers in expected.items():
        with secured.peer(secured.tls).sasl_plain(user, PASSWORDS[user]) as peer:
            peer.negotiate()
            got = [may(peer, role, address, handle) for handle, (role, address) in enumerate(asked)]
            assert got == answers, user


def test_access_is_by_user_on_the_anonymous_terminus_too(secured: Secured) -> None:
    with secured.peer(secured.tls).sasl_plain("bob", PASSWORDS["bob"]) as peer:
        peer.negotiate()
        peer.attach_sender(None)
        peer.until("flow", handle=0)
        for number, (to, condition) in enumerate(
            [("rooms/alice/1", "amqp:unauthorized-access"), ("nowhere", "amqp:not-found")]
        ):
            peer.transfer(message(to=to))
            state = peer.until("disposition", first=number).state
            assert state["error"]["condition"] == condition


def test_refusals_are_logged_with_the_user(secured: Secured) -> None:
    before = len(secured.gateway.log())
    with secured.peer(secured.tls).sasl_plain("bob", PASSWORDS["bob"]) as peer:
        peer.negotiate()
        may(peer, SENDER, "rooms/alice/1", 0)
    line = secured.gateway.wait_log("link refused", after=before, user="bob", address="rooms/alice/1")
    assert line["condition"] == "amqp:unauthorized-access"
    secured.gateway.wait_log("connection closed", after=before, connection=line["connection"])
