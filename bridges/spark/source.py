"""`format("scopegate")`: an event-stream node over AMQP as a DataFrame, batch and streaming (docs/pipeline.md).

Offsets are exact: a task reads [start, end) of its partitions, and the same again whenever Spark asks again. The peer
evaluates the filter. Planning and reading run in different processes; what they share is in `Span`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from bridges.spark.amqp_client import Client
from bridges.spark.errors import PipelineError
from bridges.spark.source_options import Options, read_options
from gateway.amqp import sections
from gateway.amqp.codec import Described, Symbol, decode_all
from gateway.errors import AmqpError
from gateway.filters import columns
from gateway.filters.event_stream import EARLIEST, FILTER_NAME, OFFSET, TIMESTAMP, offset_symbol
from gateway.filters.filter_set import SQL
from gateway.filters.rows import Event, record_batch

_BATCH: Final = 2000
_IDLE: Final = 0.3
"""Seconds without an event after which the peer is asked whether there are more: some offsets are no events."""
_INFO: Final = "/$info"
_PARTITION: Final = "event-streams-partition"
_SOURCE_PARTITION: Final = "event-streams-source-partition"
_KEYS: Final = ("event-streams-group-key", "x-opt-kafka-key")


@dataclass
class Span(InputPartition):
    """What one task reads: [start, end) of these partitions."""

    ranges: tuple[tuple[int, int, int], ...]


class ScopeGateDataSource(DataSource):
    """Register once: `spark.dataSource.register(ScopeGateDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "scopegate"

    def schema(self) -> str:
        return columns.DDL

    def reader(self, schema: Any) -> DataSourceReader:
        return Reader(read_options(dict(self.options)))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return StreamReader(read_options(dict(self.options)))


# -- planning


def bounds(options: Options) -> dict[int, tuple[int, int]]:
    """What the node holds now, [low, high) per partition, as its `$info` says (ES 6). Raises `PipelineError`."""
    try:
        with Client(options.endpoint, options.credentials()) as client:
            receiver = client.receiver(options.address + _INFO)
            found = receiver.take(1, 10.0)
    except AmqpError as error:
        raise PipelineError(_said(options, error)) from None
    if not found:
        raise PipelineError(f"{options.address} at {options.endpoint} does not say what it holds ({_INFO})")
    return _described(options, found[0])


def _described(options: Options, data: bytes) -> dict[int, tuple[int, int]]:
    try:
        (body,) = sections.body_values(data, sections.walk(data))
        return {int(each["partition"]): _held(each) for each in body["partitions"]}
    except (AmqpError, ValueError, TypeError, KeyError):
        text = f"{options.address} at {options.endpoint} is no event stream with offsets that are numbers"
        raise PipelineError(text) from None


def _held(entry: Mapping[str, Any]) -> tuple[int, int]:
    earliest, latest = entry["earliest-offset"], entry["latest-offset"]
    return (0, 0) if latest is None else (int(earliest), int(latest) + 1)


def _said(options: Options, error: AmqpError) -> str:
    return f"{options.address} at {options.endpoint}: {error.description or error.condition}"


def first_offsets(options: Options, held: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Where to begin, as `startingOffsets` says; partitions it does not name begin where their log does."""
    if options.starting == "earliest":
        return {partition: low for partition, (low, _) in held.items()}
    if options.starting == "latest":
        return {partition: high for partition, (_, high) in held.items()}
    assert not isinstance(options.starting, str)
    _known(options, "startingOffsets", options.starting, held)
    return {partition: options.starting.get(partition, low) for partition, (low, _) in held.items()}


def last_offsets(options: Options, held: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Where a batch ends, as `endingOffsets` says."""
    if isinstance(options.ending, str):
        return {partition: high for partition, (_, high) in held.items()}
    _known(options, "endingOffsets", options.ending, held)
    for partition, end in options.ending.items():
        if end > held[partition][1]:
            place = f"partition {partition} of {options.address}"
            raise PipelineError(f"endingOffsets: {place} ends at offset {held[partition][1]}, not {end}")
    return {partition: options.ending.get(partition, high) for partition, (_, high) in held.items()}


def _known(options: Options, name: str, places: Mapping[int, int], held: Mapping[int, tuple[int, int]]) -> None:
    strange = sorted(set(places) - set(held))
    if strange:
        raise PipelineError(f"{name}: {options.address} has no partition {strange[0]} (it has {len(held)})")


def checked(
    options: Options, starts: Mapping[int, int], ends: Mapping[int, int], held: Mapping[int, tuple[int, int]]
) -> list[tuple[int, int, int]]:
    """The ranges to read, once it is known that the log still has them. Raises `PipelineError`."""
    found = []
    for partition, end in sorted(ends.items()):
        low, high = held.get(partition, (0, 0))
        start = starts.get(partition, low)
        place = f"{options.address}, partition {partition}"
        if high < end and high:
            raise PipelineError(f"{place}: the log ends at offset {high}, not {end}: it was cut off or made anew")
        if start < low < end or (start < end <= low):
            if options.fail_on_loss:
                gone = f"offsets {start} to {min(low, end) - 1} are gone from the log"
                raise PipelineError(f"{place}: {gone}; failOnDataLoss=false skips them")
            start = min(low, end)
        if start < end:
            found.append((partition, start, end))
    return found


def spans(options: Options, ranges: Sequence[tuple[int, int, int]]) -> list[Span]:
    """One task for each range, or at most `maxTasks` of them."""
    count = min(len(ranges), options.max_tasks or len(ranges))
    return [Span(tuple(ranges[number::count])) for number in range(count)]


class _Reading:
    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """The events of a span as record batches."""
        ranges = partition.ranges if isinstance(partition, Span) else ()
        if not ranges:
            return
        options = self._options
        try:
            with Client(options.endpoint, options.credentials()) as client:
                for number, start, end in ranges:
                    yield from _events(client, options, number, start, end)
        except AmqpError as error:
            raise PipelineError(_said(options, error)) from None


class Reader(_Reading, DataSourceReader):
    """A batch: what the node holds when it is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        held = bounds(options)
        ranges = checked(options, first_offsets(options, held), last_offsets(options, held), held)
        return spans(options, ranges) or [Span(())]


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream; its offsets are the next ones per partition, as JSON."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._first: dict[str, int] | None = None
        self._target: dict[int, tuple[int, int]] | None = None

    def initialOffset(self) -> dict[str, int]:
        if self._first is None:  # asked more than once: latest must stay what it was
            found = first_offsets(self._options, bounds(self._options))
            self._first = {str(partition): offset for partition, offset in found.items()}
        return self._first

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_events
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = bounds(self._options)

    def reportLatestOffset(self) -> dict[str, int]:
        return {str(partition): high for partition, (_, high) in bounds(self._options).items()}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        held = self._target if self._target is not None else bounds(self._options)
        before = {partition: start.get(str(partition), low) for partition, (low, _) in held.items()}
        for partition, (_, high) in held.items():
            if 0 < high < before[partition]:
                checked(self._options, before, before, held)  # says that the log was cut off
        new = {partition: max(high, before[partition]) for partition, (_, high) in held.items()}
        if isinstance(limit, ReadMaxRows):
            new = limited(before, new, limit.max_rows)
        return {**start, **{str(partition): offset for partition, offset in new.items()}}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        options = self._options
        starts = {int(partition): offset for partition, offset in start.items()}
        ends = {int(partition): offset for partition, offset in end.items()}
        return spans(options, checked(options, starts, ends, bounds(options)))

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept at the peer: the checkpoint knows."""


def limited(before: Mapping[int, int], ends: Mapping[int, int], limit: int) -> dict[int, int]:
    """At most `limit` offsets in all, a fair share of each partition, what short ones leave to the long ones."""
    found, left = dict(before), limit
    waiting = sorted(ends, key=lambda partition: ends[partition] - before[partition])
    for index, partition in enumerate(waiting):
        size = min(ends[partition] - before[partition], max(left // (len(waiting) - index), 0))
        found[partition] = before[partition] + size
        left -= size
    return found


# -- reading


def _events(client: Client, options: Options, partition: int, start: int, end: int) -> Iterator[Any]:
    after = Symbol(offset_symbol(start - 1) if start else EARLIEST)
    wanted = {Symbol("position"): Described(Symbol(FILTER_NAME), {Symbol(OFFSET): after})}
    if options.filter is not None:
        wanted[Symbol("sql")] = Described(Symbol(SQL), options.filter)
    receiver = client.receiver(options.address, properties={Symbol(_PARTITION): Symbol(partition)}, filter=wanted)
    _in_force(options, receiver.link.source.filter, wanted)
    over, place = False, start
    while not over:
        messages = receiver.take(min(_BATCH, end - place), _IDLE)
        if not messages:
            messages, over = receiver.rest(), True
        events = [_event(options, partition, data) for data in messages]
        inside = [event for event in events if start <= event.offset < end]
        place = events[-1].offset + 1 if events else place
        over = over or place >= end
        if inside:
            yield record_batch(inside)
    receiver.close()


def _in_force(options: Options, answered: Any, wanted: Mapping[Any, Any]) -> None:
    """A peer that leaves a filter out would give more than was asked for (AMQP 3.5.3)."""
    missing = set(map(str, wanted)) - set(map(str, answered or {}))
    if missing:
        raise PipelineError(f"{options.address} at {options.endpoint} does not apply the filter {min(missing)}")


def _event(options: Options, partition: int, data: bytes) -> Event:
    try:
        layout = sections.walk(data)
        found = sections.delivery_annotations(data, layout)
        offset, time = int(found[OFFSET]), found.get(TIMESTAMP, 0)
        return Event(partition, offset, int(time), _key(data, layout), data)
    except (AmqpError, KeyError, ValueError, TypeError):
        raise PipelineError(f"{options.address} at {options.endpoint}: what came is no event with an offset") from None


def _key(data: bytes, layout: sections.Layout) -> bytes | None:
    """The key as the gateway shows it: the group key's text, or Kafka's own bytes."""
    annotations = data[layout.ma : layout.bare]
    if b"-key" not in annotations:
        return None
    for name in reversed(_KEYS):  # Kafka's bytes are exact
        if (encoded := sections.map_entry(annotations, name)) is not None:
            value = decode_all(encoded)
            return value if isinstance(value, bytes) else str(value).encode()
    return None


def offsets_json(places: Mapping[int, int]) -> str:
    """Offsets as the options take them."""
    return json.dumps({str(partition): offset for partition, offset in places.items()})
