"""Accounts of connections and their limits: which have to wait, and which are refused. Pure; integers are bytes.

Each connection has a limit of its own. Connections share a `Pool`: one for each user, one for the process. When a pool
is three quarters full, connections that hold more than a fair share of it are slowed down; when it is full, they are
refused. So a connection that holds little never notices the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

SMALL: Final = 16 * 1024
"""Bytes that every connection may hold in each direction; changes below it are not examined."""
CONNECTION: Final = 36 * 1024
"""Bytes of a connection that holds no message."""
LINK: Final = 6 * 1024
"""Bytes of a link that holds no message."""


class Level(IntEnum):
    """The consequence for a connection."""

    FREE = 0
    SLOW = 1
    REFUSE = 2


class HeldBytes(NamedTuple):
    """Bytes and deliveries held for one connection.

    `received`: messages of the peer that have no outcome yet, wherever they wait; `unfinished`: bytes of incomplete
    messages, and of posts in transactions that wait though their link has ended; `unsettled`: messages to the peer
    that have no outcome yet; `events`: those of logs once more, as they are at hand to be sent again; `output`: bytes
    it has not read; `kept`: events of logs that it released, to be sent again or on their way to a dead-letter topic,
    or settled in an open transaction.
    """

    received: int = 0
    unfinished: int = 0
    unsettled: int = 0
    output: int = 0
    kept: int = 0
    links: int = 0
    received_deliveries: int = 0
    unsettled_deliveries: int = 0
    events: int = 0

    @property
    def size(self) -> int:
        """All of it that messages take."""
        return self.received + self.unfinished + self.sent + self.kept

    @property
    def sent(self) -> int:
        """Bytes sent to the peer whose outcome is awaited."""
        return self.unsettled + self.events + self.output


NOTHING: Final = HeldBytes()


class Pool:
    """The `limit` in bytes that several accounts share; `holders` counts those that hold more than a little.

    `common` of `total` belongs to no share: bytes held for all of them together, and connections and links themselves.
    """

    __slots__ = ("common", "holders", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit: Final = limit
        self.total = self.common = 0
        self.holders = 0

    @property
    def share(self) -> int:
        """Bytes that one connection may hold in each direction when there is not enough for all."""
        return max((self.limit - self.common) // (2 * max(self.holders, 1)), SMALL)

    @property
    def crowded(self) -> bool:
        """Whether three quarters are used."""
        return self.total > self.limit - self.limit // 4

    def room(self, part: int) -> int:
        """Bytes that a connection with `part` in one direction may add before it is slowed down; below 0: it is."""
        return max(self.share - part, self.limit - self.limit // 4 - self.total)

    def level(self, part: int) -> Level:
        """The consequence for a connection that holds `part` in one direction."""
        if not self.crowded or part <= self.share:
            return Level.FREE
        return Level.SLOW if self.total <= self.limit else Level.REFUSE


class Account:
    """The account of one connection; `reading` and `sending` are the consequences for its peer.

    `keeping`: the same for events that are sent the first time. Released events are sent again even if there are many:
    that is the only way for them to become fewer.
    """

    __slots__ = ("_count", "_peak", "_pools", "end", "fixed", "held", "keeping", "limit", "reading", "sending", "total")

    def __init__(self, limit: int, pools: tuple[Pool, ...], end: Callable[[], None]) -> None:
        """`end` ends the connection if nothing else frees what it holds."""
        self.limit: Final = limit
        self.end: Final = end
        self._pools: Final = pools
        self.total = self.fixed = self._peak = self._count = 0
        self.held = NOTHING
        self.reading = self.sending = self.keeping = Level.FREE

    def charge(self, held: HeldBytes, buffer: int = 0) -> None:
        """Set what is held; `buffer`: the size of the buffer that output is written to.

        proton keeps it, and the memory of deliveries that are settled for the next ones, as long as the connection
        lives.
        """
        self._peak = max(self._peak, held.received + held.unsettled)
        self.held = held
        self._keep(held.size + self._peak - held.received - held.unsettled + buffer, CONNECTION + LINK * held.links)
        self.reading = self._level(held.received + held.unfinished)
        self.sending = self._level(held.sent)
        self.keeping = self._level(held.sent + held.kept)

    @property
    def room(self) -> int:
        """Bytes that may be sent to the peer before it is slowed down; below 0: it is."""
        sent = self.held.sent
        return min(self.limit // 2 - sent, *(pool.room(sent) for pool in self._pools))

    @property
    def retained(self) -> int:
        """Unused bytes that only the end of the connection frees."""
        return self.total - self.held.size - self.fixed

    def times(self) -> bool:
        """Count that its peer had to wait; returns whether to log it: the 1st, 2nd, 4th, 8th time and so on."""
        self._count += 1
        return self._count & (self._count - 1) == 0

    def close(self) -> None:
        """Nothing is held any more."""
        self.held = NOTHING
        self._keep(0, 0)

    def _keep(self, size: int, fixed: int) -> None:
        """`size` beside what is `fixed` for as long as the connection and its links are there, which is no share."""
        holds = (size > SMALL) - (self.total - self.fixed > SMALL)
        change, common = size + fixed - self.total, fixed - self.fixed
        self.total, self.fixed = size + fixed, fixed
        for pool in self._pools:
            pool.total += change
            pool.common += common
            pool.holders += holds

    def _level(self, part: int) -> Level:
        own = Level.FREE if part <= self.limit // 2 else Level.SLOW if part <= self.limit else Level.REFUSE
        return max(own, *(pool.level(part) for pool in self._pools))


class Budget:
    """The account of the process: `limit` bytes for all that is held."""

    def __init__(self, limit: int) -> None:
        self.pool: Final = Pool(limit)
        self.logs = self.detached = 0
        """Bytes of event logs, and of settled messages of links that have ended: for all links together."""
        self._users: Final[dict[tuple[str, str], tuple[Pool, set[Account]]]] = {}

    def open(
        self,
        scope: str,
        user: str,
        end: Callable[[], None],
        *,
        connection: int | None = None,
        per_user: int | None = None,
    ) -> Account:
        """An account for a connection of `user`; limits in bytes, None: half of the process's budget."""
        half = self.pool.limit // 2
        pool, accounts = self._users.setdefault((scope, user), (Pool(per_user or half), set()))
        account = Account(connection or half, (pool, self.pool), end)
        accounts.add(account)
        return account

    def close(self, scope: str, user: str, account: Account) -> None:
        """The connection has ended."""
        account.close()
        found = self._users.get((scope, user))
        if found is not None:
            found[1].discard(account)
            if not found[1]:
                del self._users[scope, user]

    def charge_logs(self, size: int) -> None:
        """Set the bytes held of event logs."""
        self._charge_common(size - self.logs)
        self.logs = size

    def charge_detached(self, size: int) -> None:
        """Set the bytes of settled messages that wait though their link has ended."""
        self._charge_common(size - self.detached)
        self.detached = size

    def _charge_common(self, more: int) -> None:
        self.pool.total += more
        self.pool.common += more

    @property
    def accounts(self) -> Iterator[Account]:
        """Those of all connections."""
        return (account for _, accounts in list(self._users.values()) for account in list(accounts))

    def heaviest(self) -> Iterator[Account]:
        """The connections to end, the heaviest first, until the total is below the limit; nothing else frees memory."""
        over = self.pool.total - self.pool.limit
        if over <= 0:
            return
        for account in sorted(self.accounts, key=lambda each: -each.total):
            if over <= 0 or account.total <= SMALL + CONNECTION:
                return
            over -= account.total
            yield account
