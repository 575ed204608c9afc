"""What a send link on an event log counts where a pre-settled message has no outcome to tell (KM-15)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError
from structlog.testing import capture_logs

from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.links.sender import LogSender
from gateway.amqp.link.outcomes import FAILED, Outcome


class Link:
    """What a sender needs of a link."""

    name, open = "l", True

    def __init__(self) -> None:
        self.granted = 0
        self.settled: list[tuple[Any, Outcome]] = []

    def grant(self, credit: int) -> None:
        self.granted += credit

    def settle(self, delivery: Any, outcome: Outcome) -> None:
        self.settled.append((delivery, outcome))


def test_a_failed_delivery_report_of_a_pre_settled_message_counts_as_a_loss() -> None:
    link, counters = Link(), ClusterCounters()
    unasked: Any = SimpleNamespace()  # a report asks neither cluster nor producer
    sender = LogSender(link, unasked, unasked, "orders", unasked, False, counters, bound=None, window=3)
    with capture_logs() as logs:
        sender.on_failed([None, "unsettled", None], KafkaError(KafkaError._MSG_TIMED_OUT), keyed=False, batch=0)
    assert (counters.presettled_failed, counters.modified) == (2, 1)
    assert link.settled == [("unsettled", FAILED)]
    assert link.granted == 3, "all three places are free again"
    said = [(line["event"], line["topic"], line["outcome"], line["lost"]) for line in logs]
    assert said == [("pre-settled message not written to Kafka", "orders", "modified", lost) for lost in (1, 2)]
