"""What `send` and `receive` ask of an event stream: a partition, a group, a position and a filter."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import click

from gateway.amqp.codec.types import Described, Long, Symbol, Timestamp, Value

PARTITION: Final = Symbol("event-streams-partition")
GROUP: Final = Symbol("event-streams-consumer-group")
EPOCH: Final = Symbol("event-streams-epoch")


class StreamOptions(NamedTuple):
    """The options of `receive` that concern the source of a link."""

    partition: str | None
    group: str | None
    epoch: int | None
    start: str | None
    sql: str | None
    selector: str | None

    def properties(self) -> Mapping[Symbol, Value] | None:
        """The link properties (ES 4.5)."""
        if self.epoch is not None and self.group is None:
            raise click.UsageError("--epoch needs --group: it is the precedence of a member of a group")
        found: dict[Symbol, Value] = dict(partition_properties(self.partition) or {})
        if self.group is not None:
            found[GROUP] = self.group
        if self.epoch is not None:
            found[EPOCH] = Long(self.epoch)
        return found or None

    def filters(self) -> dict[Symbol, Value] | None:
        """The filter set. Raises click.UsageError for a position that is none."""
        from gateway.filters.parse.filter_set import SELECTOR, SQL
        from gateway.filters.position.event_stream import FILTER_NAME

        found: dict[Symbol, Value] = {}
        if self.start is not None:
            found[Symbol("position")] = Described(Symbol(FILTER_NAME), start_position(self.start))
        if self.sql is not None:
            found[Symbol("filter")] = Described(Symbol(SQL), self.sql)
        if self.selector is not None:
            found[Symbol("selector")] = Described(Symbol(SELECTOR), self.selector)
        return found or None


def partition_properties(partition: str | None) -> dict[Symbol, Value] | None:
    """The link property that binds a link to a partition."""
    return None if partition is None else {PARTITION: Symbol(partition)}


def start_position(text: str) -> dict[Symbol, Value]:
    """`earliest`, `latest`, the offset of the first event, or a time (ES 5). Raises click.UsageError."""
    from gateway.filters.position.event_stream import EARLIEST, LATEST, OFFSET, TIMESTAMP, offset_symbol

    if text in ("earliest", "latest"):
        return {Symbol(OFFSET): Symbol(EARLIEST if text == "earliest" else LATEST)}
    if text.isascii() and text.isdigit():
        first = int(text)
        return {Symbol(OFFSET): Symbol(offset_symbol(first - 1) if first else EARLIEST)}
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"--from {text}: needs earliest, latest, an offset, or a time such as 2026-11-24T08:00:00Z"
        ) from None
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return {Symbol(OFFSET): Symbol(EARLIEST), Symbol(TIMESTAMP): Timestamp(int(aware.timestamp() * 1000) - 1)}
