"""One AMQP connection, sans-IO: bytes in, events to handlers, bytes out (AMQP 1.0 part 2).

Only this package, `gateway.amqp.link` and `gateway.amqp.proton` call proton's C engine. There is no socket and no
clock here: `receive` takes bytes, `take` gives bytes, `tick` takes the time. The owner calls `lost()` when the socket
is gone, then `free()`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from cproton_ffi import lib

from gateway.amqp.codec.decoder import malformed
from gateway.amqp.engine.dispatcher import Dispatcher
from gateway.amqp.engine.echoes import Echoes
from gateway.amqp.engine.input import Input
from gateway.amqp.engine.listener import EngineListener
from gateway.amqp.engine.output import CANNOT_GO_ON, Output
from gateway.amqp.engine.performatives import named_transaction
from gateway.amqp.engine.product import product_of
from gateway.amqp.engine.restraint import Restraint
from gateway.amqp.engine.sessions import Sessions
from gateway.amqp.engine.setup import connected
from gateway.amqp.engine.table import LinkTable
from gateway.amqp.link.config import CallSoon, EngineConfig, PeerInfo
from gateway.amqp.link.link import Link
from gateway.amqp.link.state import DetachKind, LinkState
from gateway.amqp.proton import batch, proton_data, ticks
from gateway.amqp.proton.transport_errors import SILENT, reworded
from gateway.errors import INTERNAL_ERROR, AmqpError
from gateway.instance import instance

if TYPE_CHECKING:
    from gateway.amqp.link.attach_info import Disposition
    from gateway.amqp.proton.handles import ProtonEvent


class Engine(Restraint):
    """A connection's protocol state; `dirty` while output waits to be taken."""

    _sessions: Sessions
    remote_hostname: str | None = None

    def __init__(self, config: EngineConfig, owner: EngineListener[Engine], *, server: bool) -> None:
        super().__init__()
        self.config: Final = config
        self._owner: Final = owner
        self._soon: CallSoon | None = owner.soon
        self._server: Final = server
        self.dirty = self.opened = self.closed = self.faulted = self.silent = self.discarding = False
        self.remote_container = self.remote_product = ""
        self.offered = self.desired = frozenset[str]()
        self.table = LinkTable(self, owner)
        self._links: Final = self.table.live
        self.peer = PeerInfo()
        self.refusals = self.ignored = self.serial = 0
        """Refused links of the peer; its resumed deliveries; the number of our last delivery, which is its tag."""
        self.oversize = deque()
        """Calls that give messages their outcomes that are too large for their receivers."""
        self.receivers: Final[dict[int, batch.Received]] = {}
        """Unsettled deliveries of the open links on which whole messages come, by the link's address."""
        self.senders: Final[dict[int, batch.Unsettled]] = {}
        """Unsettled deliveries of the open links on which we send, by the link's address."""
        self._connection, self._transport, self._collector = connected(config, server=server)
        self._output = Output(self._transport, self.tally)
        self._sessions = Sessions(self._connection, self._transport, self._output.take_early)
        self._echoes = Echoes(self._sessions, self._output)
        before_end = partial(self._safely, self._output.before_end)
        reads = self.dispatch, before_end, self._echo, self._acquires, self._reword, self._states
        self._input = Input(self._transport, *reads)
        self._inspector: Final = self._input.inspector
        self._table = {
            lib.PN_CONNECTION_REMOTE_OPEN: self._remote_open,
            lib.PN_CONNECTION_REMOTE_CLOSE: self._remote_close,
            lib.PN_SESSION_REMOTE_OPEN: self._session_open,
            lib.PN_SESSION_REMOTE_CLOSE: self._session_close,
            lib.PN_LINK_REMOTE_OPEN: self._link_open,
            lib.PN_LINK_REMOTE_CLOSE: lambda event: self._link_close(event, DetachKind.CLOSED),
            lib.PN_LINK_REMOTE_DETACH: lambda event: self._link_close(event, DetachKind.DETACHED),
            lib.PN_TRANSPORT_TAIL_CLOSED: self._input_ended,
        }
        kinds = lib.PN_TRANSPORT_ERROR, *self._table
        self._dispatcher = Dispatcher(self, self._collector, self.table, self._inspector, self._control, kinds)

    # -- bytes and time

    def receive(self, data: bytes) -> bool:
        """Process bytes from the peer; True: it is more work than for one turn, so `go_on` before further bytes."""
        self._work = self._input.push(data)
        behind = next(self._work, False)
        if not self.dirty:
            self.touch()
        return behind

    def go_on(self) -> bool:
        """Do more of the work of the bytes that came last; returns whether some of it is left."""
        behind = next(self._work, False)
        if not self.dirty:
            self.touch()
        return behind

    def dispatch(self) -> bool:
        """Handle waiting events, of which some may be left then; a broken control frame ends the connection."""
        try:
            if self._inspector.watching:
                self._inspector.look()
            return self._dispatcher.dispatch()
        except AmqpError as error:
            self._fail(error)
            return True  # its events are still to be handled

    def _safely(self, step: Callable[[], None]) -> None:
        """Do a step of reading input; an error of the peer ends the connection."""
        try:
            step()
        except AmqpError as error:
            self._fail(error)

    def _states(self, frame: bytes | None) -> None:
        self._safely(partial(self._dispatcher.read_state, frame))

    def _acquires(self, frame: bytes | None) -> None:
        """A flow comes that may name a transaction; None: its event is over (4.4.3)."""
        self._dispatcher.named = None if frame is None else named_transaction(frame)

    def _echo(self, what: int, channel: int) -> None:
        """Answer a flow: with `echo`, or with a drain of a sender of ours that has no credit to advance (2.6.7).

        Such a drain from a sender of the peer is the answer to ours.
        """
        link = self._dispatcher.last_flow
        if what != batch.EMPTY_DRAIN or (link is not None and not link.incoming):
            self._echoes.note(link, channel if what == batch.ECHO_SESSION else None)

    def _fail(self, error: AmqpError) -> None:
        """End the connection with an error.

        Without the peer's open, proton only sends the close of a transport error.
        """
        self._faulted()
        if not lib.pn_connection_state(self._connection) & lib.PN_REMOTE_UNINIT:
            if not self.opened:  # the error came together with the peer's open
                self.open()
            self.close(error)
        else:
            proton_data.write_condition(lib.pn_transport_condition(self._transport), error)
            lib.pn_transport_close_tail(self._transport)
        self.lost(error)

    def _faulted(self) -> None:
        self.faulted = True
        self._input.stop()

    def take(self) -> bytes:
        """`take_pieces` in one piece."""
        return b"".join(self.take_pieces())

    def take_pieces(self) -> list[bytes]:
        """The bytes to write now, in pieces that may end within a frame; none while `paused` (the socket is full)."""
        self.dirty = False
        while self.oversize:
            self.oversize.popleft()()
        output, pieces = self._output, list[bytes]()
        if not self.paused:
            if self._echoes.pending:
                self._echoes.answer()
            pieces = output.take()
            if self._drains.links and self._drains.answer():
                pieces += output.take()
            self.tally.unflushed = 0
            self.largest_output = max(self.largest_output, sum(map(len, pieces)))
        if output.failure is not None and not self.paused:
            self._broken(output.failure)
            pieces += output.take()
        return pieces

    @property
    def remote_idle(self) -> float:
        """The idle-time-out of the peer's open in seconds (2.4.5); 0: none."""
        return float(lib.pn_transport_get_remote_idle_timeout(self._transport)) / 1000

    @property
    def finished(self) -> bool:
        """Whether nothing will be written any more; the peer may still send."""
        return self._output.finished

    def tick(self, now_ms: int, unheard: bool = False) -> int:
        """Handle heartbeats and the idle time-out; when to call again, and `unheard`: see `ticks` and `heartbeats`."""
        deadline = ticks.tick(self._transport, now_ms, unheard)
        if lib.pn_transport_pending(self._transport):  # nearly always there is nothing to do
            self._reword()
            self.dispatch()
            self.touch()
        return deadline

    def touch(self) -> None:
        """There may be output: have the owner flush once in this turn of the loop."""
        if not self.dirty:
            self.dirty = True
            self._owner.engine_dirty()

    def _broken(self, error: AmqpError) -> None:
        """proton can write no more: end the connection without it."""
        if not self.closed:
            self._output.end(error)
            self._faulted()
            self.lost(error)

    def broken(self) -> None:
        """An unexpected error of ours: end the connection after the pending output."""
        if self.closed:
            return
        error = AmqpError(INTERNAL_ERROR, CANNOT_GO_ON)
        self._input.stop()
        self.oversize.clear()
        if lib.pn_connection_state(self._connection) & lib.PN_LOCAL_ACTIVE:  # otherwise our close is written already
            self._output.end(error)
        self.lost(error)

    # -- connection

    def open(self, offered: Iterable[str] | None = None) -> None:
        """Send our open with the capabilities of the configuration."""
        config, connection = self.config, self._connection
        proton_data.write_open(
            connection, config.offered if offered is None else offered, config.all_desired, config.properties
        )
        lib.pn_connection_open(connection)
        self.touch()

    def close(self, error: AmqpError | None = None) -> None:
        """Close the connection; the peer's answer ends it. Frames before that are discarded (2.4.6)."""
        if self.closed or self.discarding:
            return
        proton_data.write_condition(lib.pn_connection_condition(self._connection), error)
        lib.pn_connection_close(self._connection)
        self.touch()
        if self._server:
            self.discarding = True
            self.table.lost(error, DetachKind.CONNECTION, self._soon)

    def lost(self, error: AmqpError | None, left: DetachKind = DetachKind.LOST) -> None:
        """The socket is closed: every link ends now."""
        if self.closed:
            return
        self.closed = True
        try:
            self.table.lost(error, left, self._soon)
        finally:
            self._owner.engine_closed(self, error)

    def free(self) -> None:
        """Free the C structures, once all links have ended; no method may be called after this."""
        connection = self._transport, self._connection, self._collector
        self.table.when_ended(lambda: self.table.free(*connection, self._soon))

    @property
    def links(self) -> list[Link]:
        """The links that the peer or we have attached."""
        return list(self._links.values())

    @property
    def live_links(self) -> int:
        """The number of `links`."""
        return len(self._links)

    # -- links of ours

    def message_format(self, name: str, tag: bytes) -> int:
        """The message-format of a received delivery; may be called once."""
        return self._inspector.message_format(name, tag) if self._inspector.watching else 0

    @property
    def disposition(self) -> Disposition | None:
        """See `EnginePort`."""
        return self._dispatcher.disposition

    def attach(self, name: str, *, incoming: bool, known: bool = False) -> Link:
        """A new link of ours (connectors), still to be requested with `Link.request`; `name` is unique here.

        `known`: the peer knows a terminus by this name, which is the same in every process of ours. Other names contain
        the process, because gateways with the same id must not steal each other's links (CORE-7).
        """
        session = self._sessions.ours()
        make = lib.pn_receiver if incoming else lib.pn_sender
        pointer = make(session, (name if known else f"{name}-{instance()}").encode())
        link = Link(self, pointer)
        self._sessions.attach(link)
        self.table.add(link)
        return link

    def attached(self, link: Link) -> None:
        """Reserve a handle for our half of a link of the peer; raises AmqpError if there is none."""
        self._sessions.attach(link)

    def attaching(self, link: LinkState) -> None:
        """The attach of a sender of ours will be written next."""
        self._output.attaching(link)

    def restate(self, accept: Callable[[], None], state: bytes) -> None:
        """See `EnginePort`."""
        self._output.restate(accept, state)
        self.touch()

    def detached(self, link: LinkState) -> None:
        """Our half of a link detaches."""
        self._sessions.detach(link)
        self.table.forsake(link)

    @property
    def unsettled(self) -> int:
        """The number of unsettled deliveries."""
        return sum(map(len, self.senders.values()))

    def refused(self, link: Link, error: AmqpError) -> None:
        """A link of the peer was refused: for the owner's log and counters."""
        self.refusals += 1
        self._owner.link_refused(link, error)

    def message_refused(self, link: Link, error: AmqpError) -> None:
        """A message of the peer was refused: for the owner's log and counters."""
        self._owner.message_refused(link, error)

    def counted_late(self, link: Link) -> None:
        """A link has counted something after its end."""
        self._owner.link_counted(link)

    # -- events

    def _control(self, kind: int, event: ProtonEvent) -> None:
        """Handle an event of the connection, a session or a link."""
        if kind == lib.PN_TRANSPORT_ERROR:
            self._transport_error()
        elif self.closed or (self.discarding and kind != lib.PN_CONNECTION_REMOTE_CLOSE):
            return  # after our close only the peer's close matters
        elif (handle := self._table.get(kind)) is not None:
            self._inspector.look()
            handle(event)

    def _remote_open(self, event: ProtonEvent) -> None:
        connection = self._connection
        self.remote_container = proton_data.text(lib.pn_connection_remote_container(connection)) or ""
        self.remote_hostname = proton_data.text(lib.pn_connection_remote_hostname(connection))
        self.remote_product = product_of(lib.pn_connection_remote_properties(connection))
        self.offered = proton_data.names(lib.pn_connection_remote_offered_capabilities(connection))
        self.desired = proton_data.names(lib.pn_connection_remote_desired_capabilities(connection))
        self.opened = True
        self.table.weigh(self._inspector.opening)
        self.peer.max_frame_size = self._output.limit()
        self._owner.engine_opened(self)

    def _remote_close(self, event: ProtonEvent) -> None:
        error = proton_data.read_condition(lib.pn_connection_remote_condition(self._connection))
        lib.pn_connection_close(self._connection)
        self.touch()
        self.lost(error, DetachKind.CONNECTION)

    def _input_ended(self, event: ProtonEvent) -> None:
        """proton reads no more: after a close, an error, or a frame that it ignores."""
        if not self.closed:
            raise malformed("unexpected or missing performative")

    def _reword(self) -> None:
        """Tell what is wrong with the input in our words, before output is written: the event may have to wait."""
        if self._inspector.watching:
            self._safely(self._inspector.look)
        found = proton_data.read_condition(lib.pn_transport_condition(self._transport))
        if not self.closed and found is not None:
            self._output.reword(reworded(found))

    def _transport_error(self) -> None:
        self._reword()
        error = reworded(proton_data.read_condition(lib.pn_transport_condition(self._transport)))
        self.silent = error.description == SILENT
        self._faulted()
        self.touch()
        self.lost(error)

    def _session_open(self, event: ProtonEvent) -> None:
        if self._sessions.full:
            self.table.end_all()
        self._sessions.begun(lib.pn_event_session(event), *self._inspector.begun())
        self._output.begun = True
        self.touch()

    def _session_close(self, event: ProtonEvent) -> None:
        session = lib.pn_event_session(event)
        error = proton_data.read_condition(lib.pn_session_remote_condition(session))
        self.table.of_session_closed(session, error, lambda: self._sessions.end(session), self._soon)

    def _link_open(self, event: ProtonEvent) -> None:
        self.table.opened(lib.pn_event_link(event), self._inspector.asked())

    def _link_close(self, event: ProtonEvent, left: DetachKind) -> None:
        self.table.closed(lib.pn_event_link(event), left)
        self.touch()
