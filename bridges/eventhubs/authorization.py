"""What the tokens of one connection open, and the links that depend on them.

A link acts for the user of the token that covered it when it attached. It is detached when no token of that user covers
it any more: the token has expired, was replaced by one of another user, or a reload has removed its key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from bridges.eventhubs.tokens import Resource, SasToken, verified
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS, AmqpError
from policies.model.scopes.event_hubs import SharedKey

MOST_TOKENS: Final = 256
"""Tokens of one connection: clients send one for each hub or partition that they use."""
_LONGEST_WAIT: Final = 60.0
"""Seconds until expiries are looked at again: the wall clock may be set, or the machine suspended, meanwhile."""


class ExpiryTimer(Protocol):
    def cancel(self) -> None: ...


class DependentLink(Protocol):
    """A link that needs a token."""

    @property
    def scope(self) -> str: ...
    def end(self, error: AmqpError) -> None: ...


class Authorization:
    """The tokens of one connection."""

    def __init__(
        self,
        keys: Mapping[str, SharedKey],
        now_ms: Callable[[], int],
        call_later: Callable[[float, Callable[[], None]], ExpiryTimer],
    ) -> None:
        self._keys = keys
        self._now_ms: Final = now_ms
        self._call_later: Final = call_later
        self._tokens: Final[dict[Resource, SasToken]] = {}
        self._links: Final[dict[DependentLink, tuple[Resource, str]]] = {}
        self._timer: ExpiryTimer | None = None

    def put(self, text: str, name: str) -> None:
        """Verify and keep a token; raises AmqpError if it is invalid, or one too many."""
        token = verified(text, name, self._keys, self._now_ms())
        self._forget_expired()
        if token.resource not in self._tokens and len(self._tokens) >= MOST_TOKENS:
            text = f"this connection has tokens for {MOST_TOKENS} resources already; use one for the whole event hub"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        self._tokens[token.resource] = token
        self._recheck("the token of this link was replaced by one of another user")

    def user(self, wanted: Resource, presented: str | None = None) -> str:
        """The user whose token opens a resource; `presented` is a token that came with the request.

        Raises:
            AmqpError: UNAUTHORIZED_ACCESS if none does.
        """
        if (user := self._covering(wanted)) is not None:
            return user
        if presented is not None:
            return verified(presented, "/".join(wanted), self._keys, self._now_ms()).key.user
        text = "no token of this connection opens this resource: send one to $cbs first (put-token)"
        raise AmqpError(UNAUTHORIZED_ACCESS, text)

    def depend(self, link: DependentLink, wanted: Resource, user: str) -> None:
        """End the link when no token of `user` covers the resource any more."""
        self._links[link] = wanted, user

    def independent(self, link: DependentLink) -> None:
        """The link has ended."""
        self._links.pop(link, None)

    def renew(self, keys: Mapping[str, SharedKey]) -> None:
        """Use the keys of a reloaded policy; tokens of changed keys are void."""
        self._keys = keys
        for resource, token in list(self._tokens.items()):
            if keys.get(token.key.name) != token.key:
                del self._tokens[resource]
        self._recheck("the key of the token of this link was removed or changed")

    def close(self) -> None:
        """The connection has ended."""
        self._links.clear()
        self._tokens.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _covering(self, wanted: Resource) -> str | None:
        now = self._now_ms()
        for length in range(len(wanted), 0, -1):
            token = self._tokens.get(wanted[:length])
            if token is not None and token.expiry_ms > now:
                return token.key.user
        return None

    def _expired(self) -> None:
        self._timer = None
        self._forget_expired()
        self._recheck("ExpiredToken: the token of this link has expired; send a new one to $cbs")

    def _forget_expired(self) -> None:
        now = self._now_ms()
        for resource, token in list(self._tokens.items()):
            if token.expiry_ms <= now:
                del self._tokens[resource]

    def _recheck(self, why: str) -> None:
        for link, (wanted, user) in list(self._links.items()):
            if self._covering(wanted) != user:
                self._links.pop(link, None)
                link.end(AmqpError(UNAUTHORIZED_ACCESS, why, scope=link.scope))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._tokens:
            first = min(token.expiry_ms for token in self._tokens.values())
            wait = max(0.0, (first - self._now_ms()) / 1000) + 0.001
            self._timer = self._call_later(min(wait, _LONGEST_WAIT), self._expired)
