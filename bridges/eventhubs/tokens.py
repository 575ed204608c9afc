"""Shared access signatures: what a token opens, and whether one of the policy's keys has signed it. Pure.

A token is `SharedAccessSignature sr=<resource>&sig=<signature>&se=<expiry>&skn=<key name>`. The signature is the base64
of the HMAC-SHA-256 of the resource as the token has it (percent-encoded), a line feed, and the expiry in seconds.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_plus, urlsplit

from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError
from policies.model.scopes.event_hubs import SharedKey

_PREFIX: Final = "sharedaccesssignature "
_FIELDS: Final = frozenset(("sr", "sig", "se", "skn"))
_LONGEST: Final = 8192
"""Characters of a token."""
_DIGITS: Final = 12
"""Digits of an expiry in seconds."""
Resource = tuple[str, ...]
"""The segments of a path: an event hub, and perhaps a part of it."""


class SasToken(NamedTuple):
    """A verified token: it opens `resource` and everything below it until `expiry_ms`."""

    resource: Resource
    key: SharedKey
    expiry_ms: int

    def covers(self, wanted: Resource) -> bool:
        """Whether it opens a resource."""
        return wanted[: len(self.resource)] == self.resource


def resource_of(url: str) -> Resource:
    """The path of `sb://host/hub/…`, or of a bare path, as segments; the host does not count.

    Names are as they were written; keywords like ConsumerGroups, which clients write differently, are in lower case.

    Raises:
        AmqpError: UNAUTHORIZED_ACCESS for a text that is no URL.
    """
    try:
        path = urlsplit(url).path if "://" in url else url
    except ValueError:
        raise _invalid("the resource is not a URL") from None
    segments = [unquote(segment) for segment in path.strip("/").split("/") if segment]
    segments[1::2] = [segment.lower() for segment in segments[1::2]]
    return tuple(segments)


def verified(text: str, name: str, keys: Mapping[str, SharedKey], now_ms: int) -> SasToken:
    """The token for the resource `name`, which has to be the token's own or a part of it.

    Raises:
        AmqpError: UNAUTHORIZED_ACCESS if it is malformed, expired, for another resource, or not signed by a key.
    """
    fields = _fields(text)
    key = keys.get(unquote_plus(fields["skn"]))
    signed = f"{fields['sr']}\n{fields['se']}".encode()
    expected = base64.b64encode(hmac.digest(key.secret if key else b"", signed, hashlib.sha256))
    same = hmac.compare_digest(expected, unquote(fields["sig"]).encode())
    if key is None or not same:
        raise AmqpError(UNAUTHORIZED_ACCESS, "InvalidSignature: the token has an invalid signature")
    expiry_ms = int(fields["se"]) * 1000
    if expiry_ms <= now_ms:
        raise AmqpError(UNAUTHORIZED_ACCESS, "ExpiredToken: the token has expired")
    resource, wanted = resource_of(unquote_plus(fields["sr"])), resource_of(name)
    if not wanted:
        raise _invalid("the request needs a name: the resource that the token is sent for")
    if _folded(wanted[: len(resource)]) != _folded(resource):
        text = "InvalidAudience: the token is for another resource (sr) than the one in the name of the request"
        raise AmqpError(UNAUTHORIZED_ACCESS, text)
    return SasToken(wanted, key, expiry_ms)


def _folded(resource: Resource) -> Resource:
    """For comparison: some clients sign the resource in lower case, as names in Event Hubs have no case."""
    return tuple(segment.lower() for segment in resource)


def _fields(text: str) -> dict[str, str]:
    if len(text) > _LONGEST:
        raise _invalid(f"it has more than {_LONGEST} characters")
    if text[: len(_PREFIX)].lower() != _PREFIX:
        raise _invalid("it is not a shared access signature")
    parts = [part.partition("=") for part in text[len(_PREFIX) :].strip().split("&")]
    fields = {name: value for name, _, value in parts}
    if len(fields) < len(parts) or not fields.keys() >= _FIELDS:
        raise _invalid("it needs sr, sig, se and skn, once each")
    expiry = fields["se"]
    if not (expiry.isascii() and expiry.isdigit() and len(expiry) <= _DIGITS):
        raise _invalid("se is not a time in seconds")
    return fields


def _invalid(why: str) -> AmqpError:
    return AmqpError(UNAUTHORIZED_ACCESS, f"MalformedToken: {why}")
