"""The meaning of an HTTP status for the events of a request, and for the sink (docs/subscriptions.md). Pure."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome

UNAUTHORIZED: Final = 401
_SPECIAL: Final = {
    101: DeliveryOutcome.SINK_FAILED,
    UNAUTHORIZED: DeliveryOutcome.CREDENTIAL,
    403: DeliveryOutcome.CREDENTIAL,
    404: DeliveryOutcome.FAILED,
    407: DeliveryOutcome.CREDENTIAL,
    408: DeliveryOutcome.FAILED,
    409: DeliveryOutcome.FAILED,
    410: DeliveryOutcome.GONE,
    413: DeliveryOutcome.TOO_LARGE,
    425: DeliveryOutcome.FAILED,
    429: DeliveryOutcome.WAIT,
    503: DeliveryOutcome.WAIT,
}
_BY_CLASS: Final = {3: DeliveryOutcome.SINK_FAILED, 4: DeliveryOutcome.REFUSED, 5: DeliveryOutcome.FAILED}
_DONE: Final = {status: Answer(DeliveryOutcome.DONE, status=status) for status in range(200, 300)}
_DIGITS: Final = 9


def answer_of(status: int, retry_after: str | None, now: float) -> Answer:
    """`retry_after` is the header's value; `now` is in seconds since 1970."""
    if (done := _DONE.get(status)) is not None:
        return done
    verdict = _SPECIAL.get(status) or _BY_CLASS.get(status // 100, DeliveryOutcome.FAILED)
    pause = seconds_of(retry_after, now) if verdict is DeliveryOutcome.WAIT else None
    return Answer(verdict, _reason(status), status, pause)


def _reason(status: int) -> str:
    if 300 <= status <= 399:
        return f"the sink answered {status}, a redirect, which is never followed"
    return f"the sink answered {status}"


def seconds_of(retry_after: str | None, now: float) -> float | None:
    """The pause of `Retry-After`: seconds, or a date (RFC 9110, 10.2.3); None if it is neither."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:_DIGITS]) if len(text) <= _DIGITS else float(10**_DIGITS)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
