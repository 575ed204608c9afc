"""Messages fetched from a queue of the container behind a connector and sent to an address of its scope (`pull`).

A client of that container cannot attach here. So the gateway receives there, and to the node at `to` the link looks
as if a sender had attached: the same resolver, the same crossings, the same outcomes. The node comes first: only when
it has taken the link is the queue asked, and only for as many messages as the node and `credit` allow. So nothing
piles up here, and what the far side does not take stays in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.amqp.codec.types import ValueMap
from gateway.amqp.engine.proton_data import ABSENT, AttachReply
from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.message.hop import ROUTING
from gateway.amqp.message.response_annotations import SUPPORTED, annotated
from gateway.errors import NOT_IMPLEMENTED, AmqpError
from gateway.nodes.internal_link import InternalLink
from gateway.nodes.link import Delivery
from gateway.nodes.reject import reject_delivery
from gateway.principal import Container, GatewayItself
from gateway.routing.link_context import link_context

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link
    from gateway.nodes.base import Resolver


_numbers: Final = count(1)


class PullRequest(Protocol):
    """The entry of the policy (`policies.model_scope.Pull`)."""

    @property
    def source(self) -> str: ...
    @property
    def to(self) -> str: ...
    @property
    def credit(self) -> int: ...


class PullOwner(Protocol):
    """The connector, as far as this needs it."""

    @property
    def name(self) -> str: ...
    def later(self, seconds: float, call: Callable[[], None]) -> object: ...
    def pulling(self, source: str, to: str) -> None: ...
    def pull_failed(self, source: str, to: str, detail: str) -> None: ...


class QueuePull:
    """One entry of `pull`: keeps a link from the queue to the address up while its connector is connected."""

    def __init__(
        self, owner: PullOwner, wish: PullRequest, scope: Callable[[], Resolver], pauses: tuple[float, float]
    ) -> None:
        """`pauses`: seconds before the first new attempt, and the most they grow to by doubling."""
        self.wish: Final = wish
        self._owner: Final = owner
        self._scope: Final = scope
        self._first, self._most = pauses
        self._pause = pauses[0]
        self._engine: Engine | None = None
        self._link: PulledSender | None = None
        self.problem: str | None = "not connected yet"
        """Why nothing is fetched at the moment; None: the link stands."""

    def opened(self, engine: Engine) -> None:
        """A connection is up."""
        self._engine, self._pause = engine, self._first
        self._start()

    def closed(self) -> None:
        """The connection is gone, and the link with it: the container gives what it held to others, or again."""
        self._engine = None
        if self._link is not None:
            self._link.end(None)

    def _start(self) -> None:
        engine, scope = self._engine, self._scope()
        if self._link is not None or engine is None or engine.closed:
            return
        self._link = link = PulledSender(self, engine, scope.name, self._owner.name)
        try:
            scope.attach_to(link, self.wish.to, GatewayItself(scope.name, "pull", self.wish.to))
        except AmqpError as error:
            link.end(error)

    def stands(self) -> None:
        """The container has given the link."""
        self._pause, self.problem = self._first, None
        self._owner.pulling(self.wish.source, self.wish.to)

    def ended(self, error: AmqpError | None) -> None:
        """The address or the queue is not there, or no more: ask again, less and less often."""
        self._link = None
        if self._engine is None or self._engine.closed:
            self.problem = "not connected"
            return
        detail = "the link has ended" if error is None else str(error)
        if detail != self.problem:
            self._owner.pull_failed(self.wish.source, self.wish.to, detail)
        self.problem = detail
        self._owner.later(self._pause, self._start)
        self._pause = min(self._pause * 2, self._most)


class PulledSender(InternalLink[Incoming], Incoming):
    """Both ends of it: the sender that the node sees (`gateway.amqp.link.link.Link`), and the handler of our link."""

    incoming: Final = True
    rejects: Final = True
    user: Final = ""

    def __init__(self, pull: QueuePull, engine: Engine, scope: str, connector: str) -> None:
        super().__init__(link_context(scope), Container(scope, connector))
        wish = pull.wish
        self._pull: Final = pull
        self._credit: Final = wish.credit
        self._step: Final = max(1, wish.credit // 4)
        self.engine: Final = engine
        self.scope: Final = scope
        self.name: Final = f"pull-{next(_numbers)}"
        self.address: Final = wish.to
        self.source: Final = ABSENT._replace(present=True, address=wish.source)
        self.target: Final = ABSENT._replace(present=True, address=wish.to)
        self.properties: Final[ValueMap] = {}
        self._far: Link | None = None
        self._announced = False
        self._owed = 0
        self._busy = 0

    # -- what a node does

    def accept(
        self,
        handler: Any,
        *,
        max_message_size: int = 0,
        capabilities: Iterable[str] = (),
        understands: frozenset[bytes] = ROUTING,
        **_: object,
    ) -> None:
        """The node takes the link: now the queue is asked."""
        if not self.accepted(self.instrumented(handler)):
            return
        self.max_message_size, self._announced = max_message_size, SUPPORTED in capabilities
        far = self.engine.attach(self.name, incoming=True)
        own = (SUPPORTED,) if self._announced else ()
        far.understands = understands
        far.request(self, AttachReply(self._pull.wish.source, max_message_size=max_message_size, own=own))

    @property
    def granted(self) -> int:
        """What the node has granted and not got yet, whether the queue knows of it or not."""
        return self._owed + (self._far.granted if self._far is not None else 0)

    def grant(self, credit: int) -> None:
        """The node takes `credit` more messages."""
        self._owed += credit
        self._ask()

    def _ask(self) -> None:
        """Pass on credit, in lots: at most `credit` messages are asked for or under way."""
        far = self._far
        if far is None or not self._owed:
            return
        credit = min(self._owed, self._credit - self._busy - far.granted)
        if credit >= self._step or (credit > 0 and not far.granted):
            self._owed -= credit
            far.grant(credit)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """The outcome of the far side is the outcome at the queue."""
        self._busy -= 1
        if self._far is not None:
            self._far.settle(delivery, outcome)
            self._ask()

    def drop(self, delivery: Delivery) -> None:
        self._busy -= 1
        if self._far is not None:
            self._far.drop(delivery)

    def tag(self, delivery: Delivery) -> bytes:
        return self._far.tag(delivery) if self._far is not None else b""

    def message_refused(self, error: AmqpError) -> None:
        if self._far is not None:
            self._far.message_refused(error)

    def fail(self, error: AmqpError) -> None:
        """One bad message must not keep the others in the queue."""

    # -- our link at the container

    def on_attached(self, link: Link) -> None:
        """The queue is there."""
        if self.gone:
            link.detach()
            return
        self._far, link.decision = link, self.decision
        link.counter, self.counter = self.counter, None  # the journal counts outcomes there
        self._pull.stands()
        self._ask()

    def on_refused(self, error: AmqpError) -> None:
        self.end(error)

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        self._busy += 1
        if not self._announced and annotated(data):
            text = "the target of this pull does not support response annotations"
            reject_delivery(self, delivery, AmqpError(NOT_IMPLEMENTED, text), settled)
        else:
            self.handler.on_transfer(delivery, data, settled)

    def on_drained(self) -> None:
        """We never drain it."""

    def on_detach(self, error: AmqpError | None) -> None:
        self._far = None
        self.end(error)

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """The node first, so that what it holds goes back to the queue."""
        if was_open:
            self.handler.on_detach(error)
        far, self._far = self._far, None
        if far is not None:
            far.detach()
        self._pull.ended(error)
