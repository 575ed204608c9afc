"""Asks an HTTP sink for its consent to deliveries (Web Hooks for Event Delivery, 4)."""

from __future__ import annotations

from typing import Final, NamedTuple

from bridges.cloudevents.sinks.http.client import HttpClient
from bridges.cloudevents.sinks.http.connection import NoAnswer
from bridges.cloudevents.sinks.http.pool import NotSent
from bridges.cloudevents.sinks.http.response import HttpAnswer

ORIGIN: Final = "webhook-request-origin"
_MINUTE: Final = 60.0
_LONGEST_RATE: Final = 9


class Consent(NamedTuple):
    """A sink's answer; `rate` is the allowed deliveries per second, None for no limit."""

    granted: bool
    rate: float | None = None
    reason: str = ""
    answered: bool = True
    """False if the sink probably did not receive the request."""


async def request_consent(
    client: HttpClient, url: str, origin: str, rate: int | None, callback: str | None, seconds: float
) -> Consent:
    """Ask with OPTIONS; `rate`: requested deliveries per minute; `callback`: where the sink may consent later.

    Without the header there is no consent, whatever the status. Does not raise for any answer of the sink.
    """
    headers = [(ORIGIN, origin)]
    headers += [] if rate is None else [("webhook-request-rate", str(rate))]
    headers += [] if callback is None else [("webhook-request-callback", callback)]
    try:
        return consent_of(await client.request("OPTIONS", url, headers, seconds), origin, rate)
    except (NotSent, NoAnswer, ValueError) as error:
        return Consent(False, reason=str(error), answered=False)


def consent_of(answer: HttpAnswer, origin: str, rate: int | None) -> Consent:
    """Read an answer: `*` or our origin means consent; the granted rate is a number per minute, or `*`."""
    allowed = answer.headers.get("webhook-allowed-origin", "").strip()
    if allowed != "*" and allowed.lower() != origin.lower():
        return Consent(False, reason="the sink did not answer with WebHook-Allowed-Origin for this gateway")
    return Consent(True, granted_rate(answer.headers.get("webhook-allowed-rate", ""), rate))


def granted_rate(granted: str, requested: int | None) -> float | None:
    """The deliveries per second that `WebHook-Allowed-Rate` allows, by default those requested (per minute)."""
    text = granted.strip()
    if text == "*":
        return None
    if is_rate(text):
        return int(text) / _MINUTE
    return None if requested is None else requested / _MINUTE


def is_rate(granted: str) -> bool:
    """Whether this is a `WebHook-Allowed-Rate`: a positive number, or `*` for no limit."""
    text = granted.strip()
    return text == "*" or (text.isascii() and text.isdigit() and len(text) <= _LONGEST_RATE and int(text) > 0)
