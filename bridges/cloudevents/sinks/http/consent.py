"""Whether an HTTP sink consents to deliveries (Web Hooks for Event Delivery, 4)."""

from __future__ import annotations

from typing import Final, NamedTuple

import aiohttp

from bridges.cloudevents.sinks.dial import reason_of
from bridges.cloudevents.sinks.http.client import HttpAnswer, HttpClient, place, time_limit

ORIGIN: Final = "webhook-request-origin"
_MINUTE: Final = 60.0
_LONGEST_RATE: Final = 9


class Consent(NamedTuple):
    """What a sink answered; `rate`: deliveries a second that it allows, None for any."""

    given: bool
    rate: float | None = None
    reason: str = ""
    answered: bool = True
    """False: the sink has not heard the question, as far as we know."""


async def ask(
    client: HttpClient, url: str, origin: str, rate: int | None, callback: str | None, seconds: float
) -> Consent:
    """Ask with OPTIONS; `rate`: deliveries a minute that we would like, `callback`: where consent may be given later.

    No header, no consent; the status does not matter. Never raises for what the sink does.
    """
    headers = [(ORIGIN, origin)]
    headers += [] if rate is None else [("webhook-request-rate", str(rate))]
    headers += [] if callback is None else [("webhook-request-callback", callback)]
    try:
        return consent_of(await client.request("OPTIONS", place(url), headers, None, time_limit(seconds)), origin, rate)
    except aiohttp.ClientConnectorCertificateError as error:
        return Consent(False, reason=reason_of(error.certificate_error), answered=False)
    except aiohttp.ClientConnectorError as error:
        return Consent(False, reason=reason_of(error.os_error), answered=False)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Consent(False, reason=reason_of(error), answered=False)


def consent_of(answer: HttpAnswer, origin: str, rate: int | None) -> Consent:
    """Read an answer: `*` or our origin consents; the granted rate is a number a minute, or `*`."""
    allowed = answer.headers.get("webhook-allowed-origin", "").strip()
    if allowed != "*" and allowed.lower() != origin.lower():
        return Consent(False, reason="the sink did not answer with WebHook-Allowed-Origin for this gateway")
    return Consent(True, granted_rate(answer.headers.get("webhook-allowed-rate", ""), rate))


def granted_rate(granted: str, asked: int | None) -> float | None:
    """Deliveries a second that `WebHook-Allowed-Rate` allows; missing, or no rate: the one asked for (a minute)."""
    text = granted.strip()
    if text == "*":
        return None
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST_RATE and int(text) > 0:
        return int(text) / _MINUTE
    return None if asked is None else asked / _MINUTE
