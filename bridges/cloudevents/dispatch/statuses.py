"""The status of a subscription: from its delivery in this process, or from the record of another gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from bridges.cloudevents.delivery.checkpoint import StreamPosition
from bridges.cloudevents.delivery.state import DeliveryState
from bridges.cloudevents.delivery.status import SubscriptionStatus
from bridges.cloudevents.dispatch.registration import RegisteredSubscription
from bridges.cloudevents.dispatch.stored.remote_records import RemoteRecords
from bridges.cloudevents.dispatch.worker import DeliveryWorker
from bridges.kafka.tap import TopicLog
from gateway.errors import AmqpError

_LAG_TIMEOUT: Final = 2.0
"""Seconds that a status waits for Kafka."""
LogOf = Callable[[str], TopicLog | None]
"""The log of a stream by its address; None if the policy no longer has it."""


async def local_status(worker: DeliveryWorker, log_of: LogOf) -> SubscriptionStatus:
    """The status of a subscription that this process delivers."""
    streams = worker.positions()
    return SubscriptionStatus(
        worker.state,
        worker.since,
        worker.queue.reason,
        worker.failure,
        worker.next_attempt,
        worker.version.revision,
        True,
        worker.counts.by_name(),
        await _lag(streams, log_of),
        worker.queue.oldest_timestamp,
        committed(streams),
        worker.checkpoint().delivered,
        identities(streams),
    )


async def remote_status(
    registered: RegisteredSubscription, records: RemoteRecords, log_of: LogOf
) -> SubscriptionStatus:
    """The status of a subscription that another gateway delivers, as far as its record tells."""
    checkpoint, applied = await records.read(registered.subscription.id)
    if checkpoint is not None and checkpoint.incarnation != registered.start_offsets.incarnation:
        checkpoint = None
    reason = registered.hold_reason if registered.hold_reason is not None or checkpoint is None else checkpoint.reason
    failing = checkpoint is not None and checkpoint.failing_since is not None
    state = reason.state if reason is not None else DeliveryState.FAILING if failing else DeliveryState.ACTIVE
    streams = {} if checkpoint is None else checkpoint.streams
    return SubscriptionStatus(
        state,
        since=None if checkpoint is None or reason is None else checkpoint.since,
        reason=reason,
        applied_revision=None if applied is None else min(applied, registered.revision),
        lag=await _lag(streams, log_of) if streams else None,
        positions=committed(streams),
        delivered=0 if checkpoint is None else checkpoint.delivered,
        logs=identities(streams),
    )


def committed(streams: Mapping[str, StreamPosition]) -> dict[str, dict[int, int]]:
    """By address and partition, the offset before which all events are done."""
    return {
        address: {number: position.committed for number, position in at.positions.items()}
        for address, at in streams.items()
    }


def identities(streams: Mapping[str, StreamPosition]) -> dict[str, str]:
    """By address, the log that the positions are in."""
    return {address: at.identity for address, at in streams.items()}


async def _lag(streams: Mapping[str, StreamPosition], log_of: LogOf) -> int | None:
    """The number of offsets that are not done; None if Kafka does not answer in time."""
    total = 0
    try:
        async with asyncio.timeout(_LAG_TIMEOUT):
            for address, at in streams.items():
                log = log_of(address)
                if log is not None and at.positions:
                    total += await log.behind({number: each.next for number, each in at.positions.items()})
                    total += sum(len(each.unfinished) for each in at.positions.values())
    except (AmqpError, TimeoutError):
        return None
    return total
