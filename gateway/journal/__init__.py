"""The journal of boundary decisions (docs/journal.md): facts with counts, written to a Kafka topic.

Part of the composition root, kept apart from `service`: it puts the journal where links, crossings and refusals tell.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gateway.errors import AmqpError

if TYPE_CHECKING:
    from gateway.journal.readings import LogReading, Readings
    from gateway.journal.writer import JournalWriter, RowAppender
    from gateway.server.gateway import Gateway
    from policies.rules import CompiledPolicy

_LAST: Final = 2.0
"""Seconds that the end of the process waits for the last rows."""
_LOOK: Final = 1.0
"""Seconds that rows wait for the ends of logs; without an answer they are written without them."""


class Journaling:
    """The journal of a process, if its policy has one when it starts."""

    def __init__(self, policy: CompiledPolicy, service: Gateway) -> None:
        self._service: Final = service
        self._pump: JournalWriter | None = None
        self._readings: Readings | None = None
        wanted = policy.model.gateway.journal
        if wanted is None:
            return
        from gateway.journal.recorder import Journal, JournalOptions
        from gateway.journal.rows import Heading
        from gateway.journal.writer import JournalWriter

        heading = Heading(policy.model.gateway.id, secrets.token_hex(8))
        options = JournalOptions(wanted.sample, wanted.filters, wanted.buffer)
        journal = Journal(heading, options, lambda: time.time_ns() // 1_000_000)
        service.world.journal = service.report.journal = journal

        def appender() -> RowAppender | None:
            cluster = service.clusters.get(wanted.kafka)  # a reload may have made it anew
            return None if cluster is None else cluster.appender(wanted.topic)

        key, interval = heading.process.encode(), wanted.interval.seconds
        self._readings = journal.readings
        self._pump = JournalWriter(journal, appender, service.flush, self._look, key=key, interval=interval)

    def start(self) -> None:
        """Write from now on."""
        if self._pump is not None:
            self._service.report.metrics.count_source(self._pump.counts)
            self._service.supervisor.keep(self._pump.run, "journal")

    async def _look(self) -> None:
        """Ask where the logs end that are read: once for each, all links on it share the answer."""
        assert self._readings is not None  # the pump that asks came with it
        found: dict[LogReading, dict[int, int]] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK):
                for log in self._readings.logs():
                    cluster = self._service.clusters.get(log.cluster)
                    if cluster is not None:
                        with suppress(AmqpError):  # its ends are not known this time
                            found[log] = await cluster.ends(log.topic)
        self._readings.ends = found

    async def close(self) -> None:
        """The last rows."""
        if self._pump is not None:
            await self._pump.close(_LAST)
