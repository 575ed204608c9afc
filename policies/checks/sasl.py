"""Checks of one listener or connector: what mechanisms need, and passwords on unencrypted connections."""

from __future__ import annotations

from collections.abc import Iterator

from policies.checks.certificates import check_own_certificate
from policies.model.scopes.connect import ConnectorSection
from policies.model.scopes.listen import ListenerSection
from policies.model.scopes.sasl import PASSWORD_MECHANISMS
from policies.parts.parts import PolicyPart
from policies.text.diagnostics import Diagnostic


def check_listener(part: PolicyPart[ListenerSection]) -> Iterator[Diagnostic]:
    """Mistakes between the keys of one listener."""
    listener, loc = part.value, part.loc
    passwords = [name.lower() for name in listener.sasl if name in PASSWORD_MECHANISMS]
    if passwords and listener.users is None and part.ok("sasl", "users"):
        yield Diagnostic((*loc, "sasl"), f"{', '.join(passwords)} needs users: the file of users and their passwords")
    if listener.users is not None and not passwords and part.ok("sasl"):
        yield Diagnostic((*loc, "users"), "no mechanism of sasl uses a password", at_key=True, warning=True)
    yield from _listener_plain(part)
    yield from _listener_certificates(part)


def _listener_plain(part: PolicyPart[ListenerSection]) -> Iterator[Diagnostic]:
    listener = part.value
    known = part.ok("sasl", "tls", "allow_plain_without_tls")
    if known and "PLAIN" not in listener.offered and "PLAIN" in listener.sasl:
        alone = not listener.offered
        message = "plain is offered only on TLS: add tls, or allow_plain_without_tls: true"
        yield Diagnostic((*part.loc, "sasl"), message if alone else f"{message}; it is left out", warning=not alone)


def _listener_certificates(part: PolicyPart[ListenerSection]) -> Iterator[Diagnostic]:
    listener, loc = part.value, part.loc
    has_ca = listener.tls is not None and listener.tls.client_ca is not None
    if "EXTERNAL" in listener.sasl and not has_ca and part.ok("sasl", "tls"):
        yield Diagnostic((*loc, "sasl"), "external needs tls with client_ca, the trusted certificate authorities")
    if listener.tls is not None and listener.tls.require_client_cert and not has_ca:
        yield Diagnostic((*loc, "tls", "require_client_cert"), "needs client_ca, the trusted certificate authorities")


def check_connector(part: PolicyPart[ConnectorSection]) -> Iterator[Diagnostic]:
    """Mistakes between the keys of one connector."""
    connector, loc = part.value, part.loc
    yield from _connector_sasl(part)
    yield from check_own_certificate(connector.tls, (*loc, "tls"))
    if (connector.tls.ca or connector.tls.cert) and part.ok("to") and not any(url.tls for url in connector.to):
        yield Diagnostic((*loc, "tls"), "no URL is amqps://, so TLS is not used", warning=True)
    if connector.backoff.min > connector.backoff.max:
        yield Diagnostic((*loc, "backoff"), "min must not be longer than max")


def _connector_sasl(part: PolicyPart[ConnectorSection]) -> Iterator[Diagnostic]:
    connector, loc, sasl = part.value, (*part.loc, "sasl"), part.value.sasl
    if not part.ok("sasl"):
        return
    if sasl.mechanism in PASSWORD_MECHANISMS:
        for key in ("user", "password"):
            if getattr(sasl, key) is None:
                yield Diagnostic(loc, f"{sasl.mechanism} needs {key}")
    elif sasl.password is not None or sasl.user is not None:
        yield Diagnostic(loc, f"{sasl.mechanism} uses no user or password; name a mechanism that does")
    if sasl.mechanism == "EXTERNAL" and connector.tls.cert is None and part.ok("tls"):
        yield Diagnostic(loc, "EXTERNAL needs tls with cert and key: the certificate identifies the gateway")
    private = connector.allow_plain_without_tls or all(url.tls for url in connector.to)
    if sasl.mechanism == "PLAIN" and not private and part.ok("to", "allow_plain_without_tls"):
        yield Diagnostic(loc, "PLAIN needs amqps:// URLs only, or allow_plain_without_tls: true")
