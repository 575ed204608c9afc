"""The archived state of a topic beside its events: settings, and positions of consumer groups (docs/pipeline.md).

    _topics/orders.json    of one address, as last read by the archive job; written atomically
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final
from urllib.parse import quote

from bridges.kafka.admin.topic_copy import TopicCopy, TopicSettings
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.spark.archive.storage.paths import StoragePath, write_whole
from bridges.spark.errors import PipelineError, sentence
from gateway.errors import AmqpError

TOPICS: Final = "_topics"
_PERIOD: Final = 10.0
"""Seconds between two reads of groups and settings."""


@dataclass(frozen=True)
class TopicState:
    """The last archived state of a topic."""

    topic: str
    partitions: int
    replication: int
    settings: Mapping[str, str]
    groups: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """The next offset of each group, by partition."""
    time: int = 0
    """When it was read, in milliseconds since 1970."""

    def like(self) -> TopicSettings:
        """The settings for creating a topic of the same kind."""
        return TopicSettings(self.partitions, self.replication, self.settings)


def _path(archive: StoragePath, address: str) -> StoragePath:
    return archive / TOPICS / f"{quote(address, safe='')}.json"


def read_state(archive: StoragePath, address: str) -> TopicState:
    """The archived state of the topic at an address. Raises `PipelineError`."""
    path = _path(archive, address)
    try:
        found = json.loads(path.read_bytes())
        groups = {
            name: {int(partition): int(offset) for partition, offset in positions.items()}
            for name, positions in found.pop("groups").items()
        }
        return TopicState(**found, groups=groups)
    except FileNotFoundError:
        raise PipelineError(
            f"the archive has neither settings nor groups of {address}: archive with --topic-settings or --groups"
        ) from None
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise PipelineError(f"{path} does not contain the settings and groups of a topic: {error}") from None


class TopicWatch:
    """Archives the state of topics; called with each step of the archive job."""

    def __init__(
        self, archive: StoragePath, settings: ClientSettings, topics: Mapping[str, str], groups: Sequence[str],
        clock: Callable[[], float], now: Callable[[], float],
    ) -> None:  # fmt: skip
        """`topics` are addresses by topic; `clock` is monotonic, in seconds; `now` returns seconds since 1970."""
        self._archive, self._topics, self._groups = archive, dict(topics), tuple(groups)
        self._settings: Final = dict(settings)
        self._clock, self._now = clock, now
        self._copy: TopicCopy | None = None
        self._due = clock()
        self._seen: dict[str, TopicState] = {}

    def __call__(self) -> None:
        """Read the topics, unless they were read less than the interval ago. Raises `PipelineError`."""
        if self._clock() < self._due:
            return
        try:
            self.look()
        except AmqpError as error:
            raise PipelineError(error.description) from None
        except OSError as error:
            raise PipelineError(f"{self._archive / TOPICS} cannot be written: {sentence(error)}") from None
        self._due = self._clock() + _PERIOD

    def look(self) -> None:
        """Read the topics, and write the states that have changed. Raises `AmqpError` and `OSError`."""
        self._copy = self._copy or TopicCopy(self._settings)
        names = self._copy.groups(self._groups) if self._groups else []
        for topic, address in self._topics.items():
            partitions, replication, settings = self._copy.settings(topic)
            groups = {name: self._copy.positions(name, topic, range(partitions)) for name in names}
            known = {name: positions for name, positions in groups.items() if positions}
            state = TopicState(topic, partitions, replication, settings, known)
            if self._seen.get(address) != state:
                path = _path(self._archive, address)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, json.dumps(asdict(replace(state, time=int(self._now() * 1000))), indent=1))
                self._seen[address] = state
