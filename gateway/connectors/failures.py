"""Reasons why a connector is not connected, with the way out; logged when they change, not at every attempt."""

from __future__ import annotations

import datetime as dt
import ssl
from typing import TYPE_CHECKING, Final

from gateway.amqp.transport.tls import ClientTls

if TYPE_CHECKING:
    from policies.values.units import Endpoint


_MOST: Final = 100
"""Reasons that are remembered."""
_LOGINS: Final = {
    "credentials": "the container does not accept the login",
    "malformed": "the container breaks SASL",
    "mechanism": "the container does not offer the mechanism of the policy",
    "out-of-order": "the container breaks SASL",
    "protocol-header": "the container does not answer with SASL",
    "server-error": "the container could not check the login",
    "server-proof": "the container did not prove that it knows the password",
}
"""What the reasons of a `SaslClient` mean."""


def why_no_login(reason: str) -> str:
    """A description of a login that failed."""
    return f"authentication failed: {_LOGINS.get(reason, reason)}"


def why(error: BaseException | None, tls: ssl.SSLContext | None, *, opened: bool) -> str:
    """A description of a connection that failed or ended with `error`.

    `tls`: what it uses, None on plain TCP; `opened`: the container had answered our open. In TLS 1.3 a container
    refuses a certificate after the handshake, and its alert is lost where it closes the socket before we read it.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the container's certificate is not accepted: {error.verify_message}"
    text = str(error or "") or ("timed out" if isinstance(error, TimeoutError) else "connection lost")
    alert = _alert(error)
    if alert:
        text = f"the container ended TLS with the alert {alert!r}"
    silent = error is None or isinstance(error, ConnectionError)
    if tls is None or opened or not (alert or silent) or isinstance(error, ConnectionRefusedError):
        return text
    return f"{text}; {_certificate(tls, sure=bool(alert))}"


def _alert(error: BaseException | None) -> str:
    """The TLS alert of the peer, such as TLSV1_ALERT_UNKNOWN_CA; empty: none."""
    reason = str(getattr(error, "reason", None) or "") if isinstance(error, ssl.SSLError) else ""
    return reason.partition("_ALERT_")[2].lower().replace("_", " ")


def _certificate(tls: ssl.SSLContext, *, sure: bool) -> str:
    if not isinstance(tls, ClientTls) or tls.certificate is None:
        return "it may want a client certificate, which this connector does not have (tls: cert, key)"
    until = ""
    if tls.expires is not None:
        over = tls.expires <= dt.datetime.now(dt.UTC)
        until = f" ({'expired on' if over else 'valid until'} {tls.expires:%Y-%m-%d %H:%M} UTC)"
    refuses = "it was shown" if sure else "it may refuse"
    return f"{refuses} {tls.certificate}{until}; replace the file and reload, or let the container accept it"


class Failures:
    """The reasons for which each endpoint has failed since the last open connection."""

    def __init__(self) -> None:
        self._known: Final[set[tuple[Endpoint, str]]] = set()

    def clear(self) -> None:
        """Forget all: there is a connection."""
        self._known.clear()

    def is_new(self, endpoint: Endpoint, reason: str) -> bool:
        """Whether an endpoint fails for this reason for the first time, so that it is logged."""
        if (endpoint, reason) in self._known:
            return False
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known.add((endpoint, reason))
        return True
