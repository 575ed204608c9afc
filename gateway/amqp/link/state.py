"""The state that both halves of a link share: the attach, and the end of the link (AMQP 1.0 part 2, 2.6 and 2.7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias

from cproton_ffi import lib

from gateway.amqp.codec.types import Value, ValueMap
from gateway.amqp.link.dispositions import fitting_error
from gateway.amqp.link.handlers import ENDED, AttachListener, takes_batches
from gateway.amqp.link.outcomes import SETTLED, Outcome
from gateway.amqp.link.port import EnginePort
from gateway.amqp.message.hop import ROUTING
from gateway.amqp.proton import proton_data
from gateway.amqp.proton.batch import Received, Unsettled, address
from gateway.amqp.proton.handles import ProtonLink, ProtonSession
from gateway.errors import INTERNAL_ERROR, AmqpError, Fault, told
from gateway.held.alive import ALIVE
from gateway.principal import Requester, User

if TYPE_CHECKING:
    from gateway.amqp.link.transactions import Acquiring, NamedTransaction

BUFFER_SIZE: Final = 1 << 20
"""Size of the read buffer: messages of fewer bytes are read from proton in one piece."""

NodeData: TypeAlias = Any
"""Data of nodes, which a link only stores; `gateway.links.link.Link` has its types."""


class DetachKind(Enum):
    """How a link ended, which matters for a terminus that outlives its links (AMQP 3.5.3, 3.5.6)."""

    CLOSED = "detach with closed=true"
    DETACHED = "detach"
    SESSION = "end of its session"
    CONNECTION = "close of its connection"
    LOST = "loss of its connection"
    OURS = "detach of ours"


class LinkState:
    """A link as the nodes see it; `incoming` means that the peer is its sender.

    `open` is True from our attach answer until either side detaches: only then may it be used.
    """

    _alive: ClassVar = ALIVE
    fence: Final = 0
    offset_group: Final[str | None] = None
    """See `gateway.links.link.Link`: only a link of the gateway's own has them."""

    __slots__ = (
        "_at_once", "_granted", "_never_settled", "_partial_body", "_several", "_withheld", "accepted", "acquired",
        "acquisition", "attach_listener", "behind", "context", "counted", "counter", "decision", "default_outcome",
        "desired", "draining", "durable", "engine", "failure", "filter_rules", "fixed_properties", "gone", "handle",
        "handler", "held", "incoming", "leaving", "left", "max_message_size", "message_format", "most", "name",
        "named", "open", "outcome_counts", "owed", "presettled", "properties", "proton_address", "ptr", "refusals",
        "requester", "serial", "session", "since", "source", "target", "totals", "transfers", "unannounced",
        "understands", "unsettled", "window",
    )  # fmt: skip

    context: NodeData
    """Its scope, and how reply addresses are treated (`LinkContext`)."""
    decision: NodeData
    """The decision of the policy (`RouteDecision`)."""
    filter_rules: NodeData
    """The rules for reading its filters (`filter_set.Rules`)."""
    counter: NodeData
    """The journal's counts (`LinkCounter`); its `instrument` wraps the handler."""
    since: float
    """When its attach was taken, in seconds since 1970."""
    leaving: NodeData
    """The transform of requests in a topic for its reader (`topic_requests`)."""
    behind: str | None
    """See `gateway.links.link.NodeLink`."""
    serial: int
    """Among the links of its connection."""
    owed: int
    """Credit that a drain returns as soon as all messages are written."""
    outcome_counts: dict[str, int]
    attach_listener: AttachListener[Self] | None
    """Of a link of ours."""
    acquisition: Acquiring | None
    """What it sends in a transaction now (4.4.3)."""
    acquired: dict[int, Acquiring]
    """The unsettled messages that it has sent in transactions that are not over, by their numbers."""
    named: NamedTransaction | None
    """By a flow that came before our attach."""
    handler: Any  # an `Incoming` or `Outgoing`, as `incoming` says, perhaps one that takes batches; None: none yet

    def __init__(self, engine: EnginePort[Self], pointer: ProtonLink) -> None:
        self._alive.count += 1
        self.engine: Final = engine
        self.ptr: Final = pointer
        self.proton_address: Final = address(pointer)  # `ptr` as a number, for the C code
        self.session: Final[ProtonSession] = lib.pn_link_session(pointer)
        self.name: Final = proton_data.text(lib.pn_link_name(pointer)) or ""
        self.incoming: Final = bool(lib.pn_link_is_receiver(pointer))
        self.open = self.gone = False
        """`gone`: the peer has detached, or its connection was lost: an unanswered attach gets no answer."""
        self.left = DetachKind.LOST
        """Valid in `on_detach`."""
        self.durable = False  # our terminus outlives the link (CORE-6)
        self.failure: AmqpError | None = None  # the error with which we detached it
        self.default_outcome: Outcome = SETTLED  # the outcome of what the peer settles without one
        self.fixed_properties: Mapping[Value, Value] = {}  # link properties that our answer always has
        self.unannounced = False  # our target did not announce that responses follow annotations (RA-2.3-3)
        self.understands: frozenset[bytes] | None = ROUTING  # delivery annotations that pass here (3.2.2); None: all
        self.decision = self.counter = self.filter_rules = self.context = self.leaving = None
        self.handler = self.attach_listener = self.acquisition = self.named = self.behind = None
        self.requester: Requester = engine.peer.requester  # the requester of its messages
        self.desired = frozenset[str]()  # the desired-capabilities of the attach
        self.message_format = 0  # of the message that the handler gets now (`EngineConfig.message_formats`)
        self.draining = self._several = False  # `_several`: the handler takes several messages at once
        self.max_message_size = self.most = 0  # that we take, and that the peer takes; 0: any
        self._at_once = BUFFER_SIZE - 1
        self.transfers = self.accepted = self.refusals = 0
        """Deliveries; accepted ones (`outcome_counts` has the other outcomes); refused messages."""
        self.outcome_counts, self.acquired = {}, {}
        self.totals: dict[str, int] | None = None  # what `recount` has reset, by outcome, and `transfers`
        self.counted = 0  # deliveries that `transfers` leaves out (`recount`), and credit that we gave back
        self.handle = -1  # of a sender of ours, once its attach is written
        self.since = 0.0
        self.serial = self.window = self.owed = self._granted = self._withheld = 0
        self._partial_body: bytearray | None = None
        self.held: Final = Received(self, engine.tally)
        """Received messages without an outcome."""
        self.unsettled: Final = Unsettled(self, engine.tally)
        """Sent messages without an outcome: contexts by the delivery's number."""
        self.read_attach()

    def __del__(self) -> None:
        self._alive.count -= 1

    def recount(self) -> None:
        """Reset the counts, which were added elsewhere."""
        self.counted += self.transfers
        self.totals = self.counts()
        self.transfers = self.accepted = 0
        self.outcome_counts.clear()

    def counts(self) -> dict[str, int]:
        """Since the attach: `transfers`, and the outcomes by name."""
        found = dict(self.totals or {})
        for name, count in (("transfers", self.transfers), ("accepted", self.accepted), *self.outcome_counts.items()):
            found[name] = found.get(name, 0) + count
        return found

    @property
    def scope(self) -> str:
        """The scope of its connection."""
        return self.engine.peer.scope

    @property
    def user(self) -> str:
        """The authenticated user: of its connection, or of the link itself (`act_for`)."""
        requester = self.requester
        return requester.name if isinstance(requester, User) else self.engine.peer.user

    def act_for(self, user: str) -> None:
        """Act for another user than that of the connection; before the link has reached its node."""
        self.requester = User(self.scope, user)

    @property
    def rejects(self) -> bool:
        """Whether the sender supports `rejected`: absent outcomes mean all of them (ledger A23)."""
        outcomes = self.source.outcomes
        return not outcomes or "amqp:rejected:list" in outcomes

    def read_attach(self) -> None:
        """Decode the peer's attach; again when the answer to an attach of ours has come."""
        pointer = self.ptr
        self.source = proton_data.read_terminus(lib.pn_link_remote_source(pointer))
        self.target = proton_data.read_terminus(lib.pn_link_remote_target(pointer))
        properties = proton_data.read(lib.pn_link_remote_properties(pointer))
        self.properties: ValueMap = properties if isinstance(properties, dict) else {}
        mode = lib.pn_link_remote_snd_settle_mode(pointer)
        self.presettled = mode == lib.PN_SND_SETTLED
        self._never_settled = mode == lib.PN_SND_UNSETTLED

    @property
    def address(self) -> str | None:
        """The address of the peer's attach: its target if it sends, its source if it receives."""
        return (self.target if self.incoming else self.source).address

    def _limit(self, max_message_size: int) -> None:
        self.max_message_size = max_message_size
        self._at_once = min(max_message_size or BUFFER_SIZE, BUFFER_SIZE - 1)
        if self.incoming and max_message_size:
            lib.pn_link_set_max_message_size(self.ptr, max_message_size)

    def detach(self, error: AmqpError | None = None) -> None:
        """Detach with closed=true; `on_detach` is called before this returns."""
        if not self.open:
            return
        self.left = DetachKind.OURS
        self._close(error)
        self.ended(error)

    def attempt(self, step: Callable[[], None]) -> None:
        """Call `step`; if it fails unexpectedly, end this link with an error and raise it."""
        try:
            step()
        except Exception:
            text = "the gateway cannot continue this link; attach again. Its log says why"
            self.detach(self.own(AmqpError(INTERNAL_ERROR, text, fault=Fault.GATEWAY)))
            raise

    def leave(self: Self) -> None:
        """Detach with closed=false: the terminus outlives the link (AMQP 2.6.3)."""
        if self.open:
            self.left, self.durable = DetachKind.OURS, True
            self.engine.detached(self)
            lib.pn_link_detach(self.ptr)
            self.engine.touch()
            self.ended(None)

    def own(self, error: AmqpError) -> AmqpError:
        """An error about the link and its messages themselves, of whatever scope their node is."""
        return error.of(self.scope)

    def fail(self, error: AmqpError) -> None:
        """A settled message cannot be refused: end its link."""
        self.detach(error)

    def _close(self: Self, error: AmqpError | None) -> None:
        self.failure = error
        shown = None if error is None else error.of(self.behind)
        shown = fitting_error(told(shown, self.scope), self.engine.peer.max_frame_size)
        proton_data.write_condition(lib.pn_link_condition(self.ptr), shown)
        self.engine.detached(self)
        lib.pn_link_close(self.ptr)
        self.engine.touch()

    def began(self) -> None:
        """Both sides have attached."""
        self.open = True
        if self.incoming:
            self._several = takes_batches(self.handler)
            self.engine.receivers[self.proton_address] = self.held
        else:
            self.unsettled.in_batches = takes_batches(self.handler)
            self.engine.senders[self.proton_address] = self.unsettled

    def ended(self: Self, error: AmqpError | None) -> None:
        """The link has ended: notify the node once."""
        if self.open:
            self.open = False
            (self.engine.receivers if self.incoming else self.engine.senders).pop(self.proton_address, None)
            self.engine.sends_no_more(self)
            self.window = 0
            self.drop_partial_body()
            self.handler.on_detach(error)

    def release(self) -> None:
        """Nothing will come on it any more: break the circles of references, so that it is freed without a collection.

        Nodes may still hold it, and use it as a link that has ended.
        """
        if self.handler is not None:
            self.handler = ENDED
        self.attach_listener = self.acquisition = self.leaving = None
        self.held.disown()
        self.unsettled.disown()
        if self.failure is not None:
            self.failure.__traceback__ = None  # whose frames have the link

    def drop_partial_body(self) -> None:
        """Drop the received part of an unfinished message."""
        if self._partial_body is not None:
            self.engine.unfinished -= len(self._partial_body)
            self._partial_body = None
