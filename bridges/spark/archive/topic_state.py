"""The archived state of a topic beside its events: settings, and positions of consumer groups (docs/pipeline.md).

    _topics/orders.json    of one address, as last read by the archive job; written atomically
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Final
from urllib.parse import quote

from bridges.kafka.admin.topic_copy import TopicCopy, TopicSettings
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.spark.archive.storage.paths import StoragePath, write_whole
from bridges.spark.errors import PipelineError, sentence
from bridges.spark.kafka_settings import RenewedClient
from gateway.errors import AmqpError

TOPICS: Final = "_topics"
_PERIOD: Final = 10.0
"""Seconds between two reads of groups and settings."""
_REST: Final = 9
"""Minimum of the pause before the next read, as a multiple of this one: a job is not held up by thousands of groups."""
_AT_ONCE: Final = 8
"""Number of groups whose positions are read at once."""


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
    """Archives the state of topics; called after each step of the archive job.

    Not before: the step finds out whether a topic is still the archived one. The groups of a topic that was created
    again have no positions there, and would replace those of the lost one, which `replay` restores.
    """

    def __init__(
        self, archive: StoragePath, settings: ClientSettings, topics: Mapping[str, str], groups: Sequence[str],
        clock: Callable[[], float], now: Callable[[], float],
    ) -> None:  # fmt: skip
        """`topics` are addresses by topic; `clock` is monotonic, in seconds; `now` returns seconds since 1970."""
        self._archive, self._topics, self._groups = archive, dict(topics), tuple(groups)
        self._client: Final = RenewedClient(settings, TopicCopy)
        self._clock, self._now = clock, now
        self._due = clock()
        self._seen: dict[str, TopicState] = {}

    def __call__(self) -> None:
        """Read the topics, unless they were read less than the interval ago. Raises `PipelineError`."""
        if (began := self._clock()) < self._due:
            return
        try:
            self.look()
        except AmqpError as error:
            raise PipelineError(error.description) from None
        except OSError as error:
            raise PipelineError(f"{self._archive / TOPICS} cannot be written: {sentence(error)}") from None
        ended = self._clock()
        self._due = ended + max(_PERIOD, _REST * (ended - began))

    def look(self) -> None:
        """Read the topics, and write the states that have changed. Raises `AmqpError` and `OSError`."""
        copy = self._client.current()
        names = copy.groups(self._groups) if self._groups else []
        for topic, address in self._topics.items():
            partitions, replication, settings = copy.settings(topic)
            known = self._positions(copy, names, topic, range(partitions))
            state = TopicState(topic, partitions, replication, settings, known)
            if self._seen.get(address) != state:
                path = _path(self._archive, address)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, json.dumps(asdict(replace(state, time=int(self._now() * 1000))), indent=1))
                self._seen[address] = state

    def _positions(
        self, copy: TopicCopy, names: Sequence[str], topic: str, partitions: range
    ) -> dict[str, Mapping[int, int]]:
        """The positions of the groups that have any; each is read by a client of its own, which mostly waits."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(lambda name: copy.positions(name, topic, partitions), names)
            return {name: positions for name, positions in zip(names, found, strict=True) if positions}
