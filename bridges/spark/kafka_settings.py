"""Translates librdkafka's settings for Java's Kafka client in Spark's source; certificates become text.

The workers of a cluster then need no files of the machine on which a job is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from bridges.spark.errors import PipelineError

_PLAIN: Final = ("bootstrap.servers", "client.id", "security.protocol", "ssl.endpoint.identification.algorithm")
_OURS: Final = ("log_level",)
_LOGIN: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's Kafka source. Raises `PipelineError` for an unknown setting or a missing file."""
    left = {name: value for name, value in settings.items() if name not in _OURS}
    found: dict[str, str] = {name: left.pop(name) for name in _PLAIN if name in left}
    if "security.protocol" in found:
        found["security.protocol"] = found["security.protocol"].upper()
    found |= _certificates(left)
    mechanism = left.pop("sasl.mechanism", None) or left.pop("sasl.mechanisms", None)
    if mechanism is not None:
        found |= _login(mechanism, left.pop("sasl.username", ""), left.pop("sasl.password", ""))
    if left:
        raise PipelineError(f"the archive cannot pass on to Spark's Kafka source: {', '.join(sorted(left))}")
    found["isolation.level"] = "read_committed"
    return {f"kafka.{name}": value for name, value in found.items()}


def _certificates(left: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if (name := left.pop("ssl.ca.location", None)) is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _read(name).decode()}
    if (name := left.pop("ssl.certificate.location", None)) is not None:
        key = _key(left.pop("ssl.key.location", ""), left.pop("ssl.key.password", None))
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": _read(name).decode()}
        found |= {"ssl.keystore.key": key}
    return found


def _read(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise PipelineError(f"{name} cannot be read: {error.strerror}") from None


def _key(name: str, password: str | None) -> str:
    """A private key in PKCS #8, which Java's client requires."""
    data = _read(name)
    try:
        key = load_pem_private_key(data, None if password is None else password.encode())
    except (ValueError, TypeError) as error:
        raise PipelineError(f"{name} is not a readable private key: {error}") from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _login(mechanism: str, user: str, password: str) -> dict[str, str]:
    if mechanism not in _LOGIN:
        raise PipelineError(f"the archive cannot log in to Kafka with {mechanism} (it can: {', '.join(_LOGIN)})")
    user, password = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password))
    login = f'{_LOGIN[mechanism]} required username="{user}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
