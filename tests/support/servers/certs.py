"""A throw-away certificate authority for the tests: everything on disk as PEM, as operators have it."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Pair(NamedTuple):
    """A certificate (chain) and its key."""

    cert: Path
    key: Path


class Authority:
    """`ca` is what peers trust; `server` and `client` issue."""

    def __init__(self, folder: Path, name: str = "test-ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def server(self, name: str = "localhost", *, file: str = "server") -> Pair:
        """For `name`, `localhost` and 127.0.0.1."""
        names = [x509.DNSName(name), x509.DNSName("localhost")]
        return self._issue(file, name, [*names, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])

    def client(self, name: str | None, *alternatives: x509.GeneralName, file: str = "client") -> Pair:
        """With `name` as common name, unless None."""
        return self._issue(file, name, list(alternatives))

    def passing(self, name: str, seconds: float, *, file: str = "passing") -> tuple[Pair, dt.datetime]:
        """A client's that expires so soon, and when."""
        until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
        return self._issue(file, name, [], until - dt.timedelta(hours=1)), until.replace(microsecond=0)

    def pinned(self, name: str, *, file: str = "pinned") -> Pair:
        """A client's that it has signed itself, and that is no authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._written(file, _builder(subject, subject, key.public_key()).sign(key, hashes.SHA256()), key)

    def expired(self, *, file: str = "expired") -> Pair:
        """A server's that was valid for an hour, two days ago."""
        then = dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
        return self._issue(file, "localhost", [x509.DNSName("localhost")], then)

    def _issue(
        self, file: str, common: str | None, names: list[x509.GeneralName], then: dt.datetime | None = None
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [] if common is None else [x509.NameAttribute(NameOID.COMMON_NAME, common)]
        builder = _builder(x509.Name(parts), self._name, key.public_key(), then)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not parts)
        return self._written(file, builder.sign(self._key, hashes.SHA256()), key)

    def _written(self, file: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
        pair = Pair(self._folder / f"{file}.pem", self._folder / f"{file}.key")
        pair.cert.write_bytes(_pem(certificate))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pair


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, then: dt.datetime | None = None
) -> x509.CertificateBuilder:
    """Valid for a day, or for an hour after `then`."""
    now = dt.datetime.now(dt.UTC)
    until = now + dt.timedelta(days=1) if then is None else then + dt.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before((then or now) - dt.timedelta(hours=1))
        .not_valid_after(until)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def lock_key(key: Path, password: bytes) -> None:
    """Encrypt a private key in place."""
    secret = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(password)
    key.write_bytes(secret.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
