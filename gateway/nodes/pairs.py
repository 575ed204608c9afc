"""Link pairs: two links of one session with one name, and what `$me` means on them (ledger CORE-10, RA 2.3).

The receiving half of a requester consumes no node: it receives the responses of its pair, at a temporary node whose
address cannot be guessed, so that a cookie can name it like any other address.

A responder's pair consumes requests on that half and answers on the other (RA-2.3-8). It is recognized by its sending
half, which is attached first: it leads to `$replies.<scope>`, or to the anonymous terminus while the source of the
receiving half is a node that the peer may receive from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from gateway.amqp.codec.codec import Symbol
from gateway.errors import NOT_ALLOWED, AmqpError
from gateway.links.link import NodeLink
from gateway.links.link_context import Pair, PairSender
from gateway.nodes.temporary import Temporary
from gateway.principal import client
from policies.rules import ServiceRoute

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.nodes.base import Resolver
    from gateway.nodes.temporary import Temporaries

PAIRED: Final = Symbol("paired")
"""The link property of both halves; it is not passed on to other containers."""
ECHO: Final = {PAIRED: True}
"""The link properties of both answers (CORE-10)."""
_LATE: Final = "a responder has to attach the sending half of its link pair, to $replies, first"


class _Responses(Temporary):
    """The receiving half of a requester: only its own link receives."""

    named_here = False
    pair: Pair

    def attach(self, link: NodeLink) -> None:
        if not link.incoming and link is not self.creator:
            raise AmqpError(NOT_ALLOWED, "only the link pair itself receives its responses")
        super().attach(link)

    def close(self, error: AmqpError | None = None) -> None:
        if self.pair.address == self.address:
            self.pair.address = None
        super().close(error)


class Pairs:
    """The pairs of one scope; a pair is forgotten with both its links."""

    def __init__(self, scope: Resolver, temporaries: Temporaries) -> None:
        self._scope: Final = scope
        self._temporaries: Final = temporaries
        self._pairs: WeakValueDictionary[tuple[Any, str], Pair] = WeakValueDictionary()

    def of(self, link: Link) -> Pair | None:
        """The pair of a link that asks to be half of one."""
        if link.properties.get(PAIRED) is not True:
            return None
        link.fixed_properties = ECHO
        key = (link.session, link.name)
        if (pair := self._pairs.get(key)) is None:
            pair = self._pairs[key] = Pair()
        if link.incoming:
            self._sends(link, pair)
        return pair

    def _sends(self, link: Link, pair: Pair) -> None:
        pair.sender = link
        if pair.address is not None and self._takes_responses(link):  # the other half was treated as a requester's
            self._temporaries.at(pair.address).close(AmqpError(NOT_ALLOWED, _LATE))

    def _takes_responses(self, sender: PairSender) -> bool:
        return sender.target.address is not None and self._scope.takes_replies(sender.target.address)

    def consumes(self, link: Link, pair: Pair) -> bool:
        """Whether this receiving half consumes its source: the pair is a responder's."""
        pair.responder = False
        sender = pair.sender
        if sender is not None and sender.open and link.address is not None and not link.source.dynamic:
            unnamed = sender.target.address is None and not sender.target.dynamic
            pair.responder = self._takes_responses(sender) or (unnamed and self._may_receive(link))
        return pair.responder

    def _may_receive(self, link: Link) -> bool:
        try:
            decided = self._scope.decide("receive", link.address or "", client(link))
        except AmqpError:
            return False
        return not isinstance(decided.routes[-1], ServiceRoute)

    def attach_responses(self, link: Link, pair: Pair) -> None:
        """Attach the half for responses; it needs the right to send requests to the same address."""
        if link.address is not None:
            self._scope.decide("send", link.address, client(link))
        node = self._temporaries.add(_Responses, link)
        node.pair = pair
        node.attach(link)
        pair.address = node.address
