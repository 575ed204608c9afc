"""Deferred consent: a sink consents later, at a secret address (Web Hooks for Event Delivery, 4.1)."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote

_LIFETIME: Final = 24 * 3600 * 1000
"""Lifetime of a consent address, in milliseconds."""
_KEY: Final = 32


class PendingConsent(NamedTuple):
    """A consent awaited until `until` (milliseconds since 1970); only a hash of the key is stored."""

    digest: str
    until: int

    def matches(self, key: str, now_ms: int) -> bool:
        """Whether this is the key, and not too late."""
        return hmac.compare_digest(self.digest, _digest(key)) and now_ms <= self.until


NO_CONSENT: Final = PendingConsent("0" * 64, 0)
"""Compared with if no consent is awaited, so that the answer takes equally long."""


class ConsentAddress(NamedTuple):
    """The address at which a sink may consent, and the record to store until it does."""

    url: str
    pending: PendingConsent


def consent_address(collection: str, id: str, now_ms: int) -> ConsentAddress:
    """Make a new address for the subscription `id` of a collection (a URL)."""
    key = secrets.token_urlsafe(_KEY)
    url = f"{collection}/{quote(id, safe='')}/confirm?key={key}"
    return ConsentAddress(url, PendingConsent(_digest(key), now_ms + _LIFETIME))


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()
