"""A connection for work with pauses: Spark may compute for longer, between two batches, than a peer bears silence."""

from __future__ import annotations

from types import TracebackType
from typing import Final

from bridges.spark.amqp.client import BlockingClient
from bridges.spark.datasource.options import PeerOptions
from gateway.errors import AmqpError


class ReconnectingClient:
    """Connects when it is first asked for its client, and anew where the last one was silent for too long.

    For use in a `with` statement.
    """

    def __init__(self, peer: PeerOptions) -> None:
        self._peer: Final = peer
        self._client: BlockingClient | None = None

    def client(self) -> BlockingClient:
        """One that can be used now: if it is another one than before, the links of that are gone.

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
    except AmqpError:  # what ended it is said to who uses its links
        return False
