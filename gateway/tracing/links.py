"""Traced links: wrappers of a link and its handler that record a span from each transfer to its outcome.

Batches stay whole: each is searched for messages with a trace context, and then passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from gateway.amqp.link.outcomes import ACCEPTED, SETTLED, Outcome, Rejected
from gateway.amqp.link.transactions import PostedMessage, PostedMessages
from gateway.amqp.link.wrappers import IncomingWrapper, OutgoingWrapper
from gateway.errors import AmqpError
from gateway.links.link import is_incoming, is_outgoing
from gateway.links.wrapped_link import WrappedIncomingLink, WrappedOutgoingLink
from gateway.observability.redaction import redact
from gateway.tracing.context import MARK, SEARCHED
from gateway.tracing.posts import REJECTED, TracedPost
from gateway.tracing.spans import OpenSpan, Place, Span, SpanKind, Tracer
from policies.spans import hop_kind

if TYPE_CHECKING:
    from gateway.amqp.link.handlers import BatchIncoming, BatchOutgoing, Incoming, Outgoing, Transfer
    from gateway.links.link import Delivery, IncomingLink, NodeLink, OutgoingLink, OutgoingMessages, SendContext
    from gateway.links.wrapped_link import AcceptAll

OnPost = Callable[[PostedMessage, bytes], None]
_UNANSWERED: Final = "none"
"""The outcome recorded for a message whose link ended before it had one."""


def traced(tracer: Tracer, link: NodeLink, scope: str, address: str) -> NodeLink:
    """Wrap a link of `scope` for its node, so that its messages are traced; other links are returned unchanged."""
    kind = span_kind(link, scope)
    if kind is None:
        return link
    place = Place(kind, scope, redact(address), None if link.decision is None else link.decision.rule)
    if is_incoming(link):
        return _TracedIncoming(link, LinkSpans(tracer, place))
    assert is_outgoing(link)
    return _TracedOutgoing(link, LinkSpans(tracer, place))


def span_kind(link: NodeLink, scope: str) -> SpanKind | None:
    """The span kind of a link's messages; None if they are not traced."""
    if link.context.answer:
        return "response"
    decided = link.decision
    if decided is None:
        return None
    return hop_kind(scope, decided.action, decided.routes)


def _marked(data: bytes) -> bool:
    """Whether a message may have a trace context."""
    return data.find(MARK, 0, SEARCHED) >= 0


class LinkSpans:
    """The open spans of one link, by the key that the link uses for each delivery."""

    def __init__(self, tracer: Tracer, place: Place) -> None:
        self._tracer: Final = tracer
        self._place: Final = place
        self._open: Final[dict[Delivery, OpenSpan]] = {}

    def transfers(self, messages: Iterable[Transfer]) -> None:
        """Start spans for messages that arrive or are sent: the delivery's key, its bytes, whether it is settled."""
        found = [each for each in messages if _marked(each[1])]
        now = self._tracer.clock() if found else 0
        for key, data, settled in found:
            span = self._tracer.begin(data, now)
            if span is not None and settled:
                self._end(span, SETTLED.name, None)
            elif span is not None:
                self._open[key] = span

    def post(self, post: PostedMessage, data: bytes, on_post: OnPost) -> None:
        """Pass on a message in a transaction, with a span that ends with its outcome or its transaction."""
        span = self._tracer.begin(data, self._tracer.clock()) if _marked(data) else None
        if span is None:
            on_post(post, data)
            return
        traced = TracedPost(post, partial(self._end, span))
        try:
            on_post(traced, data)
        except AmqpError as error:
            traced.end(REJECTED, error.condition)
            raise
        post.transaction.at_end(traced.discharged)

    def outcome(self, key: Delivery, outcome: Outcome) -> None:
        """End the span of a message that has got its outcome, if it has a span."""
        if self._open and (span := self._open.pop(key, None)) is not None:
            refused = outcome.error if isinstance(outcome, Rejected) else None
            self._end(span, outcome.name, None if refused is None else refused.condition)

    def accepted(self, keys: Sequence[Delivery]) -> None:
        """As `outcome`, for several accepted messages."""
        if self._open:
            for key in self._open.keys() & set(keys):
                self._end(self._open.pop(key), ACCEPTED.name, None)

    def close(self, error: AmqpError | None) -> None:
        """End all open spans, because the link has ended."""
        for span in self._open.values():
            self._end(span, _UNANSWERED, None if error is None else error.condition)
        self._open.clear()

    def _end(self, span: OpenSpan, outcome: str, condition: str | None) -> None:
        self._tracer.end(Span(self._place, span, self._tracer.clock(), outcome, redact(condition)))


class _TracedIncoming(WrappedIncomingLink):
    """A link on which the peer sends."""

    def __init__(self, link: IncomingLink, spans: LinkSpans) -> None:
        super().__init__(link)
        self._spans: Final = spans
        if self.accept_all is not None:
            self.accept_all = partial(self._accepted, self.accept_all)

    def around(self, handler: Incoming | Outgoing) -> Incoming:
        return _IncomingTraces(cast("BatchIncoming", handler), self._spans)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        self._spans.outcome(delivery, outcome)
        self._link.settle(delivery, outcome)

    def _accepted(self, accept_all: AcceptAll, deliveries: list[Delivery]) -> None:
        self._spans.accepted(deliveries)
        accept_all(deliveries)


class _IncomingTraces(IncomingWrapper["BatchIncoming"]):
    """The handler of such a link."""

    def __init__(self, handler: BatchIncoming, spans: LinkSpans) -> None:
        super().__init__(handler)
        self._spans: Final = spans

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        self._spans.transfers(((delivery, data, settled),))
        self._handler.on_transfer(delivery, data, settled)

    def on_transfers(self, messages: Sequence[Transfer]) -> None:
        self._spans.transfers(messages)
        self._handler.on_transfers(messages)

    def on_post(self, post: PostedMessage, data: bytes) -> None:
        self._spans.post(post, data, self._handler.on_post)

    def on_posts(self, posts: PostedMessages) -> None:
        if any(_marked(data) for _, data, _ in posts.messages):
            posts.one_by_one(self.on_post)
        else:
            self._handler.on_posts(posts)

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        self._spans.close(error)


class _TracedOutgoing(WrappedOutgoingLink):
    """A link on which the gateway sends."""

    def __init__(self, link: OutgoingLink, spans: LinkSpans) -> None:
        super().__init__(link)
        self._spans: Final = spans

    def around(self, handler: Incoming | Outgoing) -> Outgoing:
        return _OutgoingTraces(cast("BatchOutgoing", handler), self._spans)

    def send(self, data: bytes, context: SendContext, settled: bool = False) -> None:
        self._spans.transfers(((context, data, settled or self.presettled),))
        self._link.send(data, context, settled)

    def send_all(self, messages: OutgoingMessages) -> None:
        settled = self.presettled
        self._spans.transfers([(each, each[0], settled) for each in messages])
        self._link.send_all(messages)


class _OutgoingTraces(OutgoingWrapper):
    """The handler of such a link."""

    def __init__(self, handler: BatchOutgoing, spans: LinkSpans) -> None:
        super().__init__(handler)
        self._spans: Final = spans

    def on_outcome(self, context: SendContext, outcome: Outcome) -> None:
        self._spans.outcome(context, outcome)
        self._handler.on_outcome(context, outcome)

    def on_accepted(self, contexts: list[SendContext]) -> None:
        self._spans.accepted(contexts)
        self._handler.on_accepted(contexts)

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        self._spans.close(error)
