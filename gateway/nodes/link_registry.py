"""Link stealing: a later attach of the same link ends the earlier one (AMQP 1.0 part 2, 2.6.1; row CORE-7).

A link is identified by the containers at its ends, its name and its direction. The user counts, too, so that a client
with the container id of another user steals none of its links. A container without an id is not registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.errors import STOLEN, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link

_Key = tuple[str, str, str, bool]
_TEXT: Final = (
    "a link of the same name was attached by a container with the same id; "
    "give each connection a container id of its own"
)


class LinkRegistry:
    """The open links of one scope, by their identity."""

    def __init__(self) -> None:
        self._holders: Final[dict[_Key, Link]] = {}

    def register(self, link: Link) -> Link | None:
        """Register `link`.

        An earlier link of the same identity is ended first, with `amqp:link:stolen`, and returned.
        """
        if not link.engine.remote_container:
            return None
        key = _key(link)
        holder, self._holders[key] = self._holders.get(key), link
        if holder is not None:
            holder.end(AmqpError(STOLEN, _TEXT, scope=holder.scope))
        return holder

    def release(self, link: Link) -> None:
        """The link has ended or was refused."""
        key = _key(link)
        if self._holders.get(key) is link:
            del self._holders[key]

    def __len__(self) -> int:
        return len(self._holders)


def _key(link: Link) -> _Key:
    return link.user, link.engine.remote_container, link.name, link.incoming
