"""The topics of a cluster as last seen, and who is notified when one grows or is deleted (KM-9, KM-18)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from bridges.kafka.admin.client import Topic

STALE: Final = 0.25
"""Seconds after which an attach asks Kafka again about a topic."""
log = structlog.get_logger(logger_name="kafka")


class TopicWatcher(Protocol):
    """A link or node that depends on a topic."""

    def topic_grew(self, topic: Topic) -> None: ...
    def topic_gone(self) -> None: ...


class TopicTable:
    """What is known of topics; used from the event loop only."""

    def __init__(self, cluster: str, loop: asyncio.AbstractEventLoop) -> None:
        self._cluster: Final = cluster
        self._loop: Final = loop
        self._topics: Final[dict[str, Topic]] = {}
        self._seen: Final[dict[str, float]] = {}
        self._watchers: Final[dict[str, set[TopicWatcher]]] = {}
        self._warned: Final[set[str]] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def get(self, name: str) -> Topic | None:
        """The topic as last seen; None: it is not known."""
        return self._topics.get(name)

    def is_fresh(self, name: str) -> bool:
        """Whether a known topic was seen so recently that an attach need not ask Kafka again."""
        return self._loop.time() - self._seen[name] < STALE

    def names(self) -> list[str]:
        """All known topics."""
        return list(self._topics)

    def sizes(self) -> dict[str, int]:
        """The number of partitions of each known topic."""
        return {name: topic.partitions for name, topic in self._topics.items()}

    def update(self, new: Topic) -> None:
        """Store what Kafka says of a topic now, and notify its watchers of what has changed."""
        old = self._topics.get(new.name)
        if old is not None and (new.identity != old.identity or new.partitions < old.partitions):
            self.gone(new.name)
        self._topics[new.name], self._seen[new.name] = new, self._loop.time()
        if old is not None and new.identity == old.identity and new.partitions > old.partitions:
            log.info("topic grew", cluster=self._cluster, topic=new.name, partitions=new.partitions)
            self._notify(new.name, lambda watcher: watcher.topic_grew(new))

    def gone(self, name: str) -> None:
        """KM-18: deleted, or deleted and created again; either way its offsets have no meaning any more."""
        log.warning("topic gone", cluster=self._cluster, topic=name)
        self.forget(name)
        self._notify(name, lambda watcher: watcher.topic_gone())

    def forget(self, name: str) -> None:
        """Ask Kafka about the topic before it is used again."""
        self._topics.pop(name, None)
        self._seen.pop(name, None)

    def warn_of_times(self, topic: Topic) -> None:
        """Log once per topic, when it is first used, that its producers set the timestamps (KM-3)."""
        if topic.append_time is False and topic.name not in self._warned:
            self._warned.add(topic.name)
            advice = "set message.timestamp.type=LogAppendTime: peers want to know when an event was added"
            log.warning("topic keeps its producers' times", cluster=self._cluster, topic=topic.name, advice=advice)

    # -- watchers

    def watched(self, name: str) -> bool:
        """Whether a link or node depends on the topic."""
        return name in self._watchers

    def watch(self, topic: Topic | str, watcher: TopicWatcher) -> None:
        """Notify `watcher` when the topic grows or is deleted, and soon, if that has happened since it was `topic`.

        An attach takes a while, and topics that nobody watches are forgotten: a link must not miss what changed
        meanwhile. `topic` is a name where Kafka could not be asked yet.
        """
        name = topic if isinstance(topic, str) else topic.name
        self._watchers.setdefault(name, set()).add(watcher)
        if isinstance(topic, str):
            return
        if self._topics.setdefault(name, topic) is not topic:
            self._loop.call_soon(self._catch_up, topic, watcher)
        self._seen.setdefault(name, -math.inf)

    def _catch_up(self, seen: Topic, watcher: TopicWatcher) -> None:
        now = self._topics.get(seen.name)
        if now is None or watcher not in self._watchers.get(seen.name, ()):
            return
        if now.identity != seen.identity or now.partitions < seen.partitions:
            watcher.topic_gone()
        elif now.partitions > seen.partitions:
            watcher.topic_grew(now)

    def unwatch(self, name: str, watcher: TopicWatcher) -> None:
        """The watcher's link is over."""
        watchers = self._watchers.get(name, set())
        watchers.discard(watcher)
        if not watchers:
            self._watchers.pop(name, None)

    def _notify(self, name: str, call: Callable[[TopicWatcher], None]) -> None:
        """A watcher that fails does not keep the others from being notified."""
        for watcher in list(self._watchers.get(name, ())):
            try:
                call(watcher)
            except Exception:
                log.exception("link not notified of a topic change", cluster=self._cluster, topic=name)
