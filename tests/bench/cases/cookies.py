"""One cookie signed, found in a message by its section index, and verified: the cost of a request and its response."""

from __future__ import annotations

import time

from gateway.amqp.codec.codec import Symbol
from gateway.amqp.message.sections import DATA, DELIVERY_ANNOTATIONS, PROPERTIES, section, walk
from gateway.response.cookies.cookie import Cookie
from gateway.response.cookies.keys import KeyRing, SigningSecret
from gateway.response.cookies.maker import CookieMaker
from gateway.response.cookies.reader import CookieReader

_BATCH = 2000
_NOW = 1_700_000_000_000


def sign_verify(sealing: bool, seconds: float) -> float:
    """How many a second of processor time; nothing is remembered from one to the next.

    The best of the batches: what else the machine does can only make one slower.
    """
    ring = KeyRing("2026-11", {"2026-11": SigningSecret(bytes(range(32)))}, seal=sealing)
    make, read = CookieMaker(ring, "edge", "$replies.core").make, CookieReader(ring).open
    cookies = [Cookie("edge", "$replies.core", f"replies/{number}", _NOW) for number in range(_BATCH)]
    response = section(DELIVERY_ANNOTATIONS, {Symbol("address-cookie"): bytes(64)})
    response += section(PROPERTIES, ["id", None, "to"]) + section(DATA, bytes(100))
    best, end = float("inf"), time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.process_time_ns()
        for cookie in cookies:
            walk(response)
            read(make(cookie), _NOW)
        best = min(best, time.process_time_ns() - start)
    return _BATCH / best * 1e9
