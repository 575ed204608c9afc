"""What one user may have at a listener: connections, links, and how fast connections may come."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link import Link
    from policies.model_scope import Limits


class _Use:
    """What one user has now; gone with its last connection."""

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
    """Counts per user what the limits of a listener allow each; a limit that is not set counts nothing."""

    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._users: dict[str, _Use] = {}

    def opened(self, user: str, now: float) -> None:
        """A connection of `user` is open; raises `Refusal` when that is one too many (it still has to be `closed`)."""
        use, limits = self._users.setdefault(user, _Use()), self._limits
        use.connections += 1
        if limits.users is not None and use.connections > limits.users:
            raise Refusal("too-many-connections-of-user", f"at most {limits.users} connections a user")
        if (rate := limits.user_opens_per_second) is not None:
            while use.recent and use.recent[0] < now - 1:
                use.recent.popleft()
            if len(use.recent) >= rate:
                raise Refusal("too-many-opens-of-user", f"at most {rate} new connections a second and user")
            use.recent.append(now)

    def closed(self, user: str) -> None:
        """A connection of `user` has ended."""
        use = self._users[user]
        use.connections -= 1
        if not use.connections and not use.recent:
            del self._users[user]

    def attach(self, user: str, link: Link) -> None:
        """A link of `user` is asked for; raises the AMQP error when that is one too many."""
        most = self._limits.user_links
        if most is None:
            return
        links = self._users[user].links
        if len(links) >= most:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"at most {most} links a user")
        links.add(link)

    def detached(self, user: str, link: Link) -> None:
        """A link of `user` was refused or has ended."""
        if (use := self._users.get(user)) is not None:
            use.links.discard(link)
