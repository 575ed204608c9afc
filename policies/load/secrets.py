"""Reads the secrets, user files and certificates that a policy refers to, through functions of the caller."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from policies.model.admin import MIN_TOKEN, AdminToken
from policies.model.gateway import GatewaySection
from policies.model.keys import KeyEntry
from policies.model.scopes.connect import ConnectorTls
from policies.model.scopes.listen import ListenerTls
from policies.model.scopes.sinks import SinkTls
from policies.parts.parts import PolicyParts, ScopeParts
from policies.text.diagnostics import Diagnostic, Loc
from policies.values.base import Secret

ReadBytes = Callable[[Path], bytes]
KEY_BYTES: Final = 32


class SecretError(Exception):
    """A secret that is missing or unusable; the text never contains its value."""


class SecretReader:
    """Reads each secret once; relative paths start at the directory of the policy file."""

    def __init__(self, base: Path, environ: Mapping[str, str], read_bytes: ReadBytes) -> None:
        self._base = base
        self._environ = environ
        self._read = read_bytes
        self.values: dict[Secret, bytes] = {}
        self.digests: dict[str, bytes] = {}

    def secret(self, secret: Secret) -> bytes:
        """The value, without a line end that a file or shell may have added."""
        known = self.values.get(secret.reference)
        if known is None:
            known = self._environment(secret.env) if secret.env else self.file(str(secret.file)).strip()
            _check_text(known, secret.place)
            self.values[secret.reference] = known
        return known

    def _environment(self, name: str) -> bytes:
        value = self._environ.get(name)
        if value is None:
            raise SecretError(f"environment variable {name} is not set")
        return value.strip().encode("utf-8", "surrogateescape")

    def file(self, name: str) -> bytes:
        """The content of a file the policy names."""
        try:
            content = self._read(self._base / name)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise SecretError(f"file {name} cannot be read: {reason or 'no such file'}") from None
        self.digests[name] = hashlib.sha256(content).digest()
        return content


def _check_text(value: bytes, place: str) -> None:
    if not value:
        raise SecretError(f"{place} is empty")
    try:
        value.decode()
    except UnicodeDecodeError:
        raise SecretError(f"{place} is not UTF-8 text") from None


def signing_key(text: bytes) -> bytes:
    """A signing key from its text form, base64url of at least 32 bytes (`scopegate keys new`)."""
    try:
        key = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < KEY_BYTES:
        raise SecretError(f"not base64url of {KEY_BYTES} or more bytes; make one with `scopegate keys new`")
    return key


_FEW: Final = 8


def guessable(key: bytes) -> bool:
    """Whether a key has so few different bytes that it cannot be random."""
    return len(set(key)) < _FEW


def check_token(token: bytes) -> None:
    """Refuse a token that can be guessed. Raises SecretError."""
    if len(token) < MIN_TOKEN or guessable(token) or not token.isascii() or b" " in token:
        text = f"not {MIN_TOKEN} or more random characters of ASCII without spaces"
        raise SecretError(f"{text}; make one with `scopegate keys new`")


def check_secrets(parts: PolicyParts, reader: SecretReader) -> Iterator[Diagnostic]:
    """Every secret and file of the policy that is missing or unusable."""
    for loc, secret in _secrets(parts):
        try:
            value = reader.secret(secret)
            if isinstance(secret, KeyEntry) and guessable(signing_key(value)):
                what = "is not random: an attacker who guesses it can forge response addresses"
                yield Diagnostic(loc, f"the key {what}; make one with `scopegate keys new`", warning=True)
            if isinstance(secret, AdminToken):
                check_token(value)
        except SecretError as error:
            yield Diagnostic(loc, str(error))
    for loc, name in _files(parts):
        try:
            reader.file(name)
        except SecretError as error:
            yield Diagnostic(loc, str(error))


def _secrets(parts: PolicyParts) -> Iterator[tuple[Loc, Secret]]:
    yield from ((entry.loc, entry.value) for entry in parts.ring if entry.ok("env", "file"))
    yield from ((part.loc, part.value) for part in parts.settings if isinstance(part.value, Secret))
    for cluster in parts.kafka:
        if cluster.value.security is not None:
            yield from (((*cluster.loc, "security", *keys), secret) for keys, secret in cluster.value.security.secrets)
    if (gateway := _admin(parts)) is not None:
        admin = gateway.admin
        yield from ((("gateway", "admin", "tokens", name), token) for name, token in admin.tokens.items())
        if admin.tls is not None and admin.tls.key_password is not None:
            yield ("gateway", "admin", "tls", "key_password"), admin.tls.key_password
    for scope in parts.scopes:
        yield from _key_passwords(scope)
        for connector in scope.connect:
            if connector.value.sasl.password is not None:
                yield (*connector.loc, "sasl", "password"), connector.value.sasl.password
        for listener in scope.listen:
            if (hubs := listener.value.event_hubs) is not None:
                yield from (((*listener.loc, "event_hubs", "keys", at), key) for at, key in enumerate(hubs.keys))
        for manager in scope.subscriptions:
            for at, entry in enumerate(manager.value.oauth):
                if entry.secret is not None:
                    yield (*manager.loc, "oauth", at, "secret"), entry.secret


def _files(parts: PolicyParts) -> Iterator[tuple[Loc, str]]:
    for cluster in parts.kafka:
        if cluster.value.security is not None:
            yield from (((*cluster.loc, "security", *keys), name) for keys, name in cluster.value.security.files)
    if (gateway := _admin(parts)) is not None:
        loc = "gateway", "admin", "tls"
        yield from (((*loc, key), name) for key, name in _certificates(gateway.admin.tls))
    for scope in parts.scopes:
        yield from _scope_files(scope)


def _admin(parts: PolicyParts) -> GatewaySection | None:
    """The section with a valid `admin`."""
    return None if parts.gateway is None or not parts.gateway.ok("admin") else parts.gateway.value


def _scope_files(scope: ScopeParts) -> Iterator[tuple[Loc, str]]:
    listeners = [(part.loc, part.value.users) for part in scope.listen]
    for loc, users in (*listeners, *((part.loc, part.value.users) for part in scope.api)):
        if users is not None:
            yield (*loc, "users"), users
    for loc, tls in _tls_sections(scope):
        yield from (((*loc, key), name) for key, name in _certificates(tls))


def _key_passwords(scope: ScopeParts) -> Iterator[tuple[Loc, Secret]]:
    for loc, tls in _tls_sections(scope):
        if tls.key_password is not None:
            yield (*loc, "key_password"), tls.key_password


def _tls_sections(scope: ScopeParts) -> Iterator[tuple[Loc, ListenerTls | ConnectorTls | SinkTls]]:
    """The sections of a scope that name certificates."""
    sections: list[tuple[Loc, ListenerTls | ConnectorTls | None]] = [
        *((part.loc, part.value.tls) for part in scope.listen),
        *((part.loc, part.value.tls) for part in scope.api),
        *((part.loc, part.value.tls) for part in scope.connect),
    ]
    for loc, tls in sections:
        if tls is not None:
            yield (*loc, "tls"), tls
    for manager in scope.subscriptions:
        for key in ("sinks", "oauth"):
            for at, entry in enumerate(getattr(manager.value, key)):
                if entry.tls is not None:
                    yield (*manager.loc, key, at, "tls"), entry.tls


def _certificates(tls: object) -> Iterator[tuple[str, str]]:
    """The files of a TLS section; none without a section."""
    for key in ("ca", "cert", "key", "client_ca"):
        if (name := getattr(tls, key, None)) is not None:
            yield key, name
