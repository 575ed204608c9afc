"""proton's own Container as blocking helpers: each client runs in a thread of its own and ends with `finish`.

`send`, `receive`, `respond` and `request` take a `Login` and an address. Received messages come with the
exact bytes (`raw`) beside proton's reading of them; `Raw(data)` sends exact bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from proton import Data, Delivery, Endpoint, Link, Message, Sender, SSLDomain, Terminus, symbol
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector, LinkOption

from tests.support.gateway.process import PATIENCE, Timeout

OUTCOMES = {
    Delivery.ACCEPTED: "accepted",
    Delivery.REJECTED: "rejected",
    Delivery.RELEASED: "released",
    Delivery.MODIFIED: "modified",
}


@dataclass(frozen=True)
class Login:
    """Where a client connects and as whom; `ca` makes it TLS."""

    port: int
    user: str | None = None
    password: str | None = None
    ca: Path | None = None
    container: str | None = None
    offers: str | None = None
    """A capability that the client's open offers."""

    def options(self) -> dict[str, Any]:
        """Return the arguments of `Container.connect`."""
        options: dict[str, Any] = {"url": f"127.0.0.1:{self.port}", "reconnect": False, "heartbeat": 60}
        if self.offers is not None:
            options["offered_capabilities"] = [symbol(self.offers)]
        if self.user is not None:
            options |= {"user": self.user, "password": self.password, "allow_insecure_mechs": True}
        if self.ca is not None:
            domain = SSLDomain(SSLDomain.MODE_CLIENT)
            domain.set_trusted_ca_db(str(self.ca))
            domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
            options |= {"ssl_domain": domain, "virtual_host": "localhost"}
            options["url"] = f"amqps://{options['url']}"
        return options


class Outcome(NamedTuple):
    """What became of a sent message."""

    name: str
    condition: str | None


class Received(NamedTuple):
    """A delivery: proton's reading and the bytes it came as."""

    message: Message
    raw: bytes


class Raw:
    """A message given as bytes; proton's Sender sends anything that has this method."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def send(self, sender: Sender, tag: str | None = None) -> Delivery:
        """Send the bytes as one delivery."""
        delivery = sender.delivery(tag or sender.delivery_tag())
        sender.stream(self.data)
        sender.advance()
        return delivery


class Failed(AssertionError):
    """The other side refused: `condition` says why."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(f"{condition}: {text}")
        self.condition = condition


class Client(MessagingHandler):
    """One connection in one thread; it ends when `done` is called, on an error, or on `stop`."""

    def __init__(self, login: Login) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self._login = login
        self._failure: Failed | None = None
        self._attached = threading.Event()
        self._injector = EventInjector()
        self._container = Container(self)
        if login.container:
            self._container.container_id = login.container
        self._container.selectable(self._injector)
        self._thread = threading.Thread(target=self._container.run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def on_start(self, event: Any) -> None:
        self.connection = self._container.connect(**self._login.options())
        self.connected()

    def connected(self) -> None:
        """Open the links of this client."""
        raise AssertionError("a client opens links")

    def attached(self, seconds: float = PATIENCE) -> Any:
        """Wait until the first link is attached, return the client."""
        if not self._attached.wait(seconds):
            raise Timeout(f"no link attached within {seconds} s")
        if self._failure is not None:
            raise self._failure
        return self

    def done(self) -> None:
        """Close: everything asked for has happened."""
        self._injector.close()
        self.connection.close()

    def stop(self) -> None:
        """Close from the test's thread and wait for the end."""
        self._injector.trigger(ApplicationEvent("stop"))
        self.join()

    def join(self, seconds: float = PATIENCE) -> None:
        """Wait for the end; what the other side refused is raised here."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise Timeout(f"{type(self).__name__} is not done after {seconds} s: {self.progress()}")
        if self._failure is not None:
            raise self._failure

    def progress(self) -> str:
        """Say how far the client came, for the error of a timeout."""
        return ""

    def on_stop(self, event: Any) -> None:
        self.done()

    def on_link_opened(self, event: Any) -> None:
        if present(event.link):
            self._attached.set()

    def _fail(self, what: Any, text: str) -> None:
        condition = what.remote_condition if isinstance(what, Endpoint) else what.condition
        name = condition.name if condition else text
        self._failure = self._failure or Failed(name, (condition and condition.description) or text)
        self._attached.set()
        self.done()

    def on_link_error(self, event: Any) -> None:
        self._fail(event.link, "link closed")

    def on_session_error(self, event: Any) -> None:
        self._fail(event.session, "session closed")

    def on_connection_error(self, event: Any) -> None:
        self._fail(event.connection, "connection closed")

    def on_disconnected(self, event: Any) -> None:
        """The socket went without a close; proton takes a close with `amqp:connection:forced` for that, too."""
        self._fail(event.connection, "disconnected")

    def on_transport_error(self, event: Any) -> None:
        self._fail(event.transport, "transport failed")


def present(link: Link) -> bool:
    """Tell whether the other side accepted the link: a refusal has its terminus absent."""
    terminus = link.remote_target if link.is_sender else link.remote_source
    return bool(terminus.type != Terminus.UNSPECIFIED)


class Sending(Client):
    """Sends messages as credit allows; done when each has its outcome."""

    def __init__(self, login: Login, address: str | None, messages: Sequence[Any], options: Any) -> None:
        self._address, self._messages, self._options = address, messages, options
        self._next = 0
        self._numbers: dict[str, int] = {}
        self.outcomes: dict[int, Outcome] = {}
        super().__init__(login)

    def connected(self) -> None:
        self._container.create_sender(self.connection, self._address, options=self._options)

    def on_sendable(self, event: Any) -> None:
        sender = event.sender
        while sender.credit and self._next < len(self._messages):
            self._numbers[sender.send(self._messages[self._next]).tag] = self._next
            self._next += 1

    def on_delivery(self, event: Any) -> None:
        delivery = event.delivery
        if event.link.is_sender and delivery.updated and delivery.remote_state in OUTCOMES:
            condition = delivery.remote.condition
            outcome = Outcome(OUTCOMES[delivery.remote_state], condition.name if condition else None)
            self.outcomes[self._numbers[delivery.tag]] = outcome
            delivery.settle()
            if len(self.outcomes) == len(self._messages):
                self.done()

    def progress(self) -> str:
        return f"{self._next} sent, {len(self.outcomes)} outcomes of {len(self._messages)}"

    def finish(self, seconds: float = PATIENCE) -> list[Outcome]:
        """Wait for every outcome; return them in the order of sending."""
        self.join(seconds)
        return [self.outcomes[number] for number in range(len(self._messages))]


class Receiving(Client):
    """Receives and accepts `count` messages, then is done."""

    def __init__(self, login: Login, address: str | None, count: int, options: Any) -> None:
        self._address, self._count, self._options = address, count, options
        self.received: list[Received] = []
        super().__init__(login)

    def connected(self) -> None:
        self.receiver = self._container.create_receiver(self.connection, self._address, options=self._options)
        self.receiver.flow(min(self._count, 1000))

    def on_delivery(self, event: Any) -> None:
        if received := take_delivery(event):
            self.received.append(received)
            self.took(event, received)

    def took(self, event: Any, received: Received) -> None:
        """Accept, ask for one more in its place, end with the last."""
        event.delivery.update(Delivery.ACCEPTED)
        event.delivery.settle()
        if len(self.received) == self._count:
            self.done()
        elif len(self.received) + event.receiver.credit < self._count:
            event.receiver.flow(1)

    def progress(self) -> str:
        return f"{len(self.received)} of {self._count} received"

    def finish(self, seconds: float = PATIENCE) -> list[Received]:
        """Wait for all messages and return them."""
        self.join(seconds)
        return self.received


def take_delivery(event: Any) -> Received | None:
    """Take a complete incoming delivery off its link, before proton's own handler does."""
    delivery, link = event.delivery, event.link
    if link.is_sender or not delivery.readable or delivery.partial:
        return None
    raw = link.recv(delivery.pending)
    message = Message()
    message.decode(raw)
    link.advance()
    return Received(message, raw)


class Responding(Receiving):
    """Answers each request to its reply-to over the anonymous terminus; `stop` ends it."""

    def __init__(self, login: Login, address: str, answer: Callable[[Message], Message], options: Any) -> None:
        self._answer = answer
        super().__init__(login, address, 100, options)

    def connected(self) -> None:
        self._anonymous = self._container.create_sender(self.connection, None)
        super().connected()

    def took(self, event: Any, received: Received) -> None:
        """Send the answer and accept the request; serve on."""
        request = received.message
        response = self._answer(request)
        response.address = response.address or request.reply_to or ""
        if response.correlation_id is None:
            response.correlation_id = request.correlation_id or request.id
        self._anonymous.send(response)
        event.delivery.update(Delivery.ACCEPTED)
        event.delivery.settle()
        event.receiver.flow(1)

    def on_link_opened(self, event: Any) -> None:
        if event.link.is_receiver:
            super().on_link_opened(event)


class Requesting(Receiving):
    """Sends requests with the address of a dynamic source as reply-to; done with the last response."""

    def __init__(self, login: Login, address: str | None, messages: Sequence[Message]) -> None:
        self._target, self._messages = address, list(messages)
        super().__init__(login, None, len(messages), None)

    def connected(self) -> None:
        self.receiver = self._container.create_receiver(self.connection, None, dynamic=True)
        self.receiver.flow(self._count)
        self._sender = self._container.create_sender(self.connection, self._target)

    def on_link_opened(self, event: Any) -> None:
        super().on_link_opened(event)
        self._ask()

    def on_sendable(self, event: Any) -> None:
        self._ask()

    def _ask(self) -> None:
        reply_to = self.receiver.remote_source.address
        while reply_to and self._sender.credit and self._messages:
            request = self._messages.pop(0)
            request.reply_to = request.reply_to or reply_to
            self._sender.send(request)


def send(
    login: Login, address: str | None, messages: Sequence[Message | Raw], *, options: LinkOption | None = None
) -> Sending:
    """Start sending; `.finish()` returns the outcomes."""
    return Sending(login, address, messages, options)


def receive(
    login: Login, address: str, count: int, *, options: LinkOption | Sequence[LinkOption] | None = None
) -> Receiving:
    """Start receiving; `.attached()` waits for the link, `.finish()` returns what came."""
    return Receiving(login, address, count, options)


def respond(login: Login, address: str, answer: Callable[[Message], Message], *, annotated: bool = False) -> Responding:
    """Serve requests; `annotated`: open and target say that they understand response-address annotations."""
    if not annotated:
        return Responding(login, address, answer, None)
    capable = replace(login, offers="RESPONSE_ANNOTATIONS_V1_0")
    return Responding(capable, address, answer, Announce("response-address-supported"))


def request(
    login: Login, address: str | None, messages: Sequence[Message], seconds: float = PATIENCE
) -> list[Received]:
    """Ask and return the responses in the order they came."""
    return Requesting(login, address, messages).finish(seconds)


def echo(message: Message) -> Message:
    """Answer with the same body."""
    return Message(body=message.body)


def echo_with_cookie(message: Message) -> Message:
    """Answer an annotated request as RA 2.4 asks: to the link target it names, with its cookie."""
    reported = message.instructions
    assert reported is not None, "the request is not annotated"
    cookie = {symbol("address-cookie"): reported["response-address-cookie"]}
    return Message(
        body=message.body,
        address=reported["response-link-target-address"],
        correlation_id=message.correlation_id,
        instructions=cookie,
    )


class Announce(LinkOption):
    """Puts capabilities on the link's target, where a receiving endpoint says what it understands."""

    def __init__(self, *capabilities: str) -> None:
        self._capabilities = capabilities

    def apply(self, link: Link) -> None:
        """Write them, as an array of symbols."""
        data = link.target.capabilities
        data.put_array(False, Data.SYMBOL)
        data.enter()
        for capability in self._capabilities:
            data.put_symbol(symbol(capability))
        data.exit()


class LinkProperties(LinkOption):
    """Sets the properties of a link's attach."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {symbol(key): value for key, value in values.items()}

    def apply(self, link: Link) -> None:
        """Write them."""
        link.properties = self._values
