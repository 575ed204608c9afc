"""Reasons why a connector is not connected, with the way out; logged when they change, not at every attempt."""

from __future__ import annotations

import datetime as dt
import ssl
from typing import TYPE_CHECKING, Final

from gateway.amqp.transport.tls import ClientTls

if TYPE_CHECKING:
    from policies.values.units import Endpoint


def why(error: BaseException | None, tls: ssl.SSLContext | None, *, opened: bool) -> str:
    """A description of a connection that failed or ended with `error`.

    `tls`: what it uses, None on plain TCP; `opened`: the container had answered our open. In TLS 1.3 a container
    refuses a certificate after the handshake, and its alert is lost where it closes the socket before we read it.
    """
    text = "connection lost" if error is None else str(error) or "timed out"
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
    """Counts failures of each endpoint in a row with the same reason; an open connection resets all."""

    def __init__(self) -> None:
        self._rows: Final[dict[Endpoint, tuple[str, int]]] = {}

    def clear(self) -> None:
        """Reset all counts: there is a connection."""
        self._rows.clear()

    def count(self, endpoint: Endpoint, reason: str) -> int:
        """Count a failure; returns how many there are in a row."""
        before, count = self._rows.get(endpoint, ("", 0))
        count = count + 1 if before == reason else 1
        self._rows[endpoint] = reason, count
        return count


def worth_a_line(count: int) -> bool:
    """Whether to log this failure: the 1st, 2nd, 4th, 8th…."""
    return count & (count - 1) == 0
