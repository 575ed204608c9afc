"""The leases of this process: the partitions of groups that its links own (KM-10).

The record of a group (`group.Group`) is in a store, in memory or in Redis (`store`, `redis_store`). A process is a
member while its session lasts; it renews the session every third of the time to live. All its leases end with the
session, and they end here first: the deadline counts from before the renewal was sent, on this machine's monotonic
clock. Whatever happens to the process or the network, `Lease.valid` is False before another link owns the partition.

All decisions follow from the record, which is read after each notified change, at intervals, and while a link waits. So
a lost notification only causes a delay.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from gateway.errors import DETACH_FORCED, AmqpError
from gateway.observability.logs import get_logger
from gateway.state.leases.claim import Claim, GroupLink, Now
from gateway.state.leases.group import ClaimDenied, Group
from gateway.state.leases.lease import (
    GroupSession,
    Lease,
    LeaseListener,
    LeaseRequest,
    RevocationReason,
    Share,
    ShareListener,
    refusal,
    steady,
    unavailable,
)
from gateway.state.leases.session import ProcessSession
from gateway.state.leases.store import EVERYTHING, CasResult, LeaseStore, StoreUnavailable, VersionedRecord, read_group
from gateway.tasks import Supervisor, run_together, set_within

LOG: Final = get_logger(__name__)
T = TypeVar("T")
_POLL, _ATTEMPTS = 0.25, 100


class Leases:
    """The leases of this process in all groups. `run` is a task while the gateway serves."""

    def __init__(self, store: LeaseStore, supervisor: Supervisor, clock: Callable[[], float] = steady) -> None:
        self._store: Final = store
        self._supervisor: Final = supervisor
        self._clock: Final = clock
        self._sessions: Final[dict[str, GroupSession]] = {}
        self._names: Final = itertools.count(1)
        self.session: Final = ProcessSession(store, clock, lambda: self._sessions, self._lost)
        store.listen(self._on_change)

    @property
    def member(self) -> str:
        """The name of this process in the store; empty while it has no session."""
        return self.session.member

    @property
    def in_time(self) -> bool:
        """Whether the session certainly has not expired."""
        return self.session.in_time

    def groups(self) -> list[str]:
        """The keys of the groups in which links of this process are, or wait."""
        return sorted(self._sessions)

    def ready(self) -> tuple[bool, str]:
        """Readiness and its reason, for `/readyz`."""
        held = sum(len(session.leases) for session in self._sessions.values())
        if self.in_time:
            return True, f"{held} partitions held for consumer groups"
        return False, "the lease cannot be renewed: links of consumer groups are ended and refused"

    # -- for attaches

    async def claim(self, key: str, request: LeaseRequest, gone: Callable[[], bool] = lambda: False) -> Lease:
        """Claim a partition, and wait for it if the request allows; raises AmqpError if it is denied.

        `gone()` returns whether the link has ended while it waited; the claim is then withdrawn.
        """
        await self._begin()
        who = GroupLink(self.member, str(next(self._names)))
        session = self._session_of(key)
        changed = session.waiting[who.link] = asyncio.Event()
        claim = request.claim(who)
        denied: object = None
        try:
            denied, _ = await self._change(key, lambda group, now: group.claim(claim, now))
            if isinstance(denied, ClaimDenied):
                raise refusal(denied, request)
            return await self._granted(key, who, request, changed, gone)
        except StoreUnavailable as error:
            self._withdraw(key, who)
            raise unavailable() from error
        except BaseException:
            if denied is None:
                self._withdraw(key, who)
            raise
        finally:
            session.waiting.pop(who.link, None)
            self._tidy(key)

    async def _granted(
        self, key: str, who: GroupLink, request: LeaseRequest, changed: asyncio.Event, gone: Callable[[], bool]
    ) -> Lease:
        until = self._clock() + request.pend_ms / 1000 if request.pend else float("inf")
        changed.set()
        while not gone():
            if who.member != self.member or not self.in_time:
                raise StoreUnavailable("the session has expired")
            if changed.is_set():
                changed.clear()
                _, group = await self._change(key, lambda group, now: group.sweep(now))
                if (found := group.owned_by(who)) is not None and who.member == self.member:
                    lease = self._session_of(key).leases[who.link] = Lease(self, key, *found)
                    return lease
                if not group.waits(who):
                    raise refusal(ClaimDenied.LOCKED, request)
            if self._clock() >= until:
                raise AmqpError(DETACH_FORCED, f"no partition became free within {request.pend_ms / 1000:g} s")
            await set_within(changed, _POLL)
        raise AmqpError(DETACH_FORCED, "the link was closed")

    def hold(self, lease: Lease, holder: LeaseListener) -> None:
        """Notify `holder` when the lease has to end, also if that happened before this call."""
        lease.holder = holder
        self._on_change(lease.key)

    def release(self, lease: Lease, *, orderly: bool) -> None:
        """Release the lease of a link that has ended; `orderly`: its receiver closed it."""
        if lease.ended:
            return
        lease.ended = True
        session = self._session_of(lease.key)
        if session.leases.pop(lease.who.link, None) is not None:
            session.leaving[lease.who.link] = lease.fence
            self._withdraw(lease.key, lease.who, orderly=orderly)

    # -- for links that share

    async def share(self, key: str, request: LeaseRequest) -> tuple[Share, list[Lease]]:
        """Add a link to the sharing links of a group; returns its share and first partitions, or raises AmqpError."""
        await self._begin()
        who = GroupLink(self.member, str(next(self._names)))
        session = self._session_of(key)
        share = session.shares[who.link] = Share(self, key, who)
        claim = Claim(who, None, None, request.among, request.pend, request.retain_ms)
        try:
            denied, group = await self._change(key, lambda group, now: group.share(claim, now))
            if isinstance(denied, ClaimDenied):
                raise refusal(denied, request)
            if share.ended:  # meanwhile: nobody would be told later
                raise StoreUnavailable("the session has expired")
            return share, session.gain(self, share, group)
        except StoreUnavailable as error:
            self.leave(share)
            raise unavailable() from error
        except BaseException:
            self.leave(share)
            raise

    def hold_share(self, share: Share, holder: ShareListener) -> None:
        """Notify `holder` of partitions that the share gains and loses, including changes before this call."""
        share.holder = holder
        for lease in self._session_of(share.key).parts(share):
            lease.holder = holder
        self._on_change(share.key)

    def leave(self, share: Share) -> None:
        """Remove the share of a link that has ended; other links get its partitions."""
        if share.ended:
            return
        share.ended = True
        session = self._session_of(share.key)
        for lease in session.parts(share):
            lease.ended = True
            del session.leases[lease.who.link]
        if session.shares.pop(share.who.link, None) is not None:
            self._withdraw(share.key, share.who, orderly=True)

    # -- for operators, growth and sharding

    async def grow(self, key: str, partitions: int, among: tuple[int, ...]) -> None:
        """The log now has `partitions`: let waiting and sharing links of this process have any of `among`."""
        if (session := self._sessions.get(key)) is not None:
            mine = {GroupLink(self.member, link) for link in (*session.waiting, *session.shares)}
            await self._answered(self._change(key, lambda group, now: group.grow(partitions, mine, among, now)))

    async def rebalance(self, key: str) -> Group:
        """Ask all links with an assigned partition, in all processes, to end cleanly (ES-4.5.1-5)."""
        await self._begin()
        _, group = await self._answered(self._change(key, lambda group, now: group.rebalance(now)))
        return group

    async def view(self, key: str) -> Group:
        """The current record."""
        return await self._answered(self._group(key))

    async def members(self) -> Mapping[str, str]:
        """The processes that are alive, and their descriptions."""
        await self._begin()
        return await self._answered(self._store.members())

    @staticmethod
    async def _answered(question: Awaitable[T]) -> T:
        try:
            return await question
        except StoreUnavailable as error:
            raise unavailable() from error

    # -- the record

    async def _group(self, key: str) -> Group:
        return read_group(key, (await self._store.load(key)).text)

    async def _change(self, key: str, change: Callable[[Group, Now], object]) -> tuple[object, Group]:
        """Apply a transition to the record, and retry after concurrent changes; may raise `StoreUnavailable`."""
        async with self._session_of(key).lock:
            for attempt in range(_ATTEMPTS):
                seen = await self._store.load(key)
                group = read_group(key, seen.text)
                result = change(group, seen.now)
                text = "" if group.empty and not group.epochs else group.dump()
                if await self._stored(key, seen, text):
                    break
                await asyncio.sleep(random.uniform(0, 0.002) * attempt)  # noqa: S311 (not a secret)
            else:
                raise StoreUnavailable("too many processes want the same group")
        self._tidy(key)
        return result, group

    async def _stored(self, key: str, seen: VersionedRecord, text: str) -> bool:
        if text == seen.text:
            return True
        swapped = await self._store.swap(self.member, key, seen, text)
        if swapped is CasResult.EXPIRED:
            self.session.expired()
            raise StoreUnavailable("the session has expired")
        return swapped is CasResult.DONE

    def _withdraw(self, key: str, who: GroupLink, *, orderly: bool = False) -> None:
        """Release everything that a link has or may have; if this fails, it is retried when the record is read next."""
        if who.member == self.member:
            self._session_of(key).unsure = True
            self._supervisor.start(self._withdrawn(key, who, orderly), f"lease-release:{key}")

    async def _withdrawn(self, key: str, who: GroupLink, orderly: bool) -> None:
        try:
            await self._change(key, lambda group, now: group.release(who, now, orderly=orderly))
        except StoreUnavailable:
            return  # `unsure` stays set, so that the next reading of the record tries again
        self._on_change(key)

    # -- reading the record

    def _session_of(self, key: str) -> GroupSession:
        if (session := self._sessions.get(key)) is None:
            session = self._sessions[key] = GroupSession()
        return session

    def _tidy(self, key: str) -> None:
        if (session := self._sessions.get(key)) is not None and not session.used:
            del self._sessions[key]

    def _on_change(self, key: str) -> None:
        """Start reading a record that may have changed."""
        for each in list(self._sessions) if key == EVERYTHING else [key]:
            if (session := self._sessions.get(each)) is not None:
                session.wake()
                session.again = True
                if not session.looking:
                    session.looking = True
                    self._supervisor.start(self._look(each, session), f"lease-look:{each}")

    async def _look(self, key: str, session: GroupSession) -> None:
        try:
            while session.again:
                session.again = False
                if session.leases or session.shares or session.unsure:
                    _, group = await self._change(key, lambda group, now: group.sweep(now))
                    self._compare(key, session, group)
        except StoreUnavailable:
            session.unsure = True
        finally:
            session.looking = False
            self._tidy(key)

    def _compare(self, key: str, session: GroupSession, group: Group) -> None:
        """Notify owners of changes in the record, and release links of ours that this process does not know."""
        for lease in list(session.leases.values()):
            owned = group.owned_by(lease.who)
            if owned is None or owned[1].fence != lease.fence:
                self._end(lease)
            elif lease.holder is None:
                continue  # `hold` reads the record again
            elif (successor := owned[1].successor) is not None:
                equal = successor.epoch == owned[1].epoch
                why = RevocationReason.EQUALLED if equal else RevocationReason.DISPLACED
                self._supervisor.attempt(partial(lease.holder.stop, lease, why), "lease-stop")
            elif not lease.chosen and group.round > lease.round and not lease.asked_to_end:
                lease.asked_to_end = True
                self._supervisor.attempt(partial(lease.holder.stop, lease, RevocationReason.REBALANCED), "lease-stop")
        self._compare_shares(session, group)
        session.unsure = False
        for link in session.strange(group, self.member):
            self._withdraw(key, GroupLink(self.member, link))

    def _compare_shares(self, session: GroupSession, group: Group) -> None:
        sharing = {claim.who for claim in group.sharing}
        for share in [share for share in session.shares.values() if share.holder is not None]:
            if share.who not in sharing:
                self._supervisor.attempt(partial(session.lose, share), "lease-lost")
                continue
            for lease in session.gain(self, share, group):
                self._supervisor.attempt(partial(share.holder.gained, lease), "lease-gained")  # type: ignore[union-attr]

    def _end(self, lease: Lease) -> None:
        self._session_of(lease.key).leases.pop(lease.who.link, None)
        lease.ended = True
        if lease.holder is not None:
            # An error of one link must not keep the others from ending: they have no lease any more.
            self._supervisor.attempt(partial(lease.holder.stop, lease, RevocationReason.LOST), "lease-stop")

    # -- the session

    async def _begin(self) -> None:
        """Ensure that there is a session; raises AmqpError if there is none and none can begin."""
        session = self.session
        if not (session.in_time or session.member or session.closing):
            await self._answered(session.heartbeat())
        if not session.in_time or session.closing:
            raise unavailable()

    def _lost(self) -> None:
        """The session has expired, or may have: end all leases and shares."""
        leases = [lease for session in self._sessions.values() for lease in session.leases.values()]
        if leases:
            LOG.warning("group leases lost", held=len(leases))
        for lease in leases:
            self._end(lease)
        for key, session in list(self._sessions.items()):
            for share in list(session.shares.values()):
                self._supervisor.attempt(partial(session.lose, share), "lease-lost")
            session.unsure = False
            session.wake()
            self._tidy(key)

    async def run(self) -> None:
        """Renew the session, watch the deadline, receive notifications and read all records at intervals."""
        session = self.session
        await run_together(session.renew(), session.watch_deadline(), self._store.run(), self._looks())

    async def _looks(self) -> None:
        while True:
            await asyncio.sleep(self.session.interval)
            self._on_change(EVERYTHING)

    async def close(self) -> None:
        """End the session, so that other members need not wait until it expires."""
        await self.session.close()
