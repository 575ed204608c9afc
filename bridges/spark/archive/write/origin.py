"""The origin of an archive's events: logs of Kafka or of event-stream nodes (`kafka_origin`, `amqp_origin`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from bridges.spark.archive.contents.ranges import Log, Range

if TYPE_CHECKING:
    from bridges.spark.archive.write.task import RangeSource


class ArchiveOrigin(Protocol):
    """Source of the events of an archive."""

    def logs(self) -> Iterable[Log]:
        """The current logs."""

    def identities(self, addresses: Collection[str]) -> Mapping[str, str | None]:
        """The identities that the logs of these addresses have now."""

    def source(self) -> RangeSource:
        """A source that reads ranges in the tasks that write them."""

    def holding(self, gaps: Sequence[Range]) -> Iterable[Range]:
        """The ranges among these (without written events) in which the log has an event; reads the log again."""
