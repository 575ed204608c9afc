"""`gateway.admin`: where it may listen, who has to be named, and tokens that cannot be guessed."""

from __future__ import annotations

import pytest

from policies.model.admin import UnixSocket
from policies.values.units import Bind
from tests.support.gateway.policy import load_text, mistakes

TOKEN = "k3f9-27ab-c0de-11zz"
FILES = {"c.pem": b"x", "k.pem": b"x", "ca.pem": b"x"}


def policy(admin: str) -> str:
    return f"gateway: {{admin: {{{admin}}}}}\nscopes: {{edge: {{listen: [{{bind: '127.0.0.1:5672'}}], access: []}}}}"


def test_a_policy_that_says_nothing_has_a_socket() -> None:
    admin = load_text("scopes: {edge: }").model.gateway.admin
    assert (admin.listen, admin.ports, admin.sockets) == ((UnixSocket(),), (), (UnixSocket(),))


def test_a_socket_and_a_port_with_tokens_and_certificates() -> None:
    text = policy(
        'listen: [unix, "0.0.0.0:8673"], hosts: Gate.Example, tls: {cert: c.pem, key: k.pem, client_ca: ca.pem}, '
        "tokens: {ops: {env: OPS, role: operate}, dash: {env: DASH}}, certificates: {alice: operate}"
    )
    loaded = load_text(text, environ={"OPS": TOKEN, "DASH": f"{TOKEN}2"}, files=FILES)
    admin = loaded.model.gateway.admin
    assert admin.ports == (Bind("0.0.0.0", 8673),)
    assert admin.hosts == ("gate.example",)
    assert [token.role for token in admin.tokens.values()] == ["operate", "view"]
    assert [loaded.secret(token) for token in admin.tokens.values()] == [TOKEN.encode(), f"{TOKEN}2".encode()]
    assert {"c.pem", "k.pem", "ca.pem"} <= loaded.files.keys(), "they are watched"
    assert TOKEN not in repr(loaded)


@pytest.mark.parametrize(
    ("admin", "said"),
    [
        ('listen: "127.0.0.1:8673"', "listen: nobody could use this port: add tokens (`scopegate keys new` makes one)"),
        ('listen: "0.0.0.0:8673", tokens: {a: {env: A}}', "listen: 0.0.0.0:8673 is not a loopback address: add tls"),
        ('listen: "127.0.0.1:1", certificates: {al: view}', "certificates: needs tls with client_ca"),
        (
            'listen: "127.0.0.1:1", tokens: {a: {env: A}}, tls: {cert: c.pem, key: k.pem, require_client_cert: true}',
            "tls.require_client_cert: needs client_ca",
        ),
        ('listen: "127.0.0.1:5672", tokens: {a: {env: A}}', "already in use by gateway.admin.listen"),
        ('listen: "127.0.0.1:8672", tokens: {a: {env: A}}', "gateway.http: 127.0.0.1:8672 is already in use by"),
        ("listen: [unix, unix]", "listen: contains the same place twice"),
        ("listen: []", 'listen: needs at least one place; "off" for none'),
        ("listen: 5", 'listen: needs "unix", "unix:/path/of/the.sock", "host:port" or "off"'),
        ("hosts: '*.example'", "hosts: needs the name of a host without a port"),
        ("tokens: {a: plain-text-token}", "tokens.a: a secret is never written into the policy"),
        ("tokens: {a: {env: A, role: admin}}", "tokens.a.role:"),
        ('listen: "127.0.0.1:1", tokens: {a: {env: SHORT}}', "tokens.a: not 16 or more random characters of ASCII"),
        ('listen: "127.0.0.1:1", tokens: {a: {env: SAME}}', "tokens.a: not 16 or more random characters of ASCII"),
        ('listen: "127.0.0.1:1", tokens: {a: {env: NONE}}', "tokens.a: environment variable NONE is not set"),
        ('listen: "127.0.0.1:1", tokens: {a: {env: A}}, tls: {cert: gone.pem, key: k.pem}', "tls.cert: file gone.pem"),
    ],
)  # fmt: skip
def test_a_mistake_is_found_at_its_place(admin: str, said: str) -> None:
    text = policy(admin).replace("gateway: {", 'gateway: {http: "127.0.0.1:8672", ')
    found = mistakes(text, environ={"A": TOKEN, "SHORT": "a1b2c3d4", "SAME": "a" * 40}, files=FILES)
    assert any(said in each for each in found), found
    assert all("gateway." in each for each in found), found


def test_keys_that_need_a_port_are_noticed_without_one() -> None:
    loaded = load_text(policy("tokens: {a: {env: A}}"), environ={"A": TOKEN})
    assert any("listen has no host:port" in each.message for each in loaded.warnings)
