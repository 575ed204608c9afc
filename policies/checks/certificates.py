"""Checks of the gateway's own certificate at a connector, a Kafka cluster or a sink."""

from __future__ import annotations

from collections.abc import Iterator

from policies.model.kafka_security import KafkaTls
from policies.model.scopes.connect import ConnectorTls
from policies.model.scopes.sinks import SinkTls
from policies.text.diagnostics import Diagnostic, Loc


def check_own_certificate(tls: ConnectorTls | KafkaTls | SinkTls, loc: Loc) -> Iterator[Diagnostic]:
    """Mistakes between the keys of the section at `loc`."""
    if (tls.cert is None) != (tls.key is None):
        yield Diagnostic(loc, "cert and key belong together")
    if tls.key_password is not None and tls.key is None:
        yield Diagnostic((*loc, "key_password"), "a password needs a key: set key, or leave this out")
