"""Settings of Kafka's client that work on any machine: certificates and keys are inline, not file names.

The workers of a cluster then need no files from the machine on which a job is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bridges.spark.errors import PipelineError

_FILES: Final = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}


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
