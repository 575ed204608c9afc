"""Dead letters: refused events copied to the dead-letter topic of their stream, in the form that links use (KM-12)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from bridges.cloudevents.delivery.entry import DeadLetter
from bridges.cloudevents.model.values import SinkUri
from bridges.kafka.bridge import ClusterBridge
from bridges.kafka.produce.dead_letters import DeadLetterReason, DeadLetters
from gateway.observability.logs import get_logger
from policies.rules import KafkaRoute

LOG: Final = get_logger(__name__)


class DeadLetterSource(Protocol):
    """The subscription whose sink refused an event."""

    @property
    def id(self) -> str: ...
    @property
    def sink(self) -> SinkUri: ...


class DeadLetterWriter:
    """Writes to the dead-letter topics of a manager's streams."""

    def __init__(self, clusters: Mapping[str, ClusterBridge]) -> None:
        self._clusters: Final = clusters
        self._topics: Final[dict[tuple[str, str, str], DeadLetters]] = {}

    def write(
        self,
        route: KafkaRoute,
        source: DeadLetterSource,
        dead_letter: DeadLetter,
        done: Callable[[bool], None],
        retries: Callable[[], bool],
    ) -> None:
        """Copy an event; calls `done` with True once Kafka has it, or at once with False if the rule names no topic.

        After each failure, `retries` is asked whether to try again.
        """
        to, record = route.reading.dead_letter, dead_letter.event.record
        if to is None or record is None:
            done(False)
            return
        key = route.cluster, route.topic, to
        if key not in self._topics:
            self._topics[key] = self._clusters[route.cluster].dead_letters(route.topic, to)
        why = DeadLetterReason(
            "scopegate:refused",
            dead_letter.answer.reason,
            dead_letter.attempts - 1,
            (
                ("subscription", source.id.encode()),
                ("sink", source.sink.text.partition("?")[0].encode()),
                ("attempts", b"%d" % dead_letter.attempts),
                ("status", b"" if dead_letter.answer.status is None else b"%d" % dead_letter.answer.status),
            ),
        )
        self._topics[key].copy(record, why, lambda: done(True), retries)


def log_refusal(id: str, count: int, dead_letter: DeadLetter, *, has_topic: bool) -> None:
    """Log the refused events number 1, 2, 4, 8 and so on of a subscription; `count` includes this one."""
    if count & (count - 1) == 0:
        LOG.warning(
            "sink refused an event",
            id=id,
            stream=dead_letter.location.address,
            partition=dead_letter.location.partition,
            offset=dead_letter.location.offset,
            reason=dead_letter.answer.reason,
            refused=count,
            dead_letter=has_topic,
        )
