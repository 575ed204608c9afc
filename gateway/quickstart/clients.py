"""Ordinary AMQP clients on proton's own Container, used step by step, without the gateway's engine.

One thread runs them all: a call that waits runs the container until its condition holds. Messages
are sent and received as bytes, so that they can be compared byte for byte.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Final, NamedTuple, TypeAlias

from proton import (
    Connection,
    Data,
    Delivery,
    Event,
    Link,
    Receiver,
    Sender,
    Session,
    Terminus,
    Transport,
    symbol,
)
from proton.handlers import MessagingHandler
from proton.reactor import Container, Filter, LinkOption

from gateway.quickstart.checks import PATIENCE

Ended: TypeAlias = Link | Session | Connection | Transport
"""Objects that the gateway may end with an error."""
_TURN: Final = 0.1
_WINDOW: Final = 1000
_OUTCOMES: Final[dict[int, str]] = {
    Delivery.ACCEPTED: "accepted",
    Delivery.REJECTED: "rejected",
    Delivery.RELEASED: "released",
    Delivery.MODIFIED: "modified",
}


class ClientError(Exception):
    """The gateway refused something, or did not answer in time."""


class SendOutcome(NamedTuple):
    """The outcome of a sent message."""

    name: str
    condition: str | None = None

    def __str__(self) -> str:
        return self.name if self.condition is None else f"{self.name} ({self.condition})"


ACCEPTED: Final = SendOutcome("accepted")


class Announce(LinkOption):
    """Sets the capabilities of a receiver's target."""

    def __init__(self, capability: str) -> None:
        self._capability = capability

    def apply(self, link: Link) -> None:
        """Write it as an array of symbols."""
        data = link.target.capabilities
        data.put_array(False, Data.SYMBOL)
        data.enter()
        data.put_symbol(symbol(self._capability))
        data.exit()


class SendQueue:
    """A sender."""

    def __init__(self, clients: Clients, link: Sender) -> None:
        self._clients, self._link = clients, link
        self.outcomes: dict[str, SendOutcome] = {}

    def post(self, message: bytes) -> str:
        """Send without waiting for the outcome; returns the delivery tag."""
        if not self._link.credit:
            self._clients.wait(lambda: self._link.credit > 0, f"credit to send to {self._link.target.address}")
        tag: str = self._link.delivery_tag()
        self._link.delivery(tag)
        self._link.stream(message)
        self._link.advance()
        return tag

    def outcome(self, tag: str) -> SendOutcome:
        """Wait for the outcome of a posted message."""
        self._clients.wait(lambda: tag in self.outcomes, "the outcome of a message")
        return self.outcomes[tag]

    def send(self, message: bytes) -> SendOutcome:
        """Send and wait for the outcome."""
        return self.outcome(self.post(message))

    def send_all(self, messages: Sequence[bytes]) -> list[SendOutcome]:
        """Send as fast as credit allows and return the outcomes in order."""
        tags = [self.post(message) for message in messages]
        self._clients.wait(lambda: len(self.outcomes) >= len(tags), "the outcomes of all messages")
        return [self.outcomes[tag] for tag in tags]

    def on_delivery(self, delivery: Delivery) -> None:
        """An outcome came in."""
        if delivery.updated and delivery.remote_state in _OUTCOMES:
            condition = delivery.remote.condition
            name = _OUTCOMES[delivery.remote_state]
            self.outcomes[delivery.tag] = SendOutcome(name, condition.name if condition else None)
            delivery.settle()


class Inbox:
    """A receiver: it grants credit for one message, and more on demand."""

    def __init__(self, clients: Clients, link: Receiver) -> None:
        self._clients, self._link = clients, link
        self._arrived: list[bytes] = []
        link.flow(1)

    @property
    def address(self) -> str:
        """Its address; the gateway's answer for a dynamic source."""
        return str(self._link.remote_source.address)

    @property
    def count(self) -> int:
        """The number of received messages that no `take` has returned."""
        return len(self._arrived)

    def ask(self, count: int) -> None:
        """Grant credit for up to `count` more messages."""
        if self._link.credit < count:
            self._link.flow(count - self._link.credit)

    def take(self, what: str) -> bytes:
        """Wait for one message, accept it and return its bytes."""
        return self.take_all(1, what)[0]

    def take_all(self, count: int, what: str) -> list[bytes]:
        """Wait for `count` messages, granting credit as they arrive."""

        def arrived() -> bool:
            missing = count - len(self._arrived)
            if missing > self._link.credit and self._link.credit < _WINDOW // 2:
                self._link.flow(min(missing, _WINDOW) - self._link.credit)
            return missing <= 0

        self._clients.wait(arrived, lambda: f"{what} ({len(self._arrived)} of {count} came)")
        taken, self._arrived = self._arrived[:count], self._arrived[count:]
        return taken

    def on_delivery(self, delivery: Delivery) -> None:
        """A message came in."""
        if delivery.readable and not delivery.partial:
            self._arrived.append(self._link.recv(delivery.pending) or b"")
            self._link.advance()
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()

    def close(self) -> None:
        """Detach, and wait until the gateway has detached."""
        self._link.close()
        self._clients.wait(lambda: self._link.state & self._link.REMOTE_CLOSED, "the detach of a receiver")


class Clients(MessagingHandler):
    """The connections of one chapter; leaving the `with` block closes them."""

    def __init__(self) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self._boxes: dict[str, Inbox | SendQueue] = {}
        self._refused: str | None = None
        self._connections: list[Connection] = []
        self._container = Container(self)
        self._container.timeout = _TURN
        self._container.start()

    def __enter__(self) -> Clients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections:
            connection.close()
        if error is None:
            closed = self._connections[0].REMOTE_CLOSED if self._connections else 0
            self.wait(lambda: all(each.state & closed for each in self._connections), "the close of a connection")

    def connect(self, place: str) -> Connection:
        """A connection to `host:port`; it offers response annotations (RA 2.1), and its targets decide (RA 2.2)."""
        offered = [symbol("RESPONSE_ANNOTATIONS_V1_0")]
        connection = self._container.connect(
            url=place, reconnect=False, heartbeat=60, offered_capabilities=offered
        )
        self._connections.append(connection)
        self.wait(lambda: connection.state & connection.REMOTE_ACTIVE, f"the open of a connection to {place}")
        return connection

    def sender(self, connection: Connection, address: str) -> SendQueue:
        """A sender to `address`."""
        link = self._container.create_sender(connection, address, name=self._name())
        box = self._boxes[link.name] = SendQueue(self, link)
        self._attached(link, link.is_sender, address)
        return box

    def receiver(
        self, connection: Connection, address: str | None, *, options: Collection[LinkOption | Filter] = ()
    ) -> Inbox:
        """A receiver from `address`; if None, from a temporary address of the gateway."""
        link = self._container.create_receiver(
            connection, address, name=self._name(), dynamic=address is None, options=list(options)
        )
        box = self._boxes[link.name] = Inbox(self, link)
        self._attached(link, link.is_sender, address or "a temporary address")
        return box

    def _name(self) -> str:
        return f"quickstart-{len(self._boxes)}"

    def _attached(self, link: Link, sender: bool, address: str) -> None:
        def answered() -> bool:
            terminus = link.remote_target if sender else link.remote_source
            return bool(link.state & link.REMOTE_ACTIVE) and terminus.type != Terminus.UNSPECIFIED

        self.wait(answered, f"the attach to {address}")

    def wait(self, condition: Callable[[], object], what: str | Callable[[], str]) -> None:
        """Run the container until `condition` holds; a refusal raises."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if self._refused is not None:
                raise ClientError(self._refused)
            if time.monotonic() > deadline:
                awaited = what if isinstance(what, str) else what()
                raise ClientError(f"nothing came within {PATIENCE:.0f} s: {awaited}")
            self._container.process()

    # -- called by the container

    def on_delivery(self, event: Event) -> None:
        """A message or an outcome."""
        link, delivery = event.link, event.delivery
        if link is not None and delivery is not None:
            self._boxes[link.name].on_delivery(delivery)

    def _refuse(self, what: Ended | None) -> None:
        condition = None if what is None else what.condition
        if isinstance(what, Link | Session | Connection):
            condition = what.remote_condition or condition
        self._refused = f"{condition.name}: {condition.description}" if condition else "closed without a reason"

    def on_link_error(self, event: Event) -> None:
        """The gateway refused or ended a link."""
        self._refuse(event.link)

    def on_session_error(self, event: Event) -> None:
        """The gateway ended a session."""
        self._refuse(event.session)

    def on_connection_error(self, event: Event) -> None:
        """The gateway closed the connection with an error."""
        self._refuse(event.connection)

    def on_transport_error(self, event: Event) -> None:
        """The socket was closed."""
        self._refuse(event.transport)
