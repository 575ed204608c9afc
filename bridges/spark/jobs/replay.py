"""The jobs that replay an archive to a topic or to an AMQP address."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from bridges.kafka.admin.offsets import Offsets
from bridges.kafka.admin.topic_copy import TopicCopy
from bridges.kafka.produce.replayer import ReplayTarget, fence
from bridges.spark.archive.read import ArchiveSelection
from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.archive.store import Archive
from bridges.spark.archive.topic_state import read_state
from bridges.spark.errors import PipelineError, Stopped, sentence
from bridges.spark.jobs.running import running, stopping
from bridges.spark.kafka_settings import portable_settings
from bridges.spark.replay import job as replaying
from bridges.spark.replay.pace import Pace, SpacedReports
from bridges.spark.replay.positions import moved_groups, offset_maps, write_map
from bridges.spark.session import LOCAL, SparkEngine
from gateway.errors import AmqpError
from gateway.plural import counted

REPLAYS: Final = "_replays"
"""The folder of an archive with the progress of replays to AMQP addresses."""
_NEVER: Final = 3600.0


def replay_to_topic(
    path: StoragePath,
    selection: ArchiveSelection,
    settings: Mapping[str, str],
    topic: str,
    *,
    name: str | None = None,
    rate: float | None = None,
    dry_run: bool = False,
    engine: SparkEngine = LOCAL,
    on_progress: Callable[[int], None] = lambda _: None,
    create: bool = False,
    groups: Sequence[str] = (),
    offset_map: Path | None = None,
) -> int:
    """Write archived events to a topic, each once even if the job of this name is killed and started again.

    `create`: create the topic with the archived settings, unless it exists. At the end, the archived positions of
    `groups` (patterns) are committed for the new topic, and the offset map is written. Returns the number of events
    written by this run. Raises `PipelineError`.
    """
    archive = Archive(path)
    _check(archive, selection, offset_map)
    if dry_run:
        return replaying.count(archive, selection)
    state = read_state(path, selection.addresses[0]) if create or groups else None
    chosen = chosen_groups(state.groups if state else {}, groups)
    try:
        if create and state is not None:
            TopicCopy(settings).create(topic, state.like())
        called = name or replay_name(path, selection, topic)
        target = replay_target(settings, topic, called, replaying.source_of(archive, selection))
        fence(target)  # errors there are reported before Spark starts
    except AmqpError as error:
        raise PipelineError(error.description) from None
    with running("replay", engine) as (spark, stop):
        sent = replaying.write_records(spark, archive, selection, target, rate=rate, stop=stop, on_progress=on_progress)
    _check_end(target, settings, stop, sent)
    _restore(archive, selection, settings, topic, chosen, offset_map)
    return sent


def _check(archive: Archive, selection: ArchiveSelection, offset_map: Path | None) -> None:
    """Raise `PipelineError` if the archive has none of the events, or the offset map will have no folder."""
    replaying.check(archive, selection)
    if offset_map is not None and not offset_map.parent.is_dir():
        raise PipelineError(f"{offset_map} cannot be written: {offset_map.parent} is not a folder")


def chosen_groups(found: Mapping[str, Mapping[int, int]], patterns: Sequence[str]) -> dict[str, Mapping[int, int]]:
    """The archived groups whose names match. Raises `PipelineError` for a pattern without a match."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in found):
            known = ", ".join(sorted(found)) or "none"
            raise PipelineError(f"the archive has no positions of a group {pattern} (it has: {known})")
    return {name: each for name, each in found.items() if any(fnmatchcase(name, pattern) for pattern in patterns)}


def _restore(
    archive: Archive,
    selection: ArchiveSelection,
    settings: Mapping[str, str],
    topic: str,
    groups: Mapping[str, Mapping[int, int]],
    offset_map: Path | None,
) -> None:
    if not groups and offset_map is None:
        return
    maps = offset_maps(archive, selection, settings, topic)
    try:
        if offset_map is not None:
            write_map(offset_map, maps)
        copy = TopicCopy(settings)
        for group, positions in moved_groups(maps, groups).items():
            copy.commit(group, topic, positions)
    except OSError as error:
        raise PipelineError(f"{offset_map} cannot be written: {sentence(error)}") from None
    except AmqpError as error:
        raise PipelineError(error.description) from None


def _check_end(target: ReplayTarget, settings: Mapping[str, str], stop: threading.Event, sent: int) -> None:
    """Raise `PipelineError` if the run was stopped, or if the topic is not the one that it was at the start."""
    _check_stopped(stop, sent)  # asks nothing: Kafka may be away, and the next run sees another topic as well
    try:
        target.check_identity(Offsets(settings).topic(target.topic).identity or "")
    except AmqpError as error:
        raise PipelineError(error.description) from None


def replay_target(settings: Mapping[str, str], topic: str, name: str, source: str) -> ReplayTarget:
    """The topic that a replay of this name and source writes to. Raises `AmqpError` and `PipelineError`."""
    found = Offsets(settings).topic(topic)
    own = portable_settings(settings)
    return ReplayTarget(own, topic, found.partitions, found.max_bytes, name, source, found.identity or "")


def replay_to_address(
    path: StoragePath,
    selection: ArchiveSelection,
    options: Mapping[str, str],
    *,
    name: str | None = None,
    rate: float | None = None,
    dry_run: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Send archived events to an AMQP address; an event counts once it is accepted.

    `options` are those of the data source for a peer. Needs no Spark. Events in flight when a run is killed may be
    sent twice. Returns the number sent by this run. Raises `PipelineError`.
    """
    from bridges.spark.datasource.options import target_options
    from bridges.spark.replay.amqp_target import AmqpTarget

    peer = target_options(options)
    called = name or replay_name(path, selection, f"{peer.endpoint} {peer.address}")
    if "/" in called:
        raise PipelineError(f"--name: {called!r} is the name of a file beside the archive: use no slash")
    archive = Archive(path)
    replaying.check(archive, selection)
    if dry_run:
        return replaying.count(archive, selection)
    target = AmqpTarget(peer, path / REPLAYS / f"{called}.json", replaying.source_of(archive, selection))
    with stopping() as (stop, _):
        pace = Pace(rate, time.monotonic, lambda seconds: _pause(stop, seconds), stop.is_set)
        sent = replaying.send_messages(archive, selection, target, pace, SpacedReports(on_progress, time.monotonic))
    _check_stopped(stop, sent)
    return sent


def _check_stopped(stop: threading.Event, sent: int) -> None:
    if stop.is_set():
        raise Stopped(f"stopped after {counted(sent, 'event')}: run the same command to continue")


def _pause(stop: threading.Event, seconds: float) -> None:
    stop.wait(min(seconds, _NEVER))


def replay_name(path: StoragePath, selection: ArchiveSelection, target: str) -> str:
    """The default name of a replay, derived from archive, selection and target."""
    identity = [str(path.resolve()), repr(selection), target]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]
