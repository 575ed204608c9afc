"""`sinkcredential`: the login at a sink; its secrets are accepted, but never returned. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from bridges.cloudevents.model.members import Check, InvalidMember, Members, one_of, text, time_value
from bridges.cloudevents.model.values import (
    AccessToken,
    Json,
    PlainCredential,
    RefreshToken,
    SinkCredential,
    SinkProtocol,
)

MEMBER: Final = "sinkcredential"
SECRET_MEMBERS: Final = ("secret", "accesstoken", "refreshtoken")
"""Members that are stored encrypted and omitted from every answer."""
_LONGEST: Final = 8192
_NEEDED: Final = "the secret has to be given, or given again for another sink"
_TOKENS: Final = frozenset((SinkProtocol.HTTP, SinkProtocol.NATS))
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
Build = Callable[[Members, Mapping[str, str]], SinkCredential]


def credential(members: Members, stored: Mapping[str, str], protocol: SinkProtocol | None) -> SinkCredential | None:
    """Parse the credential; `stored` are the secrets in the store, used for omitted members."""
    builds: dict[str, Build] = {"PLAIN": _plain(protocol)}
    if protocol is None or protocol in _TOKENS:
        builds |= {"ACCESSTOKEN": _access_token, "REFRESHTOKEN": _refresh_token}
    kind = members.require("credentialtype", one_of(*builds), None)
    return None if kind is None else builds[kind](members, stored)


def secrets_of(found: SinkCredential | None) -> dict[str, str]:
    """The secret members of a credential, by name."""
    if isinstance(found, PlainCredential):
        return {"secret": found.secret}
    if isinstance(found, RefreshToken):
        return {"accesstoken": found.token, "refreshtoken": found.refresh_token}
    return {} if found is None else {"accesstoken": found.token}


def _secret(members: Members, name: str, stored: Mapping[str, str], check: Check[str]) -> str:
    """A secret member, or the stored one; no message contains its value."""
    if name not in members and name in stored:
        return stored[name]
    if name not in members:
        members.report(name, _NEEDED)
    return members.take(name, check, "")


def _plain(protocol: SinkProtocol | None) -> Build:
    def build(members: Members, stored: Mapping[str, str]) -> SinkCredential:
        identifier = members.require("identifier", text(256), "")
        if protocol is SinkProtocol.HTTP and ":" in identifier:
            members.report("identifier", "Basic authentication has no user with a colon (RFC 7617)")
        return PlainCredential(identifier, _secret(members, "secret", stored, text(_LONGEST)))

    return build


def _token_text(value: Json) -> str:
    if isinstance(value, str) and len(value) <= _LONGEST and _BEARER.fullmatch(value):
        return value
    raise InvalidMember(f"a bearer token of at most {_LONGEST} characters (RFC 6750)")


def _bearer(value: Json) -> str:
    if isinstance(value, str) and value.lower() == "bearer":
        return value
    raise InvalidMember("only bearer")


def _access_token(members: Members, stored: Mapping[str, str]) -> SinkCredential:
    members.take("accesstokentype", _bearer, None)
    expires = members.require("accesstokenexpiresutc", time_value, 0)
    return AccessToken(_secret(members, "accesstoken", stored, _token_text), expires)


def _refresh_token(members: Members, stored: Mapping[str, str]) -> SinkCredential:
    members.take("accesstokentype", _bearer, None)
    return RefreshToken(
        token=_secret(members, "accesstoken", stored, _token_text),
        expires=members.require("accesstokenexpiresutc", time_value, 0),
        refresh_token=_secret(members, "refreshtoken", stored, text(_LONGEST)),
        endpoint=members.require("refreshtokenendpoint", text(2048), ""),
    )
