"""Limits of a listener and of each of its users: connections, links, and the rate of new connections.

Connections also leave a reserve of file descriptors for health checks and backends.
"""

from __future__ import annotations

import resource
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from policies.model.scopes.listen import ListenerLimits

_RESERVE: Final = 64
"""Descriptors reserved for the HTTP port, Kafka, Redis, files and connectors; at most a quarter of the limit."""


def leaves_reserve(descriptor: int) -> bool:
    """Whether an accepted socket is outside the reserve: the system assigns the lowest free number."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit == resource.RLIM_INFINITY or descriptor < limit - min(_RESERVE, limit // 4)


class Usage:
    """The connections and links of one user; removed with its last connection."""

    __slots__ = ("connections", "links", "recent")

    def __init__(self) -> None:
        self.connections = 0
        self.links: set[Link] = set()
        self.recent: deque[float] = deque()


class Refusal(Exception):
    """A connection over a user's limit: `reason` is for the counter, `error` for the peer."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason: Final = reason
        self.error: Final = AmqpError(RESOURCE_LIMIT_EXCEEDED, text)


class Quota:
    """Counts what the limits of a listener restrict, in total and for each user.

    A listener that replaces another one at the same address continues its quota; `limits` are those of the present
    policy.
    """

    def __init__(self, limits: ListenerLimits) -> None:
        self.limits = limits
        self._connections = 0
        self._recent: deque[float] = deque()
        self._users: dict[str, Usage] = {}

    def refusal(self, now: float, waiting: int) -> str | None:
        """Why one more connection exceeds a limit, or None: then it counts for the rate.

        `waiting` connections are accepted, but not yet `connected`.
        """
        while self._recent and self._recent[0] < now - 1:
            self._recent.popleft()
        if self._connections + waiting >= self.limits.connections:
            return "too-many-connections"
        if len(self._recent) >= self.limits.opens_per_second:
            return "too-many-opens"
        self._recent.append(now)
        return None

    def connected(self) -> None:
        """A connection was made; its user is not known yet."""
        self._connections += 1

    def disconnected(self) -> None:
        """A connection has ended."""
        self._connections -= 1

    def opened(self, user: str, now: float) -> None:
        """A connection of `user` is open.

        Raises `Refusal` if that exceeds a limit (`closed` must follow all the same).
        """
        use, limits = self._users.setdefault(user, Usage()), self.limits
        use.connections += 1
        if limits.users is not None and use.connections > limits.users:
            raise Refusal("too-many-connections-of-user", f"connection limit of this user ({limits.users}) exceeded")
        if (rate := limits.user_opens_per_second) is not None:
            while use.recent and use.recent[0] < now - 1:
                use.recent.popleft()
            if len(use.recent) >= rate:
                raise Refusal("too-many-opens-of-user", f"limit of this user ({rate} connections a second) exceeded")
            use.recent.append(now)

    def closed(self, user: str) -> None:
        """A connection of `user` has ended."""
        use = self._users[user]
        use.connections -= 1
        self._forget(user, use)

    def _forget(self, user: str, use: Usage) -> None:
        """Forget a user without connections; one that only a link's token has named may have links."""
        if not (use.connections or use.links or use.recent):
            del self._users[user]

    def attach(self, user: str, link: Link) -> None:
        """A link of `user` is requested; raises the AMQP error if that exceeds the limit."""
        most, links = self.limits.user_links, self._users.setdefault(user, Usage()).links
        if most is not None and len(links) >= most:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"link limit of this user ({most}) exceeded")
        links.add(link)

    def detached(self, user: str, link: Link) -> None:
        """A link of `user` was refused or has ended."""
        if (use := self._users.get(user)) is not None:
            use.links.discard(link)
            self._forget(user, use)


class Quotas:
    """The quota of each address of each scope."""

    def __init__(self) -> None:
        self._quotas: dict[tuple[str, str], Quota] = {}

    def of(self, scope: str, bind: str, limits: ListenerLimits) -> Quota:
        """The quota of a listener, continued from an earlier one at its address; `limits` apply from now on."""
        quota = self._quotas.setdefault((scope, bind), Quota(limits))
        quota.limits = limits
        return quota

    def keep(self, used: Iterable[tuple[str, str]]) -> None:
        """Forget the addresses that no listener uses any more."""
        wanted = set(used)
        self._quotas = {key: quota for key, quota in self._quotas.items() if key in wanted}
