"""Every attempt of a sink has an answer, whatever fails."""

from __future__ import annotations

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt
from bridges.cloudevents.sinks.common.concurrent_sink import ConcurrentSink
from tests.support.cloudevents.answer_recorder import AnswerRecorder, attempt, strict_supervisor


class BrokenSink(ConcurrentSink):
    """Its library raises what nobody expects."""

    async def _deliver(self, attempt: SendAttempt) -> Answer:
        raise KeyError("secret of the event")


async def test_an_unexpected_error_is_a_failed_attempt() -> None:
    received, supervisor = AnswerRecorder(), strict_supervisor()
    sink = BrokenSink(2, received, supervisor)
    sink.send(attempt())
    assert await received.next() == Answer(DeliveryOutcome.FAILED, "the attempt failed", reached=False)
    assert sink.free_slots == 2
    await sink.close(0)
    await supervisor.close()
