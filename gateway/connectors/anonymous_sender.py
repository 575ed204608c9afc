"""One link to the anonymous terminus of the container behind a connector (AT 2.3, as its user).

Such a link carries a message only where its own `to` already is the destination: `to` is part of the bare message,
and nobody may change it. Everything else takes a link to its address, as without the capability.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from gateway.amqp.codec.codec import encode
from gateway.amqp.message.properties import TO
from gateway.amqp.message.sections import property_field, walk
from gateway.amqp.proton.proton_data import AttachReply
from gateway.connectors.relay import Relay
from gateway.connectors.transactions.node import TransactedNode
from gateway.errors import DETACH_FORCED, AmqpError, Fault
from gateway.links.link import IncomingLink, NodeLink, TransformFactory, is_incoming
from gateway.nodes.direct.endpoints import ReceiverEndpoint, SenderEndpoint
from gateway.routing.destination_link import Destination
from gateway.routing.message_router import MessageRouter

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link
    from gateway.connectors.port import ConnectorPort

_ANONYMOUS_RELAY: Final = "ANONYMOUS-RELAY"
_numbers: Final = count(1)


class SharedAnonymousSender(TransactedNode):
    """The shared link and the routes that use it; recreated with each connection that offers the capability."""

    def __init__(self, connector: ConnectorPort, make_transform: TransformFactory) -> None:
        super().__init__("", make_transform, connector.transactions)
        self._connector: Final = connector
        self._engine: Engine | None = None
        self.remote: Link | None = None
        self._waiting: Final[dict[IncomingLink, None]] = {}
        """Routes that wait for the connector's reply address."""

    @property
    def usable(self) -> bool:
        """Whether the present connection supports it: offered, and the link was not refused."""
        return self._engine is not None

    @property
    def attended(self) -> bool:
        """True: the connector reconnects."""
        return True

    def opened(self, engine: Engine) -> None:
        """The connector is connected; the link is used only if the capability is desired and offered (AT-2.3-3, -5)."""
        self._engine = engine if _ANONYMOUS_RELAY in engine.offered else None

    def attach(self, link: NodeLink) -> None:
        assert is_incoming(link)  # only senders have destinations

        def join(error: AmqpError | None) -> None:
            if self._waiting.pop(link, self) is self:
                return  # it was refused meanwhile
            if error is not None or self._engine is None:
                link.refuse(error or self._gone())
                return
            end = SenderEndpoint(self, link)
            self.join(end)
            link.accept(end, max_message_size=link.engine.config.max_message_size)
            self.distribute_credit()
            self._open()

        self._waiting[link] = None
        self._connector.when_returnable(link, join)

    def closed(self) -> None:
        """The connection was lost.

        Routes that wait for the reply address are refused, because nothing else would end them.
        """
        self._engine = None
        waiting = list(self._waiting)
        self._waiting.clear()
        for link in waiting:
            link.refuse(self._gone())

    def _open(self) -> None:
        if self.remote is None:
            assert self._engine is not None
            self.remote = remote = self._engine.attach(f"relay-{next(_numbers)}", incoming=False)
            remote.request(_NullTargetReceiver(self, remote), AttachReply())

    def attached(self, end: ReceiverEndpoint, remote: Link) -> None:
        remote.context = self._connector.remote_context(routes_responses=True)
        self.join(end)
        self.credited(end)

    def ended(self, error: AmqpError | None) -> None:
        """The link was refused or has ended: end its routes; their messages use separate links."""
        self.remote = self._engine = None
        for inlet in list(self.sender_endpoints):
            inlet.link.detach(error or self._gone())

    def _gone(self) -> AmqpError:
        text = "the relay behind this address was lost; try again"
        return AmqpError(DETACH_FORCED, text, fault=Fault.BACKEND)


class _NullTargetReceiver(ReceiverEndpoint):
    """Our link to the null target."""

    def __init__(self, shared: SharedAnonymousSender, link: Link) -> None:
        super().__init__(shared, link)
        self._shared = shared

    def on_attached(self, link: Link) -> None:
        self._shared.attached(self, link)

    def on_refused(self, error: AmqpError) -> None:
        self._shared.ended(error)

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        self._shared.ended(error)


class AnonymousRelayNode:
    """An address behind a connector with `use_relay`: messages use the shared link or a separate one."""

    def __init__(self, connector: ConnectorPort, shared: SharedAnonymousSender, address: str) -> None:
        self._connector, self._shared, self._address = connector, shared, address
        self._to = encode(address)
        self._requested: str | None = None

    def attach(self, link: NodeLink) -> None:
        self._requested = link.address
        if is_incoming(link) and self._shared.usable:
            router = MessageRouter(link, self._destination_of)
            router.outlived = True  # until the connection is lost
            router.start()
        else:
            self._direct(link)

    def _destination_of(self, link: IncomingLink, data: bytes) -> Destination:
        relayed = self._shared.usable and property_field(data, walk(data), TO) == self._to
        key = (link.scope, self._address, "relayed" if relayed else "direct")
        return Destination(key, data, self._shared.attach if relayed else self._direct)

    def _direct(self, link: NodeLink) -> None:
        Relay(self._connector, self._address, link, self._shared.make_transform, self._requested).start()


