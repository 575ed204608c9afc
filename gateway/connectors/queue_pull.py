"""Messages that the gateway receives from a queue behind a connector and sends to an address of its scope (`pull`).

The node at `to` sees a sender: the same resolver, transforms and outcomes apply. The gateway attaches to the queue only
when the node has accepted the link, and requests only as many messages as the node and `credit` allow. So messages do
not accumulate here, and those that the node does not take stay in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.amqp.codec.types import ValueMap
from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.outcomes import Outcome, from_node
from gateway.amqp.message.hop import ROUTING
from gateway.amqp.message.response_support import SUPPORTED, annotated
from gateway.amqp.proton.proton_data import ABSENT, AttachReply
from gateway.errors import NOT_IMPLEMENTED, AmqpError, brief
from gateway.links.internal_link import InternalLink
from gateway.links.link import Delivery
from gateway.links.link_context import link_context
from gateway.links.reject import reject_delivery
from gateway.principal import Container, GatewayItself

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link
    from gateway.nodes.base import Resolver


_numbers: Final = count(1)


class PullSettings(Protocol):
    """The policy's entry (`PullEntry`)."""

    @property
    def source(self) -> str: ...
    @property
    def to(self) -> str: ...
    @property
    def credit(self) -> int: ...


class PullOwner(Protocol):
    """What a pull uses of its connector."""

    @property
    def name(self) -> str: ...
    def later(self, seconds: float, call: Callable[[], None]) -> object: ...
    def pulling(self, source: str, to: str) -> None: ...
    def pull_failed(self, source: str, to: str, detail: str) -> None: ...


class QueuePull:
    """Runs one entry of `pull`: keeps its link open while the connector is connected."""

    def __init__(
        self, owner: PullOwner, entry: PullSettings, scope: Callable[[], Resolver], pauses: tuple[float, float]
    ) -> None:
        """`pauses`: seconds before a new attempt: the first and the longest, doubling."""
        self.entry: Final = entry
        self._owner: Final = owner
        self._scope: Final = scope
        self._first, self._most = pauses
        self._pause = pauses[0]
        self._engine: Engine | None = None
        self._link: PulledSender | None = None
        self.problem: str | None = "not connected yet"
        """Why nothing is received at the moment; None: the link is open."""

    def opened(self, engine: Engine) -> None:
        """The connector is connected."""
        self._engine, self._pause = engine, self._first
        self._start()

    def closed(self) -> None:
        """The connection was lost, and the link with it: the container delivers its unsettled messages again."""
        self._engine = None
        if self._link is not None:
            self._link.end(None)

    def _start(self) -> None:
        engine, scope = self._engine, self._scope()
        if self._link is not None or engine is None or engine.closed:
            return
        self._link = link = PulledSender(self, engine, scope.name, self._owner.name)
        try:
            scope.attach_to(link, self.entry.to, GatewayItself(scope.name, "pull", self.entry.to))
        except AmqpError as error:
            link.end(error)

    def attached(self) -> None:
        """The container has attached the link."""
        self._pause, self.problem = self._first, None
        self._owner.pulling(self.entry.source, self.entry.to)

    def ended(self, error: AmqpError | None) -> None:
        """The link was refused or has ended: try again, with growing pauses."""
        self._link = None
        if self._engine is None or self._engine.closed:
            self.problem = "not connected"
            return
        detail = "the link has ended" if error is None else brief(error)
        if detail != self.problem:
            self._owner.pull_failed(self.entry.source, self.entry.to, detail)
        self.problem = detail
        self._owner.later(self._pause, self._start)
        self._pause = min(self._pause * 2, self._most)


class PulledSender(InternalLink[Incoming], Incoming):
    """Both ends of a pull: the sender that the node sees (`IncomingLink`), and the handler of our link at the queue."""

    incoming: Final = True
    rejects: Final = True
    user: Final = ""

    def __init__(self, pull: QueuePull, engine: Engine, scope: str, connector: str) -> None:
        super().__init__(link_context(scope), Container(scope, connector))
        entry = pull.entry
        self._pull: Final = pull
        self._credit: Final = entry.credit
        self._step: Final = max(1, entry.credit // 4)
        self.engine: Final = engine
        self.scope: Final = scope
        self.name: Final = f"pull-{next(_numbers)}"
        self.address: Final = entry.to
        self.source: Final = ABSENT._replace(present=True, address=entry.source)
        self.target: Final = ABSENT._replace(present=True, address=entry.to)
        self.properties: Final[ValueMap] = {}
        self._remote: Link | None = None
        self._announced = False
        self._owed = 0
        self._busy = 0

    # -- for the node

    def accept(
        self,
        handler: Any,
        *,
        max_message_size: int = 0,
        capabilities: Iterable[str] = (),
        understands: frozenset[bytes] = ROUTING,
        **_: object,
    ) -> None:
        """The node accepts the link: attach to the queue."""
        if not self.accepted(self.instrumented(handler)):
            return
        self.max_message_size, self._announced = max_message_size, SUPPORTED in capabilities
        remote = self.engine.attach(self.name, incoming=True)
        own = (SUPPORTED,) if self._announced else ()
        remote.understands = understands
        source = self._pull.entry.source
        remote.request(self, AttachReply(source, max_message_size=max_message_size, own=own, stays=True))

    @property
    def granted(self) -> int:
        """Credit of the node that is not used yet, whether or not it was passed on to the queue."""
        return self._owed + (self._remote.granted if self._remote is not None else 0)

    def grant(self, credit: int) -> None:
        """The node grants `credit` more messages."""
        self._owed += credit
        self._ask()

    def _ask(self) -> None:
        """Pass on credit in batches: at most `credit` messages are requested or unsettled."""
        remote = self._remote
        if remote is None or not self._owed:
            return
        credit = min(self._owed, self._credit - self._busy - remote.granted)
        if credit >= self._step or (credit > 0 and not remote.granted):
            self._owed -= credit
            remote.grant(credit)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """The outcome of the node is the outcome at the queue."""
        self._busy -= 1
        if self._remote is not None:
            self._remote.settle(delivery, from_node(outcome, self.behind))
            self._ask()

    def drop(self, delivery: Delivery) -> None:
        self._busy -= 1
        if self._remote is not None:
            self._remote.drop(delivery)

    def tag(self, delivery: Delivery) -> bytes:
        return self._remote.tag(delivery) if self._remote is not None else b""

    def message_refused(self, error: AmqpError) -> None:
        if self._remote is not None:
            self._remote.message_refused(error)

    def fail(self, error: AmqpError) -> None:
        """Nothing: a rejected message must not end the link."""

    # -- our link at the container

    def on_attached(self, link: Link) -> None:
        """The container has attached the link."""
        if self.gone:
            link.detach()
            return
        self._remote, link.decision = link, self.decision
        link.counter, self.counter = self.counter, None  # the journal counts the outcomes at the queue
        self._pull.attached()
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
        """Nothing: this link is never drained."""

    def on_detach(self, error: AmqpError | None) -> None:
        self._remote = None
        self.end(error)

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """End the link of the node first, so that its unsettled messages go back to the queue."""
        if was_open:
            self.handler.on_detach(error)
        remote, self._remote = self._remote, None
        if remote is not None:
            remote.detach()
        self._pull.ended(error)
