"""Checks of `pipeline`: a cluster that its jobs can reach, and topics that do not meet in the archive."""

from __future__ import annotations

from collections.abc import Iterator

from policies.checks.subscriptions import NoSuch
from policies.model.kafka import EMBEDDED
from policies.parts.parts import PolicyParts
from policies.text.diagnostics import Diagnostic
from policies.values.archived import shared_addresses


def check_pipeline(parts: PolicyParts, no_such: NoSuch) -> Iterator[Diagnostic]:
    """Mistakes between the keys of `pipeline`, and between them and the rest of the file."""
    if parts.pipeline is not None and parts.pipeline.ok("archive"):
        topics = parts.pipeline.value.archive.topics.items()
        for topic, problem in shared_addresses({topic: address or topic for topic, address in topics}):
            yield Diagnostic(("pipeline", "archive", "topics", topic), problem)
    yield from _cluster(parts, no_such)


def _cluster(parts: PolicyParts, no_such: NoSuch) -> Iterator[Diagnostic]:
    if parts.pipeline is None or not parts.pipeline.ok("kafka") or (name := parts.pipeline.value.kafka) is None:
        return
    loc = "pipeline", "kafka"
    if name not in parts.cluster_names:
        yield no_such(loc, "Kafka cluster", name, parts.cluster_names)
    elif any(part.value.bootstrap == EMBEDDED and part.loc[-1] == name for part in parts.kafka):
        yield Diagnostic(loc, "this cluster is embedded in the gateway, where no job of the pipeline can reach it")
