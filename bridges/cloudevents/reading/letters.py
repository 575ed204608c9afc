"""Dead letters: refused events copied to the dead-letter topic of their stream, in the form that links use (KM-12)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from bridges.cloudevents.delivery.entry import Letter
from bridges.cloudevents.subscription.model import SinkUri
from bridges.kafka.bridge import ClusterBridge
from bridges.kafka.produce.dead_letters import DeadLetters, LetterReason
from policies.rules import KafkaRoute


class LetterSender(Protocol):
    """The subscription whose sink refused an event."""

    @property
    def id(self) -> str: ...
    @property
    def sink(self) -> SinkUri: ...


class Letterbox:
    """Writes to the dead-letter topics of a manager's streams."""

    def __init__(self, clusters: Mapping[str, ClusterBridge]) -> None:
        self._clusters: Final = clusters
        self._topics: Final[dict[tuple[str, str, str], DeadLetters]] = {}

    def bury(
        self,
        route: KafkaRoute,
        sender: LetterSender,
        letter: Letter,
        done: Callable[[bool], None],
        wanted: Callable[[], bool],
    ) -> None:
        """Copy an event; calls `done` with True once Kafka has it, or at once with False if there is no such topic."""
        to, record = route.reading.dead_letter, letter.event.record
        if to is None or record is None:
            done(False)
            return
        key = route.cluster, route.topic, to
        if key not in self._topics:
            self._topics[key] = self._clusters[route.cluster].dead_letters(route.topic, to)
        why = LetterReason(
            "scopegate:refused",
            letter.answer.reason,
            letter.attempts - 1,
            (
                ("subscription", sender.id.encode()),
                ("sink", sender.sink.text.partition("?")[0].encode()),
                ("attempts", b"%d" % letter.attempts),
                ("status", b"" if letter.answer.status is None else b"%d" % letter.answer.status),
            ),
        )
        self._topics[key].copy(record, why, lambda: done(True), wanted)
