"""The handshake of an accepted connection before the engine: protocol header, then SASL."""

from __future__ import annotations

from collections.abc import Callable

from gateway.amqp.sasl.server import SaslServer
from gateway.amqp.transport.protocol_header import Protocol, ProtocolHeader


class ServerHandshake:
    """An accepted connection until it may speak AMQP: `done` with `user` and `rest`, or `failed` with `reason`."""

    def __init__(self, *, plain_amqp: bool, make_sasl: Callable[[], SaslServer]) -> None:
        self._greeting = ProtocolHeader(plain_amqp=plain_amqp)
        self._make_sasl = make_sasl
        self._sasl: SaslServer | None = None
        self._plain = False

    def receive(self, data: bytes) -> None:
        if self._sasl is not None:
            self._sasl.receive(data)
            return
        self._greeting.receive(data)
        if self._greeting.speaks is Protocol.SASL:
            self._sasl = self._make_sasl()
            if rest := self._greeting.rest:
                self._sasl.receive(rest)
        elif self._greeting.speaks is Protocol.AMQP:
            self._plain = True

    def take(self) -> bytes:
        return self._greeting.take() + (self._sasl.take() if self._sasl is not None else b"")

    @property
    def check(self) -> Callable[[], bool] | None:
        """A password check to run outside the event loop; then call `checked`."""
        return None if self._sasl is None else self._sasl.check

    def checked(self, passes: bool) -> None:
        """The result of the check."""
        assert self._sasl is not None
        self._sasl.checked(passes)

    @property
    def mechanism(self) -> str:
        """The SASL mechanism by which the client logged in; ANONYMOUS without SASL."""
        return "ANONYMOUS" if self._sasl is None else self._sasl.mechanism

    @property
    def done(self) -> bool:
        return self._plain or (self._sasl is not None and self._sasl.done)

    @property
    def failed(self) -> bool:
        return self._greeting.failed or (self._sasl is not None and self._sasl.failed)

    @property
    def reason(self) -> str:
        return self._greeting.reason if self._sasl is None else self._sasl.reason

    @property
    def claimed(self) -> str | None:
        """The user name of a failed login, as the client gave it; None: SASL has not begun."""
        return None if self._sasl is None else self._sasl.claimed

    @property
    def user(self) -> str:
        return self._sasl.user if self._sasl is not None else "anonymous"

    @property
    def rest(self) -> bytes:
        return self._greeting.rest if self._sasl is None else self._sasl.rest
