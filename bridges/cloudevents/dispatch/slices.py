"""The part of a manager's subscriptions that this process delivers: slices, balanced by leases (CE-P-2).

A subscription's id determines its bucket, and the bucket's number its slice. The owner of a slice's lease acquires
the records of its buckets with the lease's fence, so that an earlier owner can no longer write positions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final, Protocol

from bridges.cloudevents.dispatch.stored.checkpoint_record import BUCKETS, CheckpointRecord, bucket_of
from gateway.errors import AmqpError
from gateway.observability.logs import get_logger
from gateway.state.leases.lease import Lease, LeaseRequest, RevocationReason, Share
from gateway.state.leases.manager import Leases
from gateway.state.termini.store import Fenced, Saved, Termini, TerminiUnavailable
from gateway.tasks import Supervisor

LOG: Final = get_logger(__name__)
_RETRY_DELAY: Final = 0.2
"""Seconds before a failed request to shared state is repeated."""
_WAITERS: Final = 1000


class SliceListener(Protocol):
    """The dispatcher."""

    async def caught_up(self) -> bool:
        """Have the subscriptions as they are stored now; False if the store does not answer."""

    async def on_gained(self, buckets: Collection[int]) -> None:
        """Start delivering the subscriptions of these buckets."""

    async def on_revoked(self, buckets: Collection[int]) -> None:
        """Stop delivering these, since another gateway waits for them; returns with up-to-date checkpoints."""

    def on_lost(self, buckets: Collection[int]) -> None:
        """Stop delivering these at once."""


class SliceOwnership:
    """The buckets that this process owns."""

    def __init__(
        self, name: str, count: int, leases: Leases, termini: Termini, supervisor: Supervisor, listener: SliceListener
    ) -> None:
        """`name`: scope and name of the manager; `count`: number of slices."""
        self._name: Final = name
        self._count: Final = min(count, BUCKETS)
        self._leases: Final = leases
        self._termini: Final = termini
        self._supervisor: Final = supervisor
        self._listener: Final = listener
        self._records: Final[dict[int, CheckpointRecord]] = {}
        self._acquiring: Final[dict[Lease, asyncio.Task[None]]] = {}
        self._ending: Final[set[Lease]] = set()
        self._share: Share | None = None
        self._over: Final = asyncio.Event()
        self._writing: Final = asyncio.Lock()

    @property
    def valid(self) -> bool:
        """Whether this process may deliver its buckets: its leases were renewed in time."""
        return self._share is not None and self._share.valid

    def record(self, id: str) -> CheckpointRecord | None:
        """The record that holds a subscription's checkpoint; None if another gateway delivers it."""
        return self._records.get(bucket_of(id))

    def records(self) -> Collection[CheckpointRecord]:
        """All records of this process."""
        return self._records.values()

    async def run(self) -> None:
        """Hold a share of the slices until cancelled."""
        request = LeaseRequest(None, None, tuple(range(self._count)), _WAITERS)
        while True:
            self._over.clear()
            try:
                share, first = await self._leases.share(f"subscriptions//{self._name}/{self._count}", request)
            except AmqpError:
                await asyncio.sleep(_RETRY_DELAY)
                continue
            self._share = share
            try:
                for lease in first:
                    self.gained(lease)
                self._leases.hold_share(share, self)
                await self._over.wait()
            finally:
                self._share = None
                self._lose_all()
                self._leases.leave(share)

    def _lose_all(self) -> None:
        for task in self._acquiring.values():
            task.cancel()
        self._acquiring.clear()
        self._ending.clear()
        buckets = list(self._records)
        self._records.clear()
        self._listener.on_lost(buckets)

    def _buckets(self, lease: Lease) -> list[int]:
        return [bucket for bucket in range(BUCKETS) if bucket % self._count == lease.partition]

    # -- from the leases

    def gained(self, lease: Lease) -> None:
        """See `ShareListener`."""
        if lease not in self._acquiring:
            self._acquiring[lease] = self._supervisor.start(self._acquire(lease), f"slice-acquire:{self._name}")

    def stop(self, lease: Lease, why: RevocationReason) -> None:
        """See `LeaseListener`."""
        if why is RevocationReason.LOST:
            self._drop(lease)
        elif lease in self._acquiring and lease not in self._ending:
            self._ending.add(lease)
            self._supervisor.start(self._hand_over(lease), f"slice-hand-over:{self._name}")

    def over(self) -> None:
        """See `ShareListener`."""
        self._over.set()

    async def _acquire(self, lease: Lease) -> None:
        """Acquire the records of a slice and start delivering its subscriptions.

        The owner before has answered changes that are only stored: nothing may be sent to the sink of an older version.
        """
        records: dict[int, CheckpointRecord] = {}
        for bucket in self._buckets(lease):
            record = CheckpointRecord(self._termini, self._name, bucket)
            while not lease.ended:
                try:
                    await record.acquire(lease.fence)
                    break
                except TerminiUnavailable:
                    await asyncio.sleep(_RETRY_DELAY)
                except Fenced:
                    return
            records[bucket] = record
        await self._catch_up(lease)
        if not lease.ended:
            self._records.update(records)
            await self._listener.on_gained(self._buckets(lease))

    async def _catch_up(self, lease: Lease) -> None:
        while not lease.ended:
            if await self._listener.caught_up():
                break
            await asyncio.sleep(_RETRY_DELAY)

    async def _hand_over(self, lease: Lease) -> None:
        """Release the slice to another gateway."""
        self._acquiring[lease].cancel()
        try:
            await self._listener.on_revoked(self._buckets(lease))
            await self.write()
        finally:
            self._drop(lease)
            self._leases.release(lease, orderly=True)

    def _drop(self, lease: Lease) -> None:
        self._ending.discard(lease)
        if self._acquiring.pop(lease, None) is not None:
            for bucket in self._buckets(lease):
                self._records.pop(bucket, None)
            self._listener.on_lost(self._buckets(lease))

    # -- writing

    async def write(self, check_owner: Collection[int] = ()) -> None:
        """Write the changed checkpoints; `check_owner` are buckets whose owner is checked even without changes."""
        async with self._writing:
            taken = [
                (bucket, record, record.take_changes(check_owner=bucket in check_owner))
                for bucket, record in self._records.items()
            ]
            saves = [(bucket, record, save) for bucket, record, save in taken if save is not None]
            if not saves:
                return
            try:
                done = await self._termini.save([save for _, _, save in saves])
            except BaseException as error:
                for _, record, _ in saves:
                    record.restore_changes()
                if isinstance(error, TerminiUnavailable):
                    return
                raise
            for (bucket, record, _), saved in zip(saves, done, strict=True):
                if not saved:
                    self._on_overtaken(bucket, record, saved)

    def _on_overtaken(self, bucket: int, record: CheckpointRecord, saved: Saved) -> None:
        """Another process acquired the record, or it was deleted: acquire it again with a new lease."""
        LOG.warning("positions of subscriptions taken over", manager=self._name, gone=saved is Saved.GONE)
        if self._records.get(bucket) is record:
            self.over()
