"""TLS contexts (stdlib `ssl`): one per listener or connector, made once, certificates replaced in place.

`ssl` alone decides about trust; this module configures its files, and gets a user name from a client certificate.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

from gateway.plural import counted

PeerCertificate: TypeAlias = Mapping[str, Any]
"""The result of `getpeercert`: names are nested tuples of text."""
_ENCODING_DER: Final = 2  # OpenSSL's constant, which `_ssl` does not export
_NAME_TYPES: Final = ("URI", "email", "DNS")
_CERTIFICATE: Final = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_SOON: Final = timedelta(days=30)
_LOCKED: Final = b"ENCRYPTED"
"""In the head of a private key that needs a password, in both forms of PEM (RFC 7468, 11; RFC 1421)."""
_KEPT: Final = 65_536
"""Maximum number of client certificates whose authority is remembered."""


class TlsError(Exception):
    """Certificate files cannot be used; the text has the file and the problem."""


class ServerTls:
    """A listener's TLS: at least 1.2, and client certificates when `client_ca` is given.

    A reload creates a new one, because OpenSSL cannot remove an authority from a context.
    """

    def __init__(
        self,
        cert: Path,
        key: Path,
        *,
        password: bytes | None = None,
        client_ca: Path | None = None,
        require_client_cert: bool = False,
    ) -> None:
        self.context: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load_chain(self.context, cert, key, password)
        if client_ca is not None:
            _load_authorities(self.context, client_ca)
            self.context.verify_mode = ssl.CERT_REQUIRED if require_client_cert else ssl.CERT_OPTIONAL
        elif require_client_cert:
            raise TlsError("client certificates are required, but no client_ca says which are trusted")

        self._vouched: dict[bytes, bytes] = {}
        # A client's own certificate may be in the file, too; OpenSSL names only the authorities among them.
        listed = () if client_ca is None else _certificates(client_ca)
        self._anchors: Final = {each: each for each in (*self.context.get_ca_certs(binary_form=True), *listed)}

    def anchor(self, ssl_object: ssl.SSLObject) -> bytes:
        """The authority (DER) of a client's certificate; empty: there is no certificate.

        A resumed session has no chain (RFC 8446, 2.2), so the authority of the earlier handshake is used. Sessions are
        resumed only with the context that began them.
        """
        leaf = ssl_object.getpeercert(binary_form=True)
        if not leaf:
            return b""
        key = sha256(leaf).digest()
        known = self._vouched.pop(key, b"")
        if anchor := trust_anchor(ssl_object) or known:
            anchor = self._anchors.get(anchor, anchor)  # one copy for all clients
            self._vouched[key] = anchor
        if len(self._vouched) > _KEPT:
            del self._vouched[next(iter(self._vouched))]
        return anchor

    def trusts(self, anchor: bytes) -> bool:
        """Whether client certificates of this authority (DER) are accepted."""
        return anchor in self._anchors

    def admits(self, anchor: bytes) -> bool:
        """Whether a handshake succeeds with a certificate of this authority (DER); empty: without a certificate."""
        mode = self.context.verify_mode
        return mode is ssl.CERT_NONE or (self.trusts(anchor) if anchor else mode is not ssl.CERT_REQUIRED)


def trust_anchor(ssl_object: ssl.SSLObject | ssl.SSLSocket | None) -> bytes:
    """The authority (DER) at the end of the chain by which a peer's certificate was verified; empty when unknown."""
    session = getattr(ssl_object, "_sslobj", ssl_object)
    # Public on SSLObject from Python 3.13 on, which returns bytes; on the object underneath since 3.10.
    chain = getattr(session, "get_verified_chain", lambda: None)()
    if not chain:
        return b""
    return chain[-1] if isinstance(chain[-1], bytes) else bytes(chain[-1].public_bytes(_ENCODING_DER))


class ClientTls(ssl.SSLContext):
    """The TLS context of a connector, and the expiry of its certificate."""

    certificate: Path | None = None
    expires: datetime | None = None
    """UTC; None: there is no certificate, or its time cannot be read."""


def client_context(
    *,
    ca: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    password: bytes | None = None,
    verify: bool = True,
) -> ClientTls:
    """A connector's TLS: the server's certificate and host name are checked unless `verify` is off.

    SNI is sent by asyncio from `server_hostname`, which also is the name that is checked.
    """
    context = ClientTls(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca is not None:
        _load_authorities(context, ca)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if cert is not None:
        _load_chain(context, cert, key, password)
        context.certificate, context.expires = cert, _expires(cert)
    return context


def out_of_date(path: Path, now: datetime) -> Iterator[str]:
    """The certificates of a PEM file that are not valid at `now` or 30 days later, and why.

    None if the file cannot be read.
    """
    from cryptography import x509  # imported here, because it takes 20 ms

    try:
        certificates = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):  # its user reports the error
        return
    for certificate in certificates:
        name, until = certificate.subject.rfc4514_string(), certificate.not_valid_after_utc
        if until < now:
            yield f"{path}: the certificate of {name!r} expired on {until:%Y-%m-%d}, and nobody accepts it any more"
        elif until - now < _SOON:
            days = (until - now).days
            left = counted(days, "day")
            yield f"{path}: the certificate of {name!r} expires in {left}, on {until:%Y-%m-%d}"
        elif certificate.not_valid_before_utc > now:
            since = certificate.not_valid_before_utc
            yield f"{path}: nobody accepts the certificate of {name!r} before {since:%Y-%m-%d}"


def _expires(cert: Path) -> datetime | None:
    """The expiry of the first certificate of a loaded file, which may also contain a key."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(cert.read_bytes())[0].not_valid_after_utc
    except (OSError, ValueError):
        return None


def peer_subject(ssl_object: ssl.SSLObject | ssl.SSLSocket | None) -> str | None:
    """The user of a verified client certificate: its common name, else its first alternative name.

    None if there is no verified certificate, or no unambiguous name.
    """
    certificate = ssl_object.getpeercert() if ssl_object is not None else None
    if not certificate:
        return None
    common = [value for key, value in _subject(certificate) if key == "commonName"]
    other = [value for kind in _NAME_TYPES for key, value in _alternatives(certificate) if key == kind]
    if len(common) > 1:
        return None
    name = (common or other or [""])[0]
    return name if name and name.isprintable() else None


def _subject(certificate: PeerCertificate) -> list[tuple[str, str]]:
    return [pair for relative in certificate.get("subject", ()) for pair in relative]


def _alternatives(certificate: PeerCertificate) -> list[tuple[str, str]]:
    return list(certificate.get("subjectAltName", ()))


def _load_chain(context: ssl.SSLContext, cert: Path, key: Path | None, password: bytes | None) -> None:
    for path in (cert, key):
        if path is not None:
            _readable(path)
    try:
        # An empty password, so that OpenSSL does not ask for one on the terminal.
        context.load_cert_chain(cert, key, password=password or b"")
    except (ssl.SSLError, ValueError) as error:
        files = str(cert) if key is None else f"{cert}, {key}"
        locked = _LOCKED in (key or cert).read_bytes()  # what OpenSSL says of it varies
        raise TlsError(f"{files}: {_why_locked(password) if locked else _why(error)}") from None


def _why_locked(password: bytes | None) -> str:
    if password is None:
        return "the key is encrypted; a policy names its password with key_password"
    return "key_password does not decrypt the key, or the key does not belong to the certificate"


def _certificates(path: Path) -> list[bytes]:
    """The certificates of a PEM file (DER)."""
    return [ssl.PEM_cert_to_DER_cert(block) for block in _CERTIFICATE.findall(path.read_text("latin-1"))]


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    _readable(path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise TlsError(f"{path}: {_why(error)}") from None


def _readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}") from None


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    known = {
        "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
        "NO_CERTIFICATE_OR_CRL_FOUND": "holds no certificate in PEM",
        "NO_START_LINE": "not in PEM",
    }
    return known.get(str(reason), "not a certificate chain and its key in PEM" if reason is None else str(reason))
