"""The journal of boundary decisions (docs/journal.md): facts with counts, written to a Kafka topic.

Part of the composition root, kept apart from `service`: it puts the journal where links, crossings and refusals tell.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

from gateway.journal.facts import Heading
from gateway.journal.journal import Journal, Options
from gateway.journal.pump import Appender, Pump

if TYPE_CHECKING:
    from gateway.service import Service
    from policies.rules import CompiledPolicy

_LAST: Final = 2.0
"""Seconds that the end of the process waits for the last rows."""


class Journaling:
    """The journal of a process, if its policy has one when it starts."""

    def __init__(self, policy: CompiledPolicy, service: Service) -> None:
        self._service: Final = service
        self._pump: Pump | None = None
        wanted = policy.model.gateway.journal
        if wanted is None:
            return
        heading = Heading(policy.model.gateway.id, secrets.token_hex(8))
        options = Options(wanted.sample, wanted.filters, wanted.buffer)
        journal = Journal(heading, options, lambda: time.time_ns() // 1_000_000)
        service.world.journal = service.report.journal = journal

        def appender() -> Appender | None:
            cluster = service.clusters.get(wanted.kafka)  # a reload may have made it anew
            return None if cluster is None else cluster.appender(wanted.topic)

        key, interval = heading.process.encode(), wanted.interval.seconds
        self._pump = Pump(journal, appender, service.flush, key=key, interval=interval)

    def start(self) -> None:
        """Write from now on."""
        if self._pump is not None:
            self._service.report.metrics.count_source(self._pump.counts)
            self._service.supervisor.start(self._pump.run(), "journal")

    async def close(self) -> None:
        """The last rows."""
        if self._pump is not None:
            await self._pump.close(_LAST)
