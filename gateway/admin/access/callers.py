"""Who uses the admin API, and what they may do."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.model.admin import AdminRole

if TYPE_CHECKING:
    from policies.rules import CompiledPolicy

OPERATE: Final[AdminRole] = "operate"
VIEW: Final[AdminRole] = "view"


class AdminCaller(NamedTuple):
    """Somebody who has proved who they are; `name` is for the audit log."""

    name: str
    role: AdminRole
    browser: bool = False
    """Whether only the cookie of a browser proves it, which the browser adds to the requests of any page."""

    def may(self, role: AdminRole) -> bool:
        """Whether the caller has this role; who may operate may also view."""
        return role == VIEW or self.role == OPERATE


def local_caller(uid: int, own: int) -> AdminCaller | None:
    """The caller at a unix socket, by the user id that the kernel gives: root or the user of the gateway."""
    return AdminCaller(f"uid {uid}", OPERATE) if uid in (0, own) else None


class KnownCallers:
    """The tokens and certificates of a policy. Tokens are compared by their digests, so time tells nothing of them."""

    def __init__(self, tokens: Mapping[str, tuple[bytes, AdminRole]], certificates: Mapping[str, AdminRole]) -> None:
        """`tokens`: by name, the value and the role; `certificates`: the role of each user."""
        self._tokens: Final = {digest_of(value): AdminCaller(f"token {name}", role)
                               for name, (value, role) in tokens.items()}  # fmt: skip
        self._certificates: Final = dict(certificates)

    def of_digest(self, digest: bytes) -> AdminCaller | None:
        """The caller with the token of this digest."""
        return self._tokens.get(digest)

    def of_subject(self, subject: str | None) -> AdminCaller | None:
        """The caller with a trusted client certificate of this user."""
        role = None if subject is None else self._certificates.get(subject)
        return None if role is None else AdminCaller(f"certificate {subject}", role)


def digest_of(token: bytes) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token).digest()


def callers_of(policy: CompiledPolicy) -> KnownCallers:
    """The callers of a policy."""
    admin = policy.model.gateway.admin
    tokens = {name: (policy.secret(token), token.role) for name, token in admin.tokens.items()}
    return KnownCallers(tokens, admin.certificates)
