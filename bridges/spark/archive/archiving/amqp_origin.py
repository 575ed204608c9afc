"""An event-stream node as an origin of the archive: the data source reads the offsets that the node's `$info` gives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from bridges.spark.archive.contents.decode import with_record
from bridges.spark.archive.contents.ranges import Log, Range
from bridges.spark.archive.write.task import ArchiveBatch
from bridges.spark.columns.schema import COLUMNS
from bridges.spark.datasource import plan, read
from bridges.spark.datasource.options import ReadOptions, read_options
from bridges.spark.datasource.plan import fetch_current_info, first_offsets
from bridges.spark.errors import PipelineError
from gateway.client.reconnecting import ReconnectingClient
from gateway.errors import AmqpError


class AmqpOrigin:
    """One node, under an address of the archive."""

    def __init__(self, options: Mapping[str, str], name: str) -> None:
        """`options` are those of the data source; `name` is the address in the archive. Raises `PipelineError`."""
        self._options: Final = _for_archive(read_options(options))
        self._name: Final = name

    def logs(self) -> Iterator[Log]:
        """The node's offsets, without empty partitions whose next offset the node does not give."""
        found = fetch_current_info(self._options)
        bounds = {each: (at.low, at.high) for each, at in found.bounds.items() if at.known}
        yield Log(self._name, found.log, bounds, first_offsets(self._options, found.bounds))

    def identities(self, addresses: Collection[str]) -> dict[str, str | None]:
        """See `ArchiveOrigin`."""
        return {self._name: fetch_current_info(self._options).log} if self._name in addresses else {}

    def holding(self, gaps: Sequence[Range]) -> Iterator[Range]:
        """The ranges among these in which the node has an event; the driver reads them on its own link."""
        if not gaps:
            return
        try:
            with ReconnectingClient(self._options) as connection:
                for each in gaps:
                    wanted = plan.OffsetRange(each.partition, each.start, each.end)
                    if any(len(batch) for batch in read.events(connection, self._options, wanted)):
                        yield each
        except AmqpError as error:
            raise PipelineError(plan.error_text(self._options, error)) from None

    def source(self) -> AmqpSource:
        """A source that reads the node in a task."""
        return AmqpSource(self._options)


class AmqpSource:
    """Reads ranges of a node over AMQP, in a task of Spark; the `record` of its rows is null."""

    def __init__(self, options: ReadOptions) -> None:
        self._options: Final = options

    def batches(self, ranges: Sequence[Range]) -> Iterator[ArchiveBatch]:
        """The events of these ranges. Raises `PipelineError`."""
        (address,) = {each.address for each in ranges}
        (log,) = {each.identity for each in ranges}
        spans = tuple(plan.OffsetRange(each.partition, each.start, each.end) for each in ranges)
        for batch in read.read(self._options, plan.ReadTask(spans, log)):
            yield ArchiveBatch(address, with_record(batch))


def _for_archive(options: ReadOptions) -> ReadOptions:
    """The options. Raises `PipelineError` for those with which an archive would lack rows, or columns of its files."""
    if options.columns != tuple(COLUMNS):
        raise PipelineError("an archive has all columns: leave the option columns out")
    if not options.fail_on_loss:
        raise PipelineError("use --no-fail-on-data-loss, which records the gap, instead of the option failOnDataLoss")
    if options.ending != "latest" or options.ending_time is not None:
        raise PipelineError("an archive reads to the end: leave endingOffsets and endingTimestamp out")
    return options
