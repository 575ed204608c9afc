"""The leases of this process: which of its links owns which partition for a group, and until when (KM-10).

The record of a group (`leases_rules`) is on a board, in memory or in Redis (`leases_board`, `leases_redis`). A process
is a member while its session lasts; it renews at a third of the time to live. All its leases end with the session,
and end here first, by a clock of this machine that never goes back and counted from before the renewal was asked for:
whatever happens to the process or the network, `Lease.valid` is False before anybody else can own the partition.

Everything is decided by looking at the record: after each change that is told, after each renewal, and while a link
waits. So nothing is lost with a message.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from gateway.errors import DETACH_FORCED, AmqpError
from gateway.observability.logs import get_logger
from gateway.state.leases.claim import Claim, Now, Who
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
from gateway.state.leases.store import EVERYTHING, CasResult, LeaseStore, StoreUnavailable, VersionedRecord, read_group
from gateway.tasks import Supervisor, set_within, together

LOG: Final = get_logger(__name__)
T = TypeVar("T")
_MARGIN: Final = 0.1
"""The part of the time to live that the clocks of two machines may differ in, and bytes may take to the socket."""
_POLL, _PAUSE, _ATTEMPTS = 0.25, 0.2, 100


class Leases:
    """One process's part in all groups. `run` is a task for as long as the gateway serves."""

    def __init__(self, board: LeaseStore, supervisor: Supervisor, clock: Callable[[], float] = steady) -> None:
        self._board: Final = board
        self._supervisor: Final = supervisor
        self._clock: Final = clock
        self._stakes: Final[dict[str, GroupSession]] = {}
        self._names: Final = itertools.count(1)
        self._beating: Final = asyncio.Lock()
        self._closing = False
        self.member = ""
        self.about = ""
        """What other members may know of this one; told with the next beat."""
        self.deadline = 0.0
        board.listen(self._poke)

    @property
    def in_time(self) -> bool:
        """Whether the session certainly lasts."""
        return self._clock() < self.deadline

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`."""
        held = sum(len(stake.leases) for stake in self._stakes.values())
        if self.in_time:
            return True, f"{held} partitions held for consumer groups"
        return False, "the lease cannot be renewed: links of consumer groups are ended and refused"

    # -- for attaches

    async def claim(self, key: str, wish: LeaseRequest, gone: Callable[[], bool] = lambda: False) -> Lease:
        """A lease on a partition, perhaps after a while; AmqpError when there is none to be had.

        `gone` says that the link has left while it waited: then the claim is withdrawn.
        """
        await self._begin()
        who = Who(self.member, str(next(self._names)))
        stake = self._stake(key)
        changed = stake.waiting[who.link] = asyncio.Event()
        request = Claim(who, wish.partition, wish.epoch, wish.among, wish.pend, wish.retain_ms)
        denied: object = None
        try:
            denied, _ = await self._change(key, lambda group, now: group.claim(request, now))
            if isinstance(denied, ClaimDenied):
                raise refusal(denied, wish)
            return await self._granted(key, who, wish, changed, gone)
        except StoreUnavailable as error:
            self._withdraw(key, who)
            raise unavailable() from error
        except BaseException:
            if denied is None:
                self._withdraw(key, who)
            raise
        finally:
            stake.waiting.pop(who.link, None)
            self._tidy(key)

    async def _granted(
        self, key: str, who: Who, wish: LeaseRequest, changed: asyncio.Event, gone: Callable[[], bool]
    ) -> Lease:
        until = self._clock() + wish.pend_ms / 1000 if wish.pend else float("inf")
        changed.set()
        while not gone():
            if who.member != self.member or not self.in_time:
                raise StoreUnavailable("the session has expired")
            if changed.is_set():
                changed.clear()
                _, group = await self._change(key, lambda group, now: group.sweep(now))
                if (found := group.owned_by(who)) is not None and who.member == self.member:
                    lease = self._stake(key).leases[who.link] = Lease(self, key, *found)
                    return lease
                if not group.waits(who):
                    raise refusal(ClaimDenied.LOCKED, wish)
            if self._clock() >= until:
                raise AmqpError(DETACH_FORCED, f"no partition became free within {wish.pend_ms / 1000:g} s")
            await set_within(changed, _POLL)
        raise AmqpError(DETACH_FORCED, "the link was closed")

    def hold(self, lease: Lease, holder: LeaseListener) -> None:
        """From here on `holder` is told when the lease ends; what was missed so far is told soon."""
        lease.holder = holder
        self._poke(lease.key)

    def release(self, lease: Lease, *, orderly: bool) -> None:
        """The link of a lease has ended; `orderly`: its receiver closed it. Anybody who waits may go on."""
        if lease.ended:
            return
        lease.ended = True
        stake = self._stake(lease.key)
        if stake.leases.pop(lease.who.link, None) is not None:
            stake.leaving[lease.who.link] = lease.fence
            self._withdraw(lease.key, lease.who, orderly=orderly)

    # -- for links that share

    async def share(self, key: str, wish: LeaseRequest) -> tuple[Share, list[Lease]]:
        """A share of a group's partitions, and those that are free for it at once; AmqpError when there is none."""
        await self._begin()
        who = Who(self.member, str(next(self._names)))
        stake = self._stake(key)
        share = stake.shares[who.link] = Share(self, key, who)
        request = Claim(who, None, None, wish.among, wish.pend, wish.retain_ms)
        try:
            denied, group = await self._change(key, lambda group, now: group.share(request, now))
            if isinstance(denied, ClaimDenied):
                raise refusal(denied, wish)
            return share, stake.gain(self, share, group)
        except StoreUnavailable as error:
            self.leave(share)
            raise unavailable() from error
        except BaseException:
            self.leave(share)
            raise

    def hold_share(self, share: Share, holder: ShareListener) -> None:
        """From here on `holder` hears what the share gains and loses; what was missed so far is told soon."""
        share.holder = holder
        for lease in self._stake(share.key).parts(share):
            lease.holder = holder
        self._poke(share.key)

    def leave(self, share: Share) -> None:
        """The link of a share has ended: others get its partitions."""
        if share.ended:
            return
        share.ended = True
        stake = self._stake(share.key)
        for lease in stake.parts(share):
            lease.ended = True
            del stake.leases[lease.who.link]
        if stake.shares.pop(share.who.link, None) is not None:
            self._withdraw(share.key, share.who, orderly=True)

    # -- for operators, growth and sharding

    async def grow(self, key: str, partitions: int, among: tuple[int, ...]) -> None:
        """The log has this many partitions now; links of this process that wait may have those of `among`."""
        if (stake := self._stakes.get(key)) is not None:
            mine = {Who(self.member, link) for link in (*stake.waiting, *stake.shares)}
            await self._asked(self._change(key, lambda group, now: group.grow(partitions, mine, among, now)))

    async def deal_anew(self, key: str) -> Group:
        """End every link whose partition was assigned, in all processes, in good order (ES-4.5.1-5)."""
        await self._begin()
        _, group = await self._asked(self._change(key, lambda group, now: group.deal_anew(now)))
        return group

    async def view(self, key: str) -> Group:
        """The record as it is now."""
        return await self._asked(self._group(key))

    async def members(self) -> Mapping[str, str]:
        """Every process that is alive, and what it says about itself."""
        await self._begin()
        return await self._asked(self._board.members())

    @staticmethod
    async def _asked(question: Awaitable[T]) -> T:
        try:
            return await question
        except StoreUnavailable as error:
            raise unavailable() from error

    # -- the record

    async def _group(self, key: str) -> Group:
        return read_group(key, (await self._board.load(key)).text)

    async def _change(self, key: str, change: Callable[[Group, Now], object]) -> tuple[object, Group]:
        """Apply a transition to the record, again whenever somebody else was faster; may raise `Unavailable`."""
        async with self._stake(key).lock:
            for attempt in range(_ATTEMPTS):
                seen = await self._board.load(key)
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
        swapped = await self._board.swap(self.member, key, seen, text)
        if swapped is CasResult.EXPIRED:
            self._lost()
            raise StoreUnavailable("the session has expired")
        return swapped is CasResult.DONE

    def _withdraw(self, key: str, who: Who, *, orderly: bool = False) -> None:
        """Take back whatever a link has or may have; tried again by the next look when it fails."""
        if who.member == self.member:
            self._stake(key).unsure = True
            self._supervisor.start(self._withdrawn(key, who, orderly), f"lease-release:{key}")

    async def _withdrawn(self, key: str, who: Who, orderly: bool) -> None:
        try:
            await self._change(key, lambda group, now: group.release(who, now, orderly=orderly))
        except StoreUnavailable:
            return  # `unsure` stays: a look finds what is ours and nobody here knows
        self._poke(key)

    # -- looking

    def _stake(self, key: str) -> GroupSession:
        if (stake := self._stakes.get(key)) is None:
            stake = self._stakes[key] = GroupSession()
        return stake

    def _tidy(self, key: str) -> None:
        if (stake := self._stakes.get(key)) is not None and not stake.used:
            del self._stakes[key]

    def _poke(self, key: str) -> None:
        """Somebody has changed a record, or may have."""
        for each in list(self._stakes) if key == EVERYTHING else [key]:
            if (stake := self._stakes.get(each)) is not None:
                stake.wake()
                stake.again = True
                if not stake.looking:
                    stake.looking = True
                    self._supervisor.start(self._look(each, stake), f"lease-look:{each}")

    async def _look(self, key: str, stake: GroupSession) -> None:
        try:
            while stake.again:
                stake.again = False
                if stake.leases or stake.shares or stake.unsure:
                    _, group = await self._change(key, lambda group, now: group.sweep(now))
                    self._compare(key, stake, group)
        except StoreUnavailable:
            stake.unsure = True
        finally:
            stake.looking = False
            self._tidy(key)

    def _compare(self, key: str, stake: GroupSession, group: Group) -> None:
        """Tell owners what the record says; release what is ours and nobody here knows."""
        for lease in list(stake.leases.values()):
            owned = group.owned_by(lease.who)
            if owned is None or owned[1].fence != lease.fence:
                self._end(lease)
            elif lease.holder is None:
                continue  # told when it is there
            elif owned[1].successor is not None:
                self._supervisor.attempt(partial(lease.holder.stop, lease, RevocationReason.DISPLACED), "lease-stop")
            elif not lease.chosen and group.round > lease.round and not lease.dealt:
                lease.dealt = True
                self._supervisor.attempt(partial(lease.holder.stop, lease, RevocationReason.DEALT), "lease-stop")
        self._compare_shares(stake, group)
        stake.unsure = False
        for link in stake.strange(group, self.member):
            self._withdraw(key, Who(self.member, link))

    def _compare_shares(self, stake: GroupSession, group: Group) -> None:
        sharing = {claim.who for claim in group.sharing}
        for share in [share for share in stake.shares.values() if share.holder is not None]:
            if share.who not in sharing:
                self._supervisor.attempt(partial(stake.lose, share), "lease-lost")
                continue
            for lease in stake.gain(self, share, group):
                self._supervisor.attempt(partial(share.holder.gained, lease), "lease-gained")  # type: ignore[union-attr]

    def _end(self, lease: Lease) -> None:
        self._stake(lease.key).leases.pop(lease.who.link, None)
        lease.ended = True
        if lease.holder is not None:
            # A link that fails to end must not keep others from ending: they would go on without a lease.
            self._supervisor.attempt(partial(lease.holder.stop, lease, RevocationReason.LOST), "lease-stop")

    # -- the session

    async def _begin(self) -> None:
        """Make sure that there is a session; AmqpError when there cannot be one."""
        if not (self.in_time or self.member or self._closing):
            await self._asked(self.beat())
        if not self.in_time or self._closing:
            raise unavailable()

    async def beat(self) -> None:
        """Renew the session, or begin a new one after the old one has expired; may raise `Unavailable`."""
        async with self._beating:
            lasts = float("inf") if self._board.ttl is None else self._board.ttl * (1 - _MARGIN)
            member, asked = self.member, self._clock()
            if member and await self._board.beat(member, self.about, list(self._stakes)):
                if member == self.member:  # else the deadline came first, and everybody has been told
                    self.deadline = asked + lasts
                return
            self._lost()
            member, asked = secrets.token_hex(8), self._clock()
            await self._board.join(member, self.about)
            self.member, self.deadline = member, asked + lasts

    def _lost(self) -> None:
        """The session is over, or must be taken for over: nothing here is owned any more."""
        self.member, self.deadline = "", 0.0
        leases = [lease for stake in self._stakes.values() for lease in stake.leases.values()]
        if leases:
            LOG.warning("leases of groups lost", held=len(leases))
        for lease in leases:
            self._end(lease)
        for key, stake in list(self._stakes.items()):
            for share in list(stake.shares.values()):
                self._supervisor.attempt(partial(stake.lose, share), "lease-lost")
            stake.unsure = False
            stake.wake()
            self._tidy(key)

    async def run(self) -> None:
        """Renew, watch the deadline, hear of changes, look at everything now and then; until cancelled."""
        await together(self._beats(), self._watch(), self._board.run(), self._looks())

    @property
    def _third(self) -> float:
        return 1.0 if self._board.ttl is None else self._board.ttl / 3

    async def _beats(self) -> None:
        while not self._closing:
            pause = self._third
            try:
                await self.beat()
            except StoreUnavailable:
                pause = _PAUSE
            await asyncio.sleep(pause)

    async def _watch(self) -> None:
        """End the leases when their time is over, even while a renewal is still awaited."""
        while True:
            if self.member and not self.in_time:
                self._lost()
            left = self.deadline - self._clock() if self.member else _PAUSE
            await asyncio.sleep(min(max(left, 0.01), 1.0))

    async def _looks(self) -> None:
        while True:
            await asyncio.sleep(self._third)
            self._poke(EVERYTHING)

    async def close(self) -> None:
        """End the session: others need not wait until it expires."""
        self._closing = True
        member, self.member, self.deadline = self.member, "", 0.0
        try:
            if member:
                await self._board.leave(member)
        except StoreUnavailable:
            LOG.info("the lease of groups is left to expire")
        await self._board.close()
