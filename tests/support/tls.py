"""A certificate authority for one run: server and client certificates as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFE = datetime.timedelta(days=2)


class Certificate(NamedTuple):
    """Where a certificate and its key lie."""

    cert: Path
    key: Path


class Authority:
    """Issues certificates into a folder; `cafile` is what a client trusts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = common_name("ScopeGate tests")
        own = self._builder("ScopeGate tests", self._key.public_key())
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.cafile = folder / "ca.pem"
        self.cafile.write_bytes(pem(own.sign(self._key, hashes.SHA256())))
        self.server = self.issue("localhost", server=True)

    def issue(self, name: str, *, server: bool = False) -> Certificate:
        """Issue a certificate for a common name; a server's also names localhost and 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(name, key.public_key())
        if server:
            hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        files = Certificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        files.cert.write_bytes(pem(builder.sign(self._key, hashes.SHA256())))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        files.key.chmod(0o600)
        return files

    def _builder(self, name: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(common_name(name))
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - LIFE)
            .not_valid_after(now + LIFE)
        )


def common_name(text: str) -> x509.Name:
    """Return the name of a certificate's subject."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem(certificate: x509.Certificate) -> bytes:
    """Return the file form of a certificate."""
    return certificate.public_bytes(serialization.Encoding.PEM)
