"""A connection for work with pauses: between two batches Spark may compute for longer than the peer's idle time-out."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Protocol

from gateway.client.blocking import BlockingClient, Credentials
from gateway.errors import AmqpError
from policies.values.units import Endpoint


class Peer(Protocol):
    """Where to connect, and with which credentials."""

    @property
    def endpoint(self) -> Endpoint: ...
    def credentials(self) -> Credentials: ...


class ReconnectingClient:
    """Connects when its client is first needed, and again after the client was idle for too long.

    For use in a `with` statement.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer: Final = peer
        self._client: BlockingClient | None = None

    def client(self) -> BlockingClient:
        """A client that can be used now; if it is a new one, the links of the former one are gone.

        Raises `AmqpError` and `PipelineError`.
        """
        if self._client is not None and _gone(self._client):
            self._leave()
        if self._client is None:
            self._client = BlockingClient(self._peer.endpoint, self._peer.credentials()).__enter__()
        return self._client

    def _leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.__exit__(None, None, None)

    def __enter__(self) -> ReconnectingClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()


def _gone(client: BlockingClient) -> bool:
    try:
        return client.silent
    except AmqpError:  # the links of the client raise this error
        return False
