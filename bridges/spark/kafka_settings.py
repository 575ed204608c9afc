"""Settings of Kafka's client that work on any machine: certificates and keys are inline, not file names.

The workers of a cluster then need no files from the machine on which a job is started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Generic, TypeVar

from bridges.spark.errors import PipelineError
from gateway.errors import AmqpError

Client = TypeVar("Client")
_FILES: Final = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}


class RenewedClient(Generic[Client]):
    """A client, and another one when a file of its settings has changed: certificates are renewed, the job goes on."""

    def __init__(self, settings: Mapping[str, str], make: Callable[[Mapping[str, str]], Client]) -> None:
        """`make` raises `AmqpError`. Raises `PipelineError` for a file that cannot be read."""
        self._named: Final = dict(settings)
        self._make: Final = make
        self.settings: Mapping[str, str] = portable_settings(settings)
        """The portable settings of the client."""
        self._client: Client | None = None

    def current(self) -> Client:
        """The client for the present files. Raises `PipelineError`; it may pass, if only one of them is new yet."""
        now = portable_settings(self._named)
        if self._client is None or now != self.settings:
            try:
                self._client = self._make(now)
            except AmqpError as error:
                raise PipelineError(error.description) from error
            self.settings = now
        return self._client


def portable_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings with files inlined. Raises `PipelineError` for a file that cannot be read."""
    return {_FILES.get(name, name): _read(value) if name in _FILES else value for name, value in settings.items()}


def _read(name: str) -> str:
    try:
        return Path(name).read_text()
    except OSError as error:
        raise PipelineError(f"{name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise PipelineError(f"{name} is not a PEM file") from None
