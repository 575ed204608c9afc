"""Plans which offsets of an event-stream node a query reads (docs/pipeline.md, "Data source").

`$info` (Event Stream Extensions 6) gives the bounds; the peer's time filter finds the first event at or after a time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql.datasource import InputPartition

from bridges.spark.datasource.options import ReadOptions
from bridges.spark.errors import PipelineError
from gateway.amqp.codec.codec import Described, Symbol, Timestamp
from gateway.amqp.codec.types import Value
from gateway.amqp.message import sections
from gateway.client.blocking import WINDOW, BlockingClient
from gateway.client.links import BlockingReceiver
from gateway.errors import AmqpError
from gateway.filters.parse.filter_set import SQL
from gateway.filters.position.event_stream import EARLIEST, FILTER_NAME, OFFSET, TIMESTAMP, offset_symbol

INFO: Final = "/$info"
LOG_ID: Final = "log-id"
NEXT: Final = "next-offset"
CURRENT: Final = "current"
PARTITION: Final = "event-streams-partition"
_PATIENCE: Final = 10.0
_TRIES, _PAUSE = 3, 1.0
"""Number of attempts while a node cannot reach its log, and the pause between them in seconds."""
_log: Final = logging.getLogger("scopegate.pipeline")


class OffsetBounds(NamedTuple):
    """The offsets of a partition, [low, high). `known` is false if it is empty and the peer gives no next offset."""

    low: int
    high: int
    known: bool = True


class NodeInfo(NamedTuple):
    """The `$info` of an event-stream node; `log` is the identity of its log, if it has one."""

    bounds: dict[int, OffsetBounds]
    log: str | None = None
    current: bool = True
    """Whether the node can reach its log; if not, the offsets are the last known ones."""


class OffsetRange(NamedTuple):
    """Offsets [start, end) of a partition."""

    partition: int
    start: int
    end: int


@dataclass
class ReadTask(InputPartition):
    """The ranges of one task, and the identity of their log."""

    ranges: tuple[OffsetRange, ...]
    log: str | None = None


# -- reading $info


def fetch_info(options: ReadOptions) -> NodeInfo:
    """The node's `$info`. Raises `PipelineError`."""
    try:
        with BlockingClient(options.endpoint, options.credentials()) as client:
            return read_info(client, options)
    except AmqpError as error:
        raise PipelineError(error_text(options, error)) from None


def fetch_current_info(options: ReadOptions) -> NodeInfo:
    """The node's `$info`, once it can reach its log. Raises `PipelineError`."""
    try:
        with BlockingClient(options.endpoint, options.credentials()) as client:
            return read_current_info(client, options)
    except AmqpError as error:
        raise PipelineError(error_text(options, error)) from None


def read_current_info(client: BlockingClient, options: ReadOptions) -> NodeInfo:
    """The node's `$info` once it can reach its log. Raises `PipelineError` after some attempts, and `AmqpError`."""
    for _ in range(_TRIES):
        if (found := read_info(client, options)).current:
            return found
        client.wait(lambda: False, _PAUSE)
    raise PipelineError(f"{node_name(options)} cannot reach its log at the moment: try again later")


def read_info(client: BlockingClient, options: ReadOptions) -> NodeInfo:
    """Read the node's `$info` on an open connection. Raises `PipelineError` and `AmqpError`."""
    receiver = client.receiver(options.address + INFO, window=1)
    found = receiver.take(1, _PATIENCE)
    receiver.close()
    if not found:
        raise PipelineError(f"{node_name(options)} does not describe its contents ({INFO})")
    return parse_info(options, found[0])


def parse_info(options: ReadOptions, data: bytes) -> NodeInfo:
    """Parse a message of `$info`. Raises `PipelineError` if it is not one, or if offsets are not numbers."""
    try:
        (body,) = sections.body_values(data, sections.walk(data))
        log = body.get(LOG_ID)
        bounds = {int(each["partition"]): _bounds_of(each) for each in body["partitions"]}
        return NodeInfo(bounds, None if log is None else str(log), body.get(CURRENT) is not False)
    except (AmqpError, ValueError, TypeError, KeyError, AttributeError):
        text = f"{node_name(options)} is not an event stream with numeric offsets"
        raise PipelineError(text) from None


def _bounds_of(entry: Mapping[str, Value]) -> OffsetBounds:
    earliest, latest, following = entry["earliest-offset"], entry["latest-offset"], entry.get(NEXT)
    if latest is not None:
        return OffsetBounds(int(earliest), int(latest) + 1)
    return OffsetBounds(0, 0, False) if following is None else OffsetBounds(int(following), int(following))


def since(options: ReadOptions, bounds: Mapping[int, OffsetBounds], time_ms: int) -> dict[int, int]:
    """The offset of the first event of each partition at or after a time; its end if there is none."""
    try:
        with BlockingClient(options.endpoint, options.credentials()) as client:
            return {partition: _since(client, options, partition, at, time_ms) for partition, at in bounds.items()}
    except AmqpError as error:
        raise PipelineError(error_text(options, error)) from None


def _since(client: BlockingClient, options: ReadOptions, partition: int, bounds: OffsetBounds, time_ms: int) -> int:
    if bounds.low == bounds.high:
        return bounds.high
    position = {Symbol(OFFSET): Symbol(EARLIEST), Symbol(TIMESTAMP): Timestamp(time_ms - 1)}
    receiver = _attached(client, options, partition, position, window=1)
    found = receiver.take(1, 0.0) or receiver.rest()
    if not found:  # a node that cannot reach its log also returns the credit
        read_current_info(client, options)
        found = receiver.rest()
    receiver.close()
    return min(offset_of(options, found[0]), bounds.high) if found else bounds.high


def offset_of(options: ReadOptions, data: bytes) -> int:
    """The offset of an event. Raises `PipelineError` if it has none."""
    try:
        return int(sections.delivery_annotations(data, sections.walk(data))[OFFSET])
    except (AmqpError, KeyError, ValueError, TypeError):
        raise PipelineError(not_an_event(options)) from None


def attach_at_offset(client: BlockingClient, options: ReadOptions, partition: int, start: int) -> BlockingReceiver:
    """A receiver of a partition's events from an offset on that match the option `filter`."""
    after = Symbol(offset_symbol(start - 1) if start else EARLIEST)
    return _attached(client, options, partition, {Symbol(OFFSET): after}, sql=options.filter)


def _attached(
    client: BlockingClient,
    options: ReadOptions,
    partition: int,
    position: Mapping[Symbol, Value],
    *,
    sql: str | None = None,
    window: int = WINDOW,
) -> BlockingReceiver:
    wanted = {Symbol("position"): Described(Symbol(FILTER_NAME), dict(position))}
    if sql is not None:
        wanted[Symbol("sql")] = Described(Symbol(SQL), sql)
    bound = {Symbol(PARTITION): Symbol(partition)}
    receiver = client.receiver(options.address, properties=bound, filter=wanted, window=window)
    missing = set(map(str, wanted)) - set(map(str, receiver.link.source.filter or {}))
    if missing:  # without the filter, the peer would also send other events (AMQP 3.5.3)
        raise PipelineError(f"{node_name(options)} does not apply the filter {min(missing)}")
    return receiver


def node_name(options: ReadOptions) -> str:
    """The node's address and endpoint, for error texts."""
    return f"{options.address} at {options.endpoint}"


def error_text(options: ReadOptions, error: AmqpError) -> str:
    """The error text for an error of the peer."""
    return f"{node_name(options)}: {error.description or error.condition}"


def not_an_event(options: ReadOptions) -> str:
    """The error text for a message that is not from a log."""
    return f"{node_name(options)}: the message received is not an event with an offset"


# -- choosing offsets


def first_offsets(options: ReadOptions, bounds: Mapping[int, OffsetBounds]) -> dict[int, int]:
    """The first offsets to read; partitions not in `startingOffsets` are read from the start of their log."""
    if options.starting_time is not None:
        return since(options, bounds, options.starting_time)
    if options.starting == "earliest":
        return {partition: at.low for partition, at in bounds.items()}
    if options.starting == "latest":
        return {partition: _latest(options, partition, at) for partition, at in bounds.items()}
    assert not isinstance(options.starting, str)
    _inside(options, "startingOffsets", options.starting, bounds)
    return {partition: options.starting.get(partition, at.low) for partition, at in bounds.items()}


def last_offsets(options: ReadOptions, bounds: Mapping[int, OffsetBounds]) -> dict[int, int]:
    """The offsets at which a batch ends, from `endingOffsets` or `endingTimestamp`."""
    if options.ending_time is not None:
        return since(options, bounds, options.ending_time)
    if isinstance(options.ending, str):
        return {partition: at.high for partition, at in bounds.items()}
    _inside(options, "endingOffsets", options.ending, bounds)
    return {partition: options.ending.get(partition, at.high) for partition, at in bounds.items()}


def _latest(options: ReadOptions, partition: int, at: OffsetBounds) -> int:
    if not at.known:
        text = f"{node_name(options)} does not give the end of its partition {partition}, because it is empty"
        raise PipelineError(f"{text}: try again later, or startingOffsets=earliest")
    return at.high


def _inside(options: ReadOptions, name: str, offsets: Mapping[int, int], bounds: Mapping[int, OffsetBounds]) -> None:
    """Raise `PipelineError` for offsets in an option beyond the end of the log; deleted ones count as data loss."""
    unknown = sorted(set(offsets) - set(bounds))
    if unknown:
        raise PipelineError(f"{name}: {options.address} has no partition {unknown[0]} (it has {len(bounds)})")
    for partition, offset in offsets.items():
        at = bounds[partition]
        if at.known and offset > at.high:
            log = f"partition {partition} of {options.address}"
            raise PipelineError(f"{name}: {log} ends at offset {at.high}, not {offset}")


def same_log(options: ReadOptions, before: str | None, now: str | None) -> bool:
    """Whether this is still the same log. Raises `PipelineError` for another one, unless failOnDataLoss is false."""
    if before is None or now is None or before == now:
        return True
    text = f"{options.address}: the log was recreated (its id was {before} and is {now}); its old offsets are invalid"
    report_loss(options, text, "failOnDataLoss=false reads the new log from its start")
    return False


def available_ranges(
    options: ReadOptions, starts: Mapping[int, int], ends: Mapping[int, int], bounds: Mapping[int, OffsetBounds]
) -> list[OffsetRange]:
    """The ranges that the log still has. Raises `PipelineError` for lost offsets, unless failOnDataLoss is false."""
    found = []
    for partition, end in sorted(ends.items()):
        at = bounds.get(partition, OffsetBounds(0, 0, False))
        start = starts.get(partition, at.low)
        log = f"{options.address}, partition {partition}"
        if at.known and at.high < max(start, end):
            text = f"{log}: the log ends at offset {at.high}, not {max(start, end)}: it was truncated or recreated"
            report_loss(options, text, "failOnDataLoss=false continues at its end")
            start, end = min(start, at.high), min(end, at.high)
        if start < min(at.low, end):
            gone = f"{log}: offsets {start} to {min(at.low, end) - 1} were deleted from the log"
            report_loss(options, gone, "failOnDataLoss=false skips them")
            start = min(at.low, end)
        if start < end:
            found.append(OffsetRange(partition, start, end))
    return found


def report_loss(options: ReadOptions, what: str, otherwise: str) -> None:
    """Raise `PipelineError`, or log a warning if failOnDataLoss is false."""
    if options.fail_on_loss:
        raise PipelineError(f"{what}; {otherwise}")
    _log.warning("%s; the query continues, because of failOnDataLoss=false", what)


def plan_tasks(options: ReadOptions, ranges: Sequence[OffsetRange], log: str | None) -> list[ReadTask]:
    """One task for each range, or at most `maxTasks` of them."""
    count = min(len(ranges), options.max_tasks or len(ranges))
    return [ReadTask(tuple(ranges[number::count]), log) for number in range(count)]


def limit_offsets(before: Mapping[int, int], ends: Mapping[int, int], limit: int) -> dict[int, int]:
    """Ends for at most `limit` offsets in total, shared fairly: long partitions use the share that short ones leave."""
    found, left = dict(before), limit
    waiting = sorted(ends, key=lambda partition: ends[partition] - before[partition])
    for index, partition in enumerate(waiting):
        size = min(ends[partition] - before[partition], max(left // (len(waiting) - index), 0))
        found[partition] = before[partition] + size
        left -= size
    return found


def offsets_json(offsets: Mapping[int, int]) -> str:
    """Offsets in the form of the options."""
    return json.dumps({str(partition): offset for partition, offset in offsets.items()})
