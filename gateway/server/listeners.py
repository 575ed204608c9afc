"""The listeners of a running gateway: those of the policy, those that were replaced and still have connections."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gateway.errors import CONNECTION_FORCED, AmqpError
from gateway.server.listener import Listener
from gateway.server.listener_settings import Settings
from gateway.server.logins import Logins
from gateway.server.quota import Quota, Quotas

if TYPE_CHECKING:
    from gateway.amqp.transport.connection import Connection
    from gateway.config.credential_files import CredentialFiles
    from gateway.nodes.scope import Scope
    from gateway.observability.link_events import LinkEvents

MakeListener = Callable[[Settings, "CredentialFiles", Logins, Quota], Listener]


class Listeners:
    """The listeners that are `serving`, by settings, and the `unbound` ones, with the error of each."""

    def __init__(self, make: MakeListener, report: LinkEvents) -> None:
        self._make: Final = make
        self._report: Final = report
        self._logins: Final = Logins()
        self._quotas: Final = Quotas()
        self.serving: Final[dict[Settings, Listener]] = {}
        self.retired: list[Listener] = []
        self.unbound: Final[dict[Settings, Exception]] = {}
        self._credentials: CredentialFiles | None = None

    def __iter__(self) -> Iterator[Listener]:
        """Every listener that may have connections."""
        yield from [*self.serving.values(), *self.retired]

    def connections(self) -> Iterator[Connection]:
        """Every connection of a listener."""
        for listener in self:
            yield from list(listener.connections)

    async def install(
        self, wanted: Iterable[Settings], credentials: CredentialFiles, scopes: Mapping[str, Scope]
    ) -> None:
        """Listen as the policy says; a port that cannot be bound goes into `unbound`, and the others are served."""
        settings = list(wanted)
        self._logins.install(settings, credentials)
        self._credentials = credentials
        free = self._retire(settings, scopes)
        for gone in set(self.unbound) - set(settings):
            del self.unbound[gone]
        for each in settings:
            inherited = [] if each in self.serving else free.pop(str(each.model.bind), [])
            try:
                await self._install(each, credentials, inherited)
                self.unbound.pop(each, None)  # not before: until then `/readyz` would call it bound
            except Exception as error:  # one port in use must not keep the others from being served
                self._failed(each, error)
                for kept in inherited:
                    kept.close()

    def _failed(self, settings: Settings, error: Exception) -> None:
        self.unbound[settings] = error
        if not isinstance(error, OSError):
            self._report.task_failed("listener", error)
        bind = str(settings.model.bind)
        self._report.log.error("cannot listen", scope=settings.scope, bind=bind, error=str(error))

    async def retry_unbound(self) -> None:
        """Try again to bind the ports that a reload could not bind."""
        for settings in list(self.unbound):
            assert self._credentials is not None  # set by the install that failed
            with suppress(Exception):  # `install` has logged it, and later reloads must still work
                await self._install(settings, self._credentials)
                self.unbound.pop(settings, None)

    def _retire(self, wanted: list[Settings], scopes: Mapping[str, Scope]) -> dict[str, list[socket.socket]]:
        """Stop the listeners that are not wanted; returns the sockets of addresses that are, for other listeners."""
        binds = {str(each.model.bind) for each in wanted if each.model.bind.port}
        free = dict[str, list[socket.socket]]()
        for settings in set(self.serving) - set(wanted):
            listener = self.serving.pop(settings)
            bind = str(settings.model.bind)
            if bind in binds:
                free[bind] = listener.listening_sockets()
            listener.stop()
            self.retired.append(listener)
        self.retired = [listener for listener in self.retired if listener.busy]
        self._renew_retired_keys(wanted)
        for listener in self.retired:
            if listener.settings.scope not in scopes:
                listener.close(AmqpError(CONNECTION_FORCED, "the scope was removed from the policy"))
        self._quotas.keep(_place(each) for each in [*wanted, *(listener.settings for listener in self.retired)])
        return free

    def _renew_retired_keys(self, wanted: list[Settings]) -> None:
        """Connections of a replaced listener stay with the keys that its place has now."""
        assert self._credentials is not None
        keys = {_place(each): self._credentials.keys_of(each.model) for each in wanted}
        for listener in self.retired:
            listener.renew_keys(keys.get(_place(listener.settings), ()))

    async def _install(
        self, settings: Settings, credentials: CredentialFiles, inherited: Sequence[socket.socket] = ()
    ) -> None:
        """`inherited`: the sockets that listen at the address, of a listener with other settings."""
        model = settings.model
        quota = self._quotas.of(*_place(settings), model.limits)
        if (listener := self.serving.get(settings)) is not None:
            listener.renew(credentials.users_of(model), credentials.servers.get(model))
            listener.renew_keys(credentials.keys_of(model))
            return
        listener = self._make(settings, credentials, self._logins, quota)
        await listener.start(inherited)
        self.serving[settings] = listener

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`."""
        if self.unbound:
            return False, f"cannot listen at {', '.join(str(each.model.bind) for each in self.unbound)}"
        return all(each.listening for each in self.serving.values()), ""


def _place(settings: Settings) -> tuple[str, str]:
    return settings.scope, str(settings.model.bind)
