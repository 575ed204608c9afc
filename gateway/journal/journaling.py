"""The journal of one process: its table, and the task that writes it to the policy's topic.

The other modules are imported only if the policy has a journal.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from gateway.errors import AmqpError

if TYPE_CHECKING:
    from gateway.journal.readings import LogReading, Readings
    from gateway.journal.recorder import Journal
    from gateway.journal.writer import JournalWriter, RowAppender
    from gateway.observability.metrics import Metrics
    from gateway.tasks import Supervisor
    from policies.model.journal import JournalSection

_LAST: Final = 2.0
"""Seconds that shutdown waits for the last rows."""
_LOOK: Final = 1.0
"""Seconds that rows wait for the ends of logs; without an answer they are written without them."""


class JournalCluster(Protocol):
    """What the journal uses of a Kafka cluster."""

    def appender(self, topic: str) -> RowAppender: ...
    async def ends(self, topic: str) -> dict[int, int]: ...


class Journaling:
    """The journal of a process, if its policy has one when it starts; `journal` is its table."""

    def __init__(
        self,
        section: JournalSection | None,
        gateway: str,
        clusters: Mapping[str, JournalCluster],
        flush: Callable[[], None],
    ) -> None:
        """`section`: the policy's settings; None: no journal. `flush` collects the counts of links."""
        self.journal: Journal | None = None
        self._clusters: Final = clusters
        self._writer: JournalWriter | None = None
        self._readings: Readings | None = None
        if section is not None:
            self._make(section, gateway, flush)

    def _make(self, section: JournalSection, gateway: str, flush: Callable[[], None]) -> None:
        from gateway.journal.link_counts import JournalOptions
        from gateway.journal.recorder import Journal
        from gateway.journal.rows import Heading
        from gateway.journal.writer import JournalWriter

        heading = Heading(gateway, secrets.token_hex(8))
        options = JournalOptions(section.sample, section.filters, section.buffer)
        self.journal = journal = Journal(heading, options, lambda: time.time_ns() // 1_000_000)

        def appender() -> RowAppender | None:
            cluster = self._clusters.get(section.kafka)  # a reload may have replaced it
            return None if cluster is None else cluster.appender(section.topic)

        key, interval = heading.process.encode(), section.interval.seconds
        self._readings = journal.readings
        self._writer = JournalWriter(journal, appender, flush, self._look, key=key, interval=interval)

    def start(self, metrics: Metrics, supervisor: Supervisor) -> None:
        """Start writing."""
        if self._writer is not None:
            metrics.count_source(self._writer.counts)
            supervisor.keep(self._writer.run, "journal")

    async def _look(self) -> None:
        """Query the ends of the logs that are read, once for each log."""
        assert self._readings is not None  # set together with the writer
        found: dict[LogReading, dict[int, int]] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK):
                for log in self._readings.logs():
                    cluster = self._clusters.get(log.cluster)
                    if cluster is not None:
                        with suppress(AmqpError):  # its ends stay unknown this time
                            found[log] = await cluster.ends(log.topic)
        self._readings.ends = found

    async def close(self) -> None:
        """Write the last rows, for at most two seconds."""
        if self._writer is not None:
            await self._writer.close(_LAST)
