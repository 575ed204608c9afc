"""Consent that a sink gives later, at an address that only it was told (Web Hooks for Event Delivery, 4.1)."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote

_LIFETIME: Final = 24 * 3600 * 1000
"""Milliseconds for which the address of a consent is good."""
_KEY: Final = 32


class PendingConsent(NamedTuple):
    """A consent that is awaited until `until` (milliseconds since 1970): what is stored does not tell its key."""

    digest: str
    until: int

    def fits(self, key: str, now_ms: int) -> bool:
        """Whether this is the key, in time."""
        return hmac.compare_digest(self.digest, _digest(key)) and now_ms <= self.until


NO_CONSENT: Final = PendingConsent("0" * 64, 0)
"""Compared with where there is none, so that an answer takes as long."""


class ConsentAddress(NamedTuple):
    """Where a sink may consent, and what is stored until it does."""

    url: str
    pending: PendingConsent


def consent_address(collection: str, id: str, now_ms: int) -> ConsentAddress:
    """A new address for the subscription `id` of a collection (a URL)."""
    key = secrets.token_urlsafe(_KEY)
    url = f"{collection}/{quote(id, safe='')}/confirm?key={key}"
    return ConsentAddress(url, PendingConsent(_digest(key), now_ms + _LIFETIME))


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()
