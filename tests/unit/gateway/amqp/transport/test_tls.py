"""TLS contexts, by real handshakes in memory."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from gateway.amqp.transport.tls import ServerTls, TlsError, client_context, peer_subject, trust_anchor
from tests.support.servers.certs import Authority, lock_key


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def handshake(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost", session: ssl.SSLSession | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after a handshake; raises what either end raises."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    far = server.wrap_bio(up, down, server_side=True)
    near = client.wrap_bio(down, up, server_hostname=name, session=session)
    pending = [near, far]
    for _ in range(10):
        for end in list(pending):
            try:
                end.do_handshake()
                pending.remove(end)
            except ssl.SSLWantReadError:
                continue
        if not pending:
            return far, near
    raise AssertionError("the handshake does not end")


def test_server_and_client_verify(authority: Authority) -> None:
    server = ServerTls(*authority.server())
    far, near = handshake(server.context, client_context(ca=authority.ca))
    assert near.version() == "TLSv1.3"
    assert peer_subject(far) is None
    assert peer_subject(near) == "localhost"
    assert peer_subject(None) is None


def test_the_host_name_is_checked(authority: Authority) -> None:
    server = ServerTls(*authority.server())
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server.context, client_context(ca=authority.ca), "elsewhere.example")


def test_another_authority_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    server = ServerTls(*authority.server())
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server.context, client_context(ca=Authority(tmp_path, "other").ca))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server.context, client_context())
    handshake(server.context, client_context(verify=False), "elsewhere.example")


def test_tls_1_2_is_the_oldest_that_is_spoken(authority: Authority) -> None:
    server = ServerTls(*authority.server())
    client = client_context(ca=authority.ca)
    assert server.context.minimum_version == client.minimum_version == ssl.TLSVersion.TLSv1_2
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    _, near = handshake(server.context, client)
    assert near.version() == "TLSv1.2"


class VerifiedPeer(ssl.SSLObject):
    """One end that has verified a certificate with these fields."""

    def __new__(cls, *_: object) -> VerifiedPeer:
        return object.__new__(cls)

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def getpeercert(self, binary_form: bool = False) -> Any:
        return self._fields


def client_name(authority: Authority, name: str | None, *alternatives: x509.GeneralName) -> str | None:
    server = ServerTls(*authority.server(), client_ca=authority.ca)
    cert, key = authority.client(name, *alternatives)
    far, _ = handshake(server.context, client_context(ca=authority.ca, cert=cert, key=key))
    return peer_subject(far)


def test_the_client_certificate_names_the_user(authority: Authority) -> None:
    """docs/policy.md, ListenerTls."""
    dns, uri = x509.DNSName("device-9.example"), x509.UniformResourceIdentifier("spiffe://example/device-9")
    mail = x509.RFC822Name("device-9@example.org")
    assert client_name(authority, "device-7") == "device-7"
    assert client_name(authority, "device-7", dns) == "device-7"
    assert client_name(authority, None, dns) == "device-9.example"
    assert client_name(authority, None, dns, uri) == "spiffe://example/device-9"
    assert client_name(authority, None, dns, mail) == "device-9@example.org"
    assert client_name(authority, None, dns, mail, uri) == "spiffe://example/device-9"
    assert client_name(authority, "two\nlines") is None
    two = {"subject": ((("commonName", "one"),), (("commonName", "two"),)), "subjectAltName": (("DNS", "three"),)}
    assert peer_subject(VerifiedPeer(two)) is None


def test_client_certificates_optional_or_required(authority: Authority, tmp_path: Path) -> None:
    pair = authority.server()
    optional = ServerTls(*pair, client_ca=authority.ca)
    required = ServerTls(*pair, client_ca=authority.ca, require_client_cert=True)
    without = client_context(ca=authority.ca)
    far, _ = handshake(optional.context, without)
    assert peer_subject(far) is None
    with pytest.raises(ssl.SSLError):
        handshake(required.context, without)
    stranger = Authority(tmp_path, "stranger").client("device-7", file="stranger")
    with pytest.raises(ssl.SSLError):
        handshake(optional.context, client_context(ca=authority.ca, cert=stranger.cert, key=stranger.key))
    with pytest.raises(TlsError, match="client_ca"):
        ServerTls(*pair, require_client_cert=True)


def test_the_authority_that_vouches_for_a_client_is_known(authority: Authority, tmp_path: Path) -> None:
    pair, other = authority.server(), Authority(tmp_path, "other")
    server = ServerTls(*pair, client_ca=authority.ca)
    cert, key = authority.client("device-7")
    far, _ = handshake(server.context, client_context(ca=authority.ca, cert=cert, key=key))
    anchor = trust_anchor(far)
    assert anchor == ssl.PEM_cert_to_DER_cert(authority.ca.read_text())
    assert server.trusts(anchor)
    assert not ServerTls(*pair, client_ca=other.ca).trusts(anchor)
    assert not ServerTls(*pair).trusts(anchor)
    without, _ = handshake(server.context, client_context(ca=authority.ca))
    assert trust_anchor(without) == b""
    assert not server.trusts(b"")


def test_a_certificate_without_its_key_is_refused(authority: Authority) -> None:
    pair = authority.server()
    other = authority.server("other.example", file="other")
    pair.cert.write_bytes(other.cert.read_bytes())
    with pytest.raises(TlsError, match="the key does not belong to the certificate"):
        ServerTls(*pair)


def test_unusable_files_are_named(authority: Authority, tmp_path: Path) -> None:
    pair = authority.server()
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing\n")
    with pytest.raises(TlsError, match=r"missing\.pem: No such file"):
        ServerTls(tmp_path / "missing.pem", pair.key)
    with pytest.raises(TlsError, match=r"empty\.pem"):
        ServerTls(empty, pair.key)
    with pytest.raises(TlsError, match=r"empty\.pem: holds no certificate"):
        client_context(ca=empty)
    with pytest.raises(TlsError, match="Is a directory"):
        client_context(ca=tmp_path)


def test_an_encrypted_key_needs_its_password_and_nobody_is_asked(authority: Authority) -> None:
    cert, key = authority.server()
    lock_key(key, b"passphrase")
    with pytest.raises(TlsError, match="the key is encrypted; a policy names its password with key_password"):
        ServerTls(cert, key)
    with pytest.raises(TlsError, match="key_password does not decrypt the key"):
        client_context(cert=cert, key=key, password=b"passphrase?")
    far, near = handshake(ServerTls(cert, key, password=b"passphrase").context, client_context(ca=authority.ca))
    far.write(b"hello")
    assert near.read(5) == b"hello"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_authority_is_known_of_a_resumed_session(authority: Authority, version: ssl.TLSVersion) -> None:
    server = ServerTls(*authority.server(), client_ca=authority.ca)
    cert, key = authority.client("device-7")
    client = client_context(ca=authority.ca, cert=cert, key=key)
    client.minimum_version = client.maximum_version = version
    far, near = handshake(server.context, client)
    anchor = server.anchor(far)
    assert anchor == ssl.PEM_cert_to_DER_cert(authority.ca.read_text())
    far.write(b"a ticket comes before this")
    near.read(100)
    again, _ = handshake(server.context, client, session=near.session)
    assert again.session_reused
    assert trust_anchor(again) == b""
    assert server.anchor(again) == anchor
    without, _ = handshake(server.context, client_context(ca=authority.ca))
    assert server.anchor(without) == b""
