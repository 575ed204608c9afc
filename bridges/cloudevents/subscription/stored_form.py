"""The stored form of subscriptions: the realized object, and its secrets encrypted under the key ring. Pure.

The encryption binds the secrets to scope, manager, id and the origin of the sink: they cannot be decrypted in a record
that was copied to another id or changed to another sink.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Protocol

from bridges.cloudevents.model.strict_json import MAX_DEPTH, json_text, read_object
from bridges.cloudevents.model.values import InvalidSubscription, Json, Mistake, RefreshToken
from bridges.cloudevents.subscription import credential as credentials
from bridges.cloudevents.subscription.parse import Proposal, StoredSecrets, read_subscription
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.response.cookies.keys import SUBSCRIPTION, BadToken, KeyRing
from policies.model.filters import Filters
from policies.subscriptions import ManagerRules

_FORM: Final = 1
_WIDEST: Final = Filters(max_length=16_384, max_tokens=2000, max_depth=16, max_terms=8192, max_items=2048)
"""Limits that every stored filter satisfies, used to decode it: a policy with narrower ones must not lose it."""


class SecretEncrypter(Protocol):
    """Encrypts bytes for storage; decryption requires the same `bound`."""

    def encrypt(self, content: bytes, bound: bytes) -> bytes:
        """The encrypted content."""


class SecretDecrypter(Protocol):
    """Decrypts the content of any gateway with the same key ring."""

    def decrypt(self, sealed: bytes, bound: bytes) -> bytes | None:
        """The content; None if no key of the ring decrypts it, or `bound` differs."""


class SubscriptionKeys:
    """Encrypts and decrypts the secrets of subscriptions with a key ring."""

    def __init__(self, ring: KeyRing, now_ms: Callable[[], int]) -> None:
        self._ring: Final = ring
        self._now: Final = now_ms

    @property
    def active(self) -> str:
        """The id of the key that encrypts."""
        return self._ring.active

    @property
    def ids(self) -> Collection[str]:
        """The ids of all keys."""
        return self._ring.ids

    def encrypt(self, content: bytes, bound: bytes) -> bytes:
        """See `SecretEncrypter`."""
        return self._ring.sealer(SUBSCRIPTION).seal(content, bound)

    def decrypt(self, sealed: bytes, bound: bytes) -> bytes | None:
        """See `SecretDecrypter`."""
        try:
            return self._ring.unseal(SUBSCRIPTION, sealed, self._now(), bound)
        except BadToken:
            return None


def to_stored(subscription: Subscription, rules: ManagerRules, encrypter: SecretEncrypter | None) -> bytes:
    """Encode for the store; `encrypter` None: there are no keys, and therefore no secrets."""
    found: dict[str, Json] = {
        "form": _FORM,
        "owner": subscription.owner,
        "document": subscription.document,
    }
    secrets: dict[str, Json] = {
        "credential": dict(credentials.secrets_of(subscription.credential)),
        "headers": dict(subscription.secret_headers),
    }
    if any(secrets.values()):
        if encrypter is None:
            raise ValueError("a subscription with secrets needs keys")
        bound = _bound(rules, subscription.id, subscription.sink.origin)
        sealed = encrypter.encrypt(json.dumps(secrets).encode(), bound)
        found["secrets"] = base64.b64encode(sealed).decode()
    return json_text(found)


def from_stored(record: Json, rules: ManagerRules, decrypter: SecretDecrypter | None) -> Subscription:
    """Decode the JSON of `to_stored`; `secrets_unreadable` if it has secrets that cannot be decrypted.

    A newer policy's limits do not apply here: see `policy_check.policy_violations`. Raises InvalidSubscription for a
    record that is not a subscription, such as one that a later version stored.
    """
    found = record if isinstance(record, dict) else {}
    value, owner, sealed = found.get("document"), found.get("owner"), found.get("secrets")
    if found.get("form") != _FORM or not isinstance(value, dict) or not isinstance(owner, str):
        raise InvalidSubscription((Mistake("", "stored by another version of the gateway"),))
    known = StoredSecrets()
    secrets_unreadable = isinstance(sealed, str)
    if isinstance(sealed, str) and decrypter is not None:
        known, secrets_unreadable = _opened(value, rules, sealed, decrypter)
    readable = _without_secrets(value) if secrets_unreadable else value
    subscription = _read(readable, rules, owner, known, value, secrets_unreadable)
    return replace(subscription, encryption_key=_key_of(sealed)) if isinstance(sealed, str) else subscription


def export_secrets(subscription: Subscription, rules: ManagerRules, encrypter: SecretEncrypter) -> str | None:
    """Encrypt the secrets for an import under the same keys, id and owner; None if there are none."""
    secrets = credentials.secrets_of(subscription.credential)
    if not secrets and not subscription.secret_headers:
        return None
    content = json.dumps([subscription.sink.origin, secrets, subscription.secret_headers]).encode()
    return base64.b64encode(encrypter.encrypt(content, _moved(rules, subscription.id, subscription.owner))).decode()


def import_secrets(
    text: str, rules: ManagerRules, id: str, owner: str, decrypter: SecretDecrypter | None
) -> StoredSecrets | None:
    """Decrypt the result of `export_secrets`; None if that is impossible."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    content = decrypter.decrypt(data, _moved(rules, id, owner)) if data and decrypter is not None else None
    return None if content is None else StoredSecrets(*json.loads(content))


def _moved(rules: ManagerRules, id: str, owner: str) -> bytes:
    return json.dumps(["export", rules.scope, rules.name, id, owner]).encode()


def encryption_key_of(document: bytes) -> str | None:
    """The id of the key that a stored subscription needs; None if it has no secrets, or an unknown format."""
    try:
        sealed = read_object(document, MAX_DEPTH + 1).get("secrets")
    except InvalidSubscription:
        return None
    return _key_of(sealed) if isinstance(sealed, str) else None


def _key_of(sealed: str) -> str | None:
    try:
        data = base64.b64decode(sealed, validate=True)
        return data[2 : 2 + data[1]].decode() if len(data) > 2 else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _bound(rules: ManagerRules, id: str, origin: str) -> bytes:
    return json.dumps([rules.scope, rules.name, id, origin]).encode()


def _opened(
    value: dict[str, Json], rules: ManagerRules, sealed: str, decrypter: SecretDecrypter
) -> tuple[StoredSecrets, bool]:
    """The secrets, and whether they could not be decrypted."""
    bare = _read(_without_secrets(value), rules, "", StoredSecrets(), value, True)
    try:
        data = base64.b64decode(sealed, validate=True)
    except binascii.Error:
        return StoredSecrets(), True
    content = decrypter.decrypt(data, _bound(rules, bare.id, bare.sink.origin)) if data else None
    if content is None:
        return StoredSecrets(), True
    secrets = json.loads(content)
    return StoredSecrets(bare.sink.origin, secrets["credential"], secrets["headers"]), False


def _read(
    value: dict[str, Json],
    rules: ManagerRules,
    owner: str,
    known: StoredSecrets,
    document: dict[str, Json],
    secrets_unreadable: bool,
) -> Subscription:
    mistakes: list[Mistake] = []
    found = read_subscription(value, _WIDEST, rules.delivery, Proposal(owner, stored_secrets=known), mistakes)
    if mistakes or found is None:
        raise InvalidSubscription(tuple(mistakes))
    if value is document:
        return found
    return replace(found, text=json_text(document), secrets_unreadable=secrets_unreadable)


def _without_secrets(value: dict[str, Json]) -> dict[str, Json]:
    """The object without the members that require secrets."""
    found = {name: item for name, item in value.items() if name != credentials.MEMBER}
    settings = found.get("protocolsettings")
    if isinstance(settings, dict):
        found["protocolsettings"] = {name: item for name, item in settings.items() if name != "x-secretheaders"}
    return found


def renewed(subscription: Subscription, credential: RefreshToken) -> Subscription:
    """The subscription with a renewed token, and with the token's expiry in its document."""
    document = subscription.document
    login = document.get(credentials.MEMBER)
    end = datetime.fromtimestamp(credential.expires // 1000, UTC).isoformat().replace("+00:00", "Z")
    login = {**(login if isinstance(login, dict) else {}), "accesstokenexpiresutc": end}
    return replace(subscription, credential=credential, text=json_text({**document, credentials.MEMBER: login}))
