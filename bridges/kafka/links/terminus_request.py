"""What a link asks to have stored: a durable source, or the position of a consumer group (ES-3.2-7, KM-10, KM-11)."""

from __future__ import annotations

from typing import Final, NamedTuple

from bridges.kafka.links.group_start import digest
from gateway.links.link import OutgoingLink

NEVER: Final = 3
"""The expiry policy `never`."""


class TerminusRequest(NamedTuple):
    """What to store and for how long; `group` is the Kafka group that shows it.

    `about`: a digest of what the positions refer to; a record about something else is replaced. `expiry` and `timeout`
    (seconds) are the source's (AMQP 3.5.3). `wins`: the stored position takes precedence over one in the filter.
    `owner`: the user whose limit counts the record; empty: nobody's.
    """

    key: str
    about: str
    group: str
    expiry: int
    timeout: int
    wins: bool
    owner: str

    @property
    def ttl_ms(self) -> int | None:
        """How long the record lives after the end of its link, session or connection; None: for ever."""
        return None if self.expiry == NEVER else self.timeout * 1000


def durable_terminus(link: OutgoingLink, node: str, about: object) -> TerminusRequest | None:
    """The request of a durable source; None: it does not outlive its link, or the peer has no container-id."""
    container = link.engine.remote_container
    if not link.source.durable or not container:
        return None
    if link.source.expiry != NEVER and not link.source.timeout:
        return None  # it would end with its link, at the latest with its connection
    key = digest([link.scope, link.user, container, link.name, node])
    group = link.offset_group or f"amqp.{key}"
    return TerminusRequest(key, digest(about), group, link.source.expiry, link.source.timeout, True, _owner(link))


def group_terminus(link: OutgoingLink, group: str, node: str, partition: int, identity: object) -> TerminusRequest:
    """The position of a consumer group in a partition; it never expires, and a position in a filter takes precedence.

    It counts towards the limit of the user whose link was the first.
    """
    key = digest(["group", node, group, partition])
    return TerminusRequest(key, digest(identity), f"amqp.{group}", NEVER, 0, False, _owner(link))


def _owner(link: OutgoingLink) -> str:
    """The user of the link; empty for links of the gateway itself."""
    return digest([link.scope, link.user]) if link.user else ""
