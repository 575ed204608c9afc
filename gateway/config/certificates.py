"""The certificates that a policy names: where, and until when they are valid."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from policies.model.scopes.scope import ScopeSection
    from policies.rules import CompiledPolicy


class CertificateFile(NamedTuple):
    """A PEM file with certificates; `where` is the part of the policy that names it, `use` its key there."""

    where: str
    use: str
    path: Path


class CertificateTimes(NamedTuple):
    """One certificate: its subject, and when it is valid (UTC)."""

    subject: str
    since: datetime
    until: datetime


def certificate_files(policy: CompiledPolicy) -> list[CertificateFile]:
    """The files with certificates that a policy names, each once for each place."""
    found = [each for name, scope in policy.model.scopes.items() for each in _of_scope(name, scope)]
    if (tls := policy.model.gateway.admin.tls) is not None:
        found += [("gateway.admin", "cert", tls.cert), ("gateway.admin", "client_ca", tls.client_ca)]
    return [CertificateFile(where, use, policy.path(name)) for where, use, name in found if name is not None]


def _of_scope(name: str, scope: ScopeSection) -> Iterator[tuple[str, str, str | None]]:
    listening = [("listen", each.bind, each.tls) for each in scope.listen]
    listening += [("api", each.bind, each.tls) for each in scope.api]
    for kind, bind, tls in listening:
        if tls is not None:
            yield from ((f"{name}.{kind} {bind}", use, getattr(tls, use)) for use in ("cert", "client_ca"))
    clients: list[tuple[str, object]] = [(f"connect {each.name}", each.tls) for each in scope.connect]
    for where, client in [*clients, *_of_sinks(scope)]:
        yield from ((f"{name}.{where}", use, getattr(client, use)) for use in ("cert", "ca"))


def _of_sinks(scope: ScopeSection) -> Iterator[tuple[str, object]]:
    for manager in scope.subscriptions:
        tls = [each.tls for each in manager.sinks] + [each.tls for each in manager.oauth]
        yield from ((f"subscriptions {manager.name}", each) for each in tls if each is not None)


def read_times(path: Path) -> list[CertificateTimes] | str:
    """The certificates of a file, or why they cannot be read."""
    from cryptography import x509  # imported here, because it takes 20 ms

    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or "no certificates in PEM"
    return [
        CertificateTimes(each.subject.rfc4514_string(), each.not_valid_before_utc, each.not_valid_after_utc)
        for each in found
    ]
