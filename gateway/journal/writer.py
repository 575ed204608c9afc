"""Takes the journal's rows to Kafka: a task of its own, which waits for nobody and is waited for by nobody.

While the topic cannot be written to, counts go on adding up, so that nothing of them is lost, and rows about single
messages wait up to `buffer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from gateway.errors import AmqpError
from gateway.journal.recorder import Journal, JournalRow
from gateway.observability.logs import get_logger

_BEAT: Final = 0.2
"""Seconds between two looks at rows that wait."""
_LOT: Final = 100
"""Rows that are made or handed over before others have their turn."""
log = get_logger("journal")


Done = Callable[[Sequence[JournalRow], str | None], None]


class RowAppender(Protocol):
    """The topic, as the Kafka bridge gives it."""

    async def reach(self) -> None:
        """Returns when records can be handed over; raises AmqpError while they cannot."""

    def append(self, key: bytes, rows: Sequence[JournalRow], done: Done) -> int:
        """Hand rows over as records of one key; the number of those that there was room for.

        `done` hears of each of these once, several at a time: with None, or what went wrong.
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
        """`appender`: the topic of the cluster as it is now; `flush` lets links hand over what they counted.

        `look` finds out where logs end that are read, before rows are made. `interval` is in seconds; records with one
        `key` keep their order.
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
        """For metrics."""
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
        if collect and not self._journal.rows:  # else there is no room yet: counts can wait, rows cannot
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
            self._under_way += len(lot)  # what is handed over may be reported at once
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
        """What is left, if it can be written within `limit` seconds."""
        try:
            async with asyncio.timeout(limit):
                await self.turn(collect=True)
        except TimeoutError:
            self._troubled("no time left at the end")
