"""Writes the journal's rows to Kafka, in a task of its own.

While the topic cannot be written, counts continue to add up, so that none is lost, and rows about single messages wait,
up to `buffer` rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from gateway.errors import AmqpError
from gateway.journal.recorder import Journal, JournalRow
from gateway.observability.logs import get_logger

_BEAT: Final = 0.2
"""Seconds between two checks for waiting rows."""
_LOT: Final = 100
"""Rows that are made or written in one turn of the loop."""
log = get_logger("journal")


Done = Callable[[Sequence[JournalRow], str | None], None]


class RowAppender(Protocol):
    """The topic, as the Kafka bridge provides it."""

    async def reach(self) -> None:
        """Return when records can be written; raises AmqpError while they cannot."""

    def append(self, key: bytes, rows: Sequence[JournalRow], done: Done) -> int:
        """Write rows as records of one key; returns the number of rows that there was room for.

        `done` is called once for each of these, with several at a time, and with None or the error.
        """


class JournalWriter:
    """Writes one journal to one topic."""

    def __init__(
        self,
        journal: Journal,
        appender: Callable[[], RowAppender | None],
        flush: Callable[[], None],
        look: Callable[[], Awaitable[None]],
        *,
        key: bytes,
        interval: float,
    ) -> None:
        """`appender`: returns the topic of the present cluster; `flush` collects the counts of links.

        `look` queries the ends of the logs that are read, before rows are made. `interval` is in seconds; records with
        one `key` keep their order.
        """
        self._journal: Final = journal
        self._appender: Final = appender
        self._flush: Final = flush
        self._look: Final = look
        self._key: Final = key
        self._interval: Final = interval
        self._written = 0
        self._under_way = 0
        self._trouble: str | None = None

    def counts(self) -> Iterator[tuple[str, Any, float]]:
        """The counts, for metrics."""
        yield "journal_rows", (("result", "written"),), float(self._written)
        for cause, count in self._journal.lost.items():
            yield "journal_rows", (("result", f"lost: {cause}"),), float(count)

    async def run(self) -> None:
        """Write until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._interval
        while True:
            await asyncio.sleep(min(_BEAT, self._interval))
            if loop.time() >= due:
                due = loop.time() + self._interval
                await self.turn(collect=True)
            elif self._journal.rows:
                await self.turn(collect=False)

    async def turn(self, *, collect: bool) -> None:
        """One round: with `collect`, rows are made of all counts first."""
        appender = self._appender()
        try:
            if appender is None:
                raise AmqpError("", "the policy has no such cluster any more")
            await appender.reach()
        except AmqpError as error:
            self._troubled(error.description)
            return
        await self._write(appender)
        if collect and not self._journal.rows:  # otherwise there may be no room: counts can wait, rows cannot
            await self._look()
            self._flush()
            for number, _ in enumerate(self._journal.collect(), 1):
                if not number % _LOT or len(self._journal.rows) >= self._journal.options.buffer:
                    await self._write(appender)
            await self._write(appender)

    async def _write(self, appender: RowAppender) -> None:
        rows, most = self._journal.rows, self._journal.options.buffer
        await asyncio.sleep(0)
        while rows and self._under_way < most:
            lot = [rows.popleft() for _ in range(min(_LOT, len(rows), most - self._under_way))]
            self._under_way += len(lot)  # delivery may be reported at once
            taken = appender.append(self._key, lot, self._reported)
            if taken < len(lot):
                self._under_way -= len(lot) - taken
                rows.extendleft(reversed(lot[taken:]))
                return
            await asyncio.sleep(0)

    def _reported(self, rows: Sequence[JournalRow], problem: str | None) -> None:
        self._under_way -= len(rows)
        if problem is None:
            self._written += len(rows)
            self._recovered()
            return
        for row in rows:
            self._journal.lose(row)
        self._troubled(problem)

    def _troubled(self, problem: str) -> None:
        if self._trouble is None:
            log.warning("journal not written; traffic goes on", reason=problem)
        self._trouble = problem

    def _recovered(self) -> None:
        if self._trouble is not None:
            self._trouble = None
            log.info("journal written again", lost=sum(self._journal.lost.values()))

    async def close(self, limit: float) -> None:
        """Write the remaining rows, within `limit` seconds."""
        try:
            async with asyncio.timeout(limit):
                await self.turn(collect=True)
        except TimeoutError:
            self._troubled("no time left at the end")
