"""One link to the anonymous terminus of the container behind a connector (AT 2.3, as its user).

Such a link carries a message only where its own `to` already is the destination: `to` is part of the bare message,
and nobody may change it. Everything else takes a link to its address, as without the capability.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from gateway.amqp.codec.codec import encode
from gateway.amqp.engine.proton_data import AttachReply
from gateway.amqp.message.properties import TO
from gateway.amqp.message.sections import property_field, walk
from gateway.connectors.relay import Relay
from gateway.errors import DETACH_FORCED, AmqpError, Fault
from gateway.nodes.direct.endpoints import ReceiverEndpoint, SenderEndpoint
from gateway.nodes.direct.node import DirectNode
from gateway.nodes.link import IncomingLink, TransformFactory, is_incoming
from gateway.nodes.link import Link as NodeLink
from gateway.routing.message_router import Destination, MessageRouter

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link
    from gateway.connectors.relay import ConnectorPort

_ANONYMOUS_RELAY: Final = "ANONYMOUS-RELAY"
_numbers: Final = count(1)


class SharedAnonymousSender(DirectNode):
    """The shared link and the routes that use it; made anew with each connection that offers the capability."""

    def __init__(self, dialer: ConnectorPort, make_transform: TransformFactory) -> None:
        super().__init__("", make_transform, unused=lambda _: None)
        self._dialer: Final = dialer
        self._engine: Engine | None = None
        self._far: Link | None = None

    @property
    def usable(self) -> bool:
        """Whether the present connection has it: desired by us, offered, and not refused."""
        return self._engine is not None

    @property
    def attended(self) -> bool:
        """The container is there, or will be again."""
        return True

    def opened(self, engine: Engine) -> None:
        """A connection is up; it must be offered to be used (AT-2.3-3)."""
        self._engine = engine if _ANONYMOUS_RELAY in engine.offered else None

    def attach(self, link: NodeLink) -> None:
        assert is_incoming(link)  # a destination of a link on which messages come

        def join(error: AmqpError | None) -> None:
            if error is not None or self._engine is None:
                link.refuse(error or self._gone())
                return
            end = SenderEndpoint(self, link)
            self.join(end)
            link.accept(end, max_message_size=link.engine.config.max_message_size)
            self.distribute_credit()
            self._open()

        self._dialer.when_home(link, join)

    def _open(self) -> None:
        if self._far is None:
            assert self._engine is not None
            self._far = far = self._engine.attach(f"relay-{next(_numbers)}", incoming=False)
            far.request(_FarEnd(self, far), AttachReply())

    def attached(self, end: ReceiverEndpoint, far: Link) -> None:
        far.context = self._dialer.remote_context(home=True)
        self.join(end)
        self.credited(end)

    def ended(self, error: AmqpError | None) -> None:
        """The container refused or ended the link, or is gone: its routes go, and messages take links of their own."""
        self._far = self._engine = None
        for inlet in list(self.sender_endpoints):
            inlet.link.detach(error or self._gone())

    def _gone(self) -> AmqpError:
        text = "the relay behind this address was lost; try again"
        return AmqpError(DETACH_FORCED, text, fault=Fault.BACKEND)


class _FarEnd(ReceiverEndpoint):
    """Our link to the null target."""

    def __init__(self, trunk: SharedAnonymousSender, link: Link) -> None:
        super().__init__(trunk, link)
        self._trunk = trunk

    def on_attached(self, link: Link) -> None:
        self._trunk.attached(self, link)

    def on_refused(self, error: AmqpError) -> None:
        self._trunk.ended(error)

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        self._trunk.ended(error)


class AnonymousRelayNode:
    """An address behind a connector that uses the relay: each message goes the one way or the other."""

    def __init__(self, dialer: ConnectorPort, trunk: SharedAnonymousSender, address: str) -> None:
        self._dialer, self._trunk, self._address = dialer, trunk, address
        self._to = encode(address)
        self._asked: str | None = None

    def attach(self, link: NodeLink) -> None:
        self._asked = link.address
        if is_incoming(link) and self._trunk.usable:
            router = MessageRouter(link, self._aim)
            router.outlived = True  # until the container is gone
            router.start()
        else:
            self._direct(link)

    def _aim(self, link: IncomingLink, data: bytes) -> Destination:
        relayed = self._trunk.usable and property_field(data, walk(data), TO) == self._to
        key = (link.scope, self._address, "relayed" if relayed else "direct")
        return Destination(key, data, self._trunk.attach if relayed else self._direct)

    def _direct(self, link: NodeLink) -> None:
        Relay(self._dialer, self._address, link, self._trunk.make_transform, self._asked).start()


