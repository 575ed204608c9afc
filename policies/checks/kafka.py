"""Checks of one Kafka cluster: reserved settings, what mechanisms need, passwords on unencrypted connections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policies.checks.certificates import check_own_certificate
from policies.model.kafka import EMBEDDED, RESERVED_SETTINGS, SECRET_SETTINGS, KafkaCluster
from policies.model.kafka_security import OAUTH, SECURITY_SETTINGS, KafkaSecurity
from policies.parts.parts import PolicyPart
from policies.text.diagnostics import Diagnostic, Loc
from policies.values.base import Secret
from policies.values.patterns import Template

_TOPIC_LENGTH: Final = 249


def check_setting(part: PolicyPart[Secret | str]) -> Iterator[Diagnostic]:
    """Mistakes in one of librdkafka's settings."""
    name = str(part.loc[-1])
    if name in RESERVED_SETTINGS or name.startswith("test.mock."):
        yield Diagnostic(part.loc, "reserved: the gateway's guarantees depend on this setting", at_key=True)
    elif name in SECRET_SETTINGS and isinstance(part.value, str):
        yield Diagnostic(part.loc, "a secret is never written into the policy; use {env: NAME} or {file: path}")


def check_topic(loc: Loc, topic: Template) -> Iterator[Diagnostic]:
    """The mistake of a topic's name, or of its text around captures, that Kafka does not allow."""
    literal = "".join(topic.parts[::2])
    if re.fullmatch("[A-Za-z0-9._-]*", literal) is None or len(literal) > _TOPIC_LENGTH or topic.text in (".", ".."):
        text = f"Kafka allows no topic {topic.text}: names have letters, digits, _, . and -, at most {_TOPIC_LENGTH}"
        yield Diagnostic(loc, f'{text}, and are not "." or ".."')


def check_cluster(part: PolicyPart[KafkaCluster]) -> Iterator[Diagnostic]:
    """Mistakes between the keys of one cluster."""
    cluster, loc = part.value, part.loc
    if cluster.topics and cluster.bootstrap != EMBEDDED:
        yield Diagnostic((*loc, "topics"), "topics are created only in an embedded cluster", at_key=True)
    for name in sorted({".", ".."} & set(cluster.topics)):
        yield Diagnostic((*loc, "topics", name), "Kafka allows no topic of this name", at_key=True)
    if cluster.security is None or not part.ok("security"):
        return
    if cluster.bootstrap == EMBEDDED and part.ok("bootstrap"):
        yield Diagnostic((*loc, "security"), "not available for the embedded cluster: set bootstrap", at_key=True)
    for name in cluster.client:
        if name in SECURITY_SETTINGS:
            text = "security of this cluster sets this, too; set it in one place"
            yield Diagnostic((*loc, "client", name), text, at_key=True)
    yield from _tls(cluster.security, (*loc, "security", "tls"))
    yield from _sasl(cluster.security, (*loc, "security", "sasl"))


def _tls(security: KafkaSecurity, loc: Loc) -> Iterator[Diagnostic]:
    if security.tls is not None:
        yield from check_own_certificate(security.tls, loc)


def _sasl(security: KafkaSecurity, loc: Loc) -> Iterator[Diagnostic]:
    sasl = security.sasl
    if sasl is None:
        return
    wanted = ("user", "password", "token_url") if sasl.mechanism == OAUTH else ("user", "password")
    for key in wanted:
        if getattr(sasl, key) is None:
            what = {"user": " (the client id)", "password": " (the client secret)"}.get(key, "")
            yield Diagnostic(loc, f"{sasl.mechanism} needs {key}{what if sasl.mechanism == OAUTH else ''}")
    if sasl.mechanism != OAUTH:
        for key in ("token_url", "scope"):
            if getattr(sasl, key) is not None:
                yield Diagnostic((*loc, key), f"{sasl.mechanism} fetches no token; only oauthbearer does")
    if sasl.mechanism in ("PLAIN", OAUTH) and security.tls is None and not security.allow_plain_without_tls:
        yield Diagnostic(loc, f"{sasl.mechanism} needs tls, or allow_plain_without_tls: true")
