"""Request nodes of a connection (`$cbs`, `$management`): a request's answer goes to a receiver of the same session.

Clients attach a sender and a receiver with the same address. Some name the receiver's target as reply-to, others name
nothing and expect the answer at the session's only receiver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from bridges.eventhubs.conditions import status_of
from gateway.amqp.codec.codec import encode
from gateway.amqp.codec.encoder import encode_list
from gateway.amqp.codec.types import Int, Value, ValueMap
from gateway.amqp.link.handlers import Delivery, Incoming, Outgoing, SendContext
from gateway.amqp.link.outcomes import ACCEPTED, SETTLED, Outcome
from gateway.amqp.message import sections
from gateway.amqp.message.properties import MESSAGE_ID
from gateway.errors import PRECONDITION_FAILED, AmqpError
from gateway.links.reject import reject_delivery

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link

MOST: Final = 64
"""Requests of one link that may wait for their answers, and bytes of an answer that nobody reads are bounded by it."""
_LARGEST: Final = 64 * 1024
"""Bytes of a request."""
_NULL: Final = b"\x40"


class NodeRequest(NamedTuple):
    """A request: its application properties and, of an amqp-value body, the value."""

    properties: Mapping[str, Value]
    body: Value
    message_id: bytes
    reply_to: str | None

    def text(self, name: str) -> str:
        """A property that is text; empty if there is none."""
        value = self.properties.get(name)
        return value if isinstance(value, str) else ""


class RequestAnswer(NamedTuple):
    """The answer to a request."""

    status: int
    description: str
    body: ValueMap | None = None


def failed(error: AmqpError) -> RequestAnswer:
    """The answer that says why a request was refused."""
    return RequestAnswer(status_of(error), error.description)


AnswersRequest = Callable[[NodeRequest, Callable[[RequestAnswer], None]], None]
"""Answers a request, now or later, once; may raise AmqpError instead."""


def read_request(data: bytes) -> NodeRequest:
    """Decode a request; raises AmqpError for a malformed one."""
    layout = sections.walk(data)
    named = {str(key): value for key, value in sections.application_properties(data, layout).items()}
    is_value = sections.body_kind(data, layout) == sections.AMQP_VALUE
    values = sections.body_values(data, layout) if is_value else [None]
    message_id = sections.property_field(data, layout, MESSAGE_ID) or _NULL
    return NodeRequest(named, values[0], message_id, sections.properties(data, layout).reply_to)


def encode_answer(request: NodeRequest, answer: RequestAnswer) -> bytes:
    """The message that answers a request; `status-code` is an int (the Java client insists on it)."""
    properties = b"\x00\x53\x73" + encode_list([_NULL] * 5 + [request.message_id])
    status = {
        "status-code": Int(answer.status),
        "status-description": answer.description,
        "statusDescription": answer.description,  # the name by which the client for Python shows it
    }
    named = b"\x00\x53\x74" + encode(status)
    return properties + named + sections.section(sections.AMQP_VALUE, answer.body)


class RequestNode:
    """One request node of one connection."""

    def __init__(self, respond: AnswersRequest) -> None:
        self._respond: Final = respond
        self._receivers: Final[dict[Hashable, list[_AnswerReceiver]]] = {}
        """The receivers of each session."""

    def attach(self, link: Link) -> None:
        """Accept a sender of requests, or a receiver of answers."""
        if link.incoming:
            link.accept(_RequestSender(link, self), max_message_size=_LARGEST)
            link.grant(MOST)
        else:
            receiver = _AnswerReceiver(link, self)
            self._receivers.setdefault(link.session, []).append(receiver)
            link.accept(receiver, settled=True)  # some clients never settle, and a drain would wait for them

    def ended(self, receiver: _AnswerReceiver) -> None:
        """A receiver has ended."""
        session = receiver.link.session
        others = [each for each in self._receivers.get(session, ()) if each is not receiver]
        if others:
            self._receivers[session] = others
        else:
            self._receivers.pop(session, None)

    def handle(self, link: Link, data: bytes) -> None:
        """Answer one request; raises AmqpError for one that cannot be answered."""
        request = read_request(data)
        receiver = self._receiver_for(link, request)

        def answered(answer: RequestAnswer) -> None:
            receiver.put(encode_answer(request, answer))
            link.grant(1)

        try:
            self._respond(request, answered)
        except AmqpError as error:
            answered(failed(error))

    def _receiver_for(self, link: Link, request: NodeRequest) -> _AnswerReceiver:
        receivers = self._receivers.get(link.session, ())
        for receiver in receivers:
            if request.reply_to is not None and receiver.link.target.address == request.reply_to:
                return receiver
        if not receivers:
            text = "attach a receiver to this address, in the same session, before you send a request"
            raise AmqpError(PRECONDITION_FAILED, text)
        return receivers[-1]


class _RequestSender(Incoming):
    """The handler of a link on which requests come."""

    def __init__(self, link: Link, node: RequestNode) -> None:
        self._link: Final = link
        self._node: Final = node

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        try:
            self._node.handle(self._link, data)
        except AmqpError as error:
            reject_delivery(self._link, delivery, error, settled)
            self._link.grant(1)
        else:
            self._link.settle(delivery, SETTLED if settled else ACCEPTED)

    def on_detach(self, error: AmqpError | None) -> None:
        """Nothing to do: answers that are due still go to the receiver."""


class _AnswerReceiver(Outgoing):
    """The handler of a link to which answers go."""

    def __init__(self, link: Link, node: RequestNode) -> None:
        self.link: Final = link
        self._node: Final = node
        self._waiting: Final[deque[bytes]] = deque(maxlen=MOST)

    def put(self, data: bytes) -> None:
        """Send an answer as soon as there is credit; the oldest is dropped if nobody reads."""
        self._waiting.append(data)
        if self.link.open:
            self.on_credit()

    def on_credit(self) -> None:
        while self._waiting and self.link.credit > 0:
            data = self._waiting.popleft()
            self.link.send(data, data)
        if self.link.draining:
            self.link.drained()

    def on_outcome(self, context: SendContext, outcome: Outcome) -> None:
        """Nothing to do: an answer is not sent again."""

    def on_detach(self, error: AmqpError | None) -> None:
        self._node.ended(self)
        self.link.take_unsettled()
