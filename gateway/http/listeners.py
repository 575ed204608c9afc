"""The `api` listeners of a running gateway, and the applications of each scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from gateway.http.gate import Application

if TYPE_CHECKING:
    from gateway.config.credential_files import CredentialFiles
    from gateway.http.listener import ApiListener
    from policies.model.scopes.api import ApiSection
    from policies.rules import CompiledPolicy

_Key = tuple[str, str, bool]
"""Scope, address, and whether the listener uses TLS."""


class ApiListeners:
    """The listeners of all scopes; `unbound` has the error of each port that could not be bound."""

    def __init__(self, make: Callable[[str, ApiSection, Callable[[], Mapping[str, Application]]], ApiListener]) -> None:
        self._make: Final = make
        self._serving: Final[dict[_Key, ApiListener]] = {}
        self._mounted: Final[dict[str, dict[str, Application]]] = {}
        self.unbound: Final[dict[_Key, OSError]] = {}

    def mount(self, applications: Iterable[tuple[str, str, Application]]) -> None:
        """Mount these applications, each given with its scope and path, and remove all others."""
        self._mounted.clear()
        for scope, path, application in applications:
            self._mounted.setdefault(scope, {})[path] = application

    async def install(self, policy: CompiledPolicy, credentials: CredentialFiles) -> None:
        """Open and close listeners as the policy requires; if a port cannot be bound, the others still open."""
        wanted = {
            (name, str(model.bind), model.tls is not None): model
            for name, scope in policy.model.scopes.items()
            for model in scope.api
        }
        self.unbound.clear()
        for key in self._serving.keys() - wanted.keys():
            await self._serving.pop(key).close()
        for key, model in wanted.items():
            await self._install(key, model, credentials)

    async def _install(self, key: _Key, model: ApiSection, credentials: CredentialFiles) -> None:
        scope = key[0]
        listener = self._serving.get(key) or self._make(scope, model, lambda: self._mounted.get(scope, {}))
        listener.renew(model, credentials.users_of(model), credentials.servers.get(model))
        if key in self._serving:
            return
        try:
            await listener.start()
        except OSError as error:
            self.unbound[key] = error
        else:
            self._serving[key] = listener

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`."""
        if self.unbound:
            return False, "; ".join(f"{key[1]}: {error}" for key, error in self.unbound.items())
        return True, ", ".join(each.bound for each in self._serving.values()) or "none"

    async def close(self) -> None:
        """Accept no more requests, and end those in progress."""
        for listener in self._serving.values():
            await listener.close()
