"""One link of a connection: attach facts, credit, transfers, outcomes (AMQP 1.0 part 2, 2.6 and 2.7).

Part of the engine (it calls proton's C functions): everything per message here is a handful of C calls, one
dict entry for what is unsettled, and a call of the handler that the node gave when it accepted the link.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from cproton_ffi import ffi, lib

from gateway.amqp import dispositions, pndata
from gateway.amqp.handlers import Incoming, Outgoing
from gateway.amqp.outcomes import ACCEPTED, SETTLED, Outcome
from gateway.errors import MESSAGE_SIZE_EXCEEDED, TRANSFER_LIMIT_EXCEEDED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.engine import Engine

_ACCEPTED: Final = lib.PN_ACCEPTED
_RECEIVED: Final = lib.PN_RECEIVED
_END: Final = -1
"""What `pn_link_recv` says of a complete message with nothing left to read (PN_EOS)."""
_PARTIAL: Final = 128 * 1024
"""Bytes of an unfinished message that are taken out of proton, so that the session window stays open."""
# Looked up once: an attribute of `lib` costs as much as a short call, and these are called per message.
_unpack, _recv, _send, _advance = ffi.unpack, lib.pn_link_recv, lib.pn_link_send, lib.pn_link_advance
_readable, _partial, _is_settled = lib.pn_delivery_readable, lib.pn_delivery_partial, lib.pn_delivery_settled
_deliver, _update, _settle = lib.pn_delivery, lib.pn_delivery_update, lib.pn_delivery_settle
_remote_state = lib.pn_delivery_remote_state
_buffer = ffi.new("char[]", 1 << 20)
"""Where proton copies a message on its way to becoming bytes; one suffices, the loop is one thread."""
_BUFFER_SIZE: Final = 1 << 20


class Link:
    """A link as the nodes see it; `incoming` means that the peer is its sender.

    `open` is True from our attach answer until either side detaches: only then may it be used.
    """

    __slots__ = (
        "_at_once", "_granted", "_never_settled", "_orphans", "_parts", "accepted", "draining", "engine", "handler",
        "incoming", "max_message_size", "name", "node", "open", "others", "presettled", "properties", "ptr",
        "refusals", "session", "source", "target", "transfers", "way", "window",
    )  # fmt: skip

    def __init__(self, engine: Engine, pointer: Any) -> None:
        self.engine: Final = engine
        self.ptr: Final = pointer
        self.session: Final = lib.pn_link_session(pointer)
        self.name: Final = pndata.text(lib.pn_link_name(pointer)) or ""
        self.incoming: Final = bool(lib.pn_link_is_receiver(pointer))
        self.open = False
        self.handler: Any = None
        self.node: Any = None
        self.way: Any = None
        self.draining = False
        self.max_message_size = 0
        self._at_once = _BUFFER_SIZE - 1
        self.transfers = 0
        self.accepted = 0
        """Deliveries of the peer that were accepted; the other outcomes are in `others` by name."""
        self.others: dict[str, int] = {}
        self.refusals = 0
        self.window = 0
        self._granted = 0
        self._parts: bytearray | None = None
        self._orphans: list[Any] | None = None
        self.read_attach()

    @property
    def scope(self) -> str:
        """The scope of the connection this link is on."""
        return self.engine.peer.scope

    @property
    def user(self) -> str:
        """The authenticated identity behind the link."""
        return self.engine.peer.user

    @property
    def rejects(self) -> bool:
        """Whether the sender takes `rejected`: absent outcomes mean all of them (ledger A23)."""
        outcomes = self.source.outcomes
        return not outcomes or "amqp:rejected:list" in outcomes

    # -- attach and detach

    def read_attach(self) -> None:
        """Decode the peer's attach; again when the answer to an attach of ours has come."""
        pointer = self.ptr
        self.source = pndata.read_terminus(lib.pn_link_remote_source(pointer))
        self.target = pndata.read_terminus(lib.pn_link_remote_target(pointer))
        properties = pndata.read(lib.pn_link_remote_properties(pointer))
        self.properties: dict[Any, Any] = properties if isinstance(properties, dict) else {}
        mode = lib.pn_link_remote_snd_settle_mode(pointer)
        self.presettled = mode == lib.PN_SND_SETTLED
        self._never_settled = mode == lib.PN_SND_UNSETTLED

    @property
    def address(self) -> str | None:
        """The address the peer asked for: its target when it sends, its source when it receives."""
        return (self.target if self.incoming else self.source).address

    def accept(
        self,
        handler: Incoming | Outgoing,
        *,
        address: str | None = None,
        capabilities: Iterable[str] = (),
        properties: Mapping[Any, Any] | None = None,
        filter: Mapping[Any, Any] | None = None,
        distribution_mode: str | None = None,
        max_message_size: int = 0,
        node_properties: Mapping[Any, Any] | None = None,
    ) -> None:
        """Answer the attach; from here on `handler` gets what happens on the link.

        What is not given is not in force: filters and capabilities are echoed only when named (CORE-3).
        """
        granted = pndata.Granted(
            address, capabilities, properties, filter, distribution_mode, max_message_size, node_properties
        )
        pointer = self.ptr
        lib.pn_terminus_copy(lib.pn_link_source(pointer), lib.pn_link_remote_source(pointer))
        lib.pn_terminus_copy(lib.pn_link_target(pointer), lib.pn_link_remote_target(pointer))
        mine = lib.pn_link_target(pointer) if self.incoming else lib.pn_link_source(pointer)
        pndata.answer_terminus(mine, granted, source=not self.incoming)
        pndata.write(
            lib.pn_link_properties(pointer), dict(granted.properties) if granted.properties else None
        )
        lib.pn_link_set_snd_settle_mode(pointer, lib.pn_link_remote_snd_settle_mode(pointer))
        lib.pn_link_set_rcv_settle_mode(pointer, lib.pn_link_remote_rcv_settle_mode(pointer))
        self._limit(granted.max_message_size)
        self.handler, self.open = handler, True
        lib.pn_link_open(pointer)
        self.engine.touch()
        self.flowed()

    def request(self, handler: Any, granted: pndata.Granted) -> None:
        """Attach to a node of the peer (connectors): our wish; `handler.on_attached` gets the answer."""
        pointer = self.ptr
        remote = lib.pn_link_source(pointer) if self.incoming else lib.pn_link_target(pointer)
        lib.pn_terminus_set_type(lib.pn_link_source(pointer), lib.PN_SOURCE)
        lib.pn_terminus_set_type(lib.pn_link_target(pointer), lib.PN_TARGET)
        pndata.answer_terminus(remote, granted, source=self.incoming)
        pndata.write(
            lib.pn_link_properties(pointer), dict(granted.properties) if granted.properties else None
        )
        self._limit(granted.max_message_size)
        self.handler = handler
        lib.pn_link_open(pointer)
        self.engine.touch()

    def _limit(self, max_message_size: int) -> None:
        self.max_message_size = max_message_size
        self._at_once = min(max_message_size or _BUFFER_SIZE, _BUFFER_SIZE - 1)
        if self.incoming and max_message_size:
            lib.pn_link_set_max_message_size(self.ptr, max_message_size)

    def refuse(self, error: AmqpError) -> None:
        """Answer an attach with a null terminus of ours and a closing detach (CORE-2)."""
        pointer = self.ptr
        source, target = lib.pn_link_source(pointer), lib.pn_link_target(pointer)
        if self.incoming:
            lib.pn_terminus_copy(source, lib.pn_link_remote_source(pointer))
            lib.pn_terminus_set_type(target, lib.PN_UNSPECIFIED)
        else:
            lib.pn_terminus_copy(target, lib.pn_link_remote_target(pointer))
            lib.pn_terminus_set_type(source, lib.PN_UNSPECIFIED)
        lib.pn_link_open(pointer)
        self._close(error)
        self.engine.refused(self, error)

    def detach(self, error: AmqpError | None = None) -> None:
        """Detach for good (closed=true); the handler hears `on_detach` before this returns."""
        if not self.open:
            return
        self._close(error)
        self.ended(error)

    def fail(self, error: AmqpError) -> None:
        """A pre-settled message cannot be refused: the link that carried it ends."""
        self.detach(error)

    def _close(self, error: AmqpError | None) -> None:
        pndata.write_condition(lib.pn_link_condition(self.ptr), error)
        lib.pn_link_close(self.ptr)
        self.engine.touch()

    def ended(self, error: AmqpError | None) -> None:
        """The link can carry nothing more: tell the node once."""
        if self.open:
            self.open = False
            self.window = 0
            self.handler.on_detach(error)

    # -- the peer sends

    def grant(self, credit: int) -> None:
        """Let the peer send `credit` more messages."""
        if self.open and credit > 0 and self.engine.granting:
            self._granted += credit
            lib.pn_link_flow(self.ptr, credit)
            self.engine.touch()

    @property
    def granted(self) -> int:
        """Credit given and not yet used."""
        return self._granted

    def drain(self) -> None:
        """Ask the peer to use or give back its credit; the handler hears `on_drained`."""
        self.draining = True
        lib.pn_link_drain(self.ptr, 0)
        self.engine.touch()

    def _drain_answered(self) -> None:
        """A flow from a peer we asked to drain: done when no credit is left (2.6.7)."""
        if self.draining and lib.pn_link_credit(self.ptr) <= 0:
            self.draining = False
            lib.pn_link_drained(self.ptr)
            self._granted = 0
            self.handler.on_drained()

    def arrived(self, delivery: Any) -> None:
        """A delivery event on an incoming link: hand over the message when it is complete."""
        if not _readable(delivery):
            return
        if _partial(delivery) or self._parts is not None:
            self._arrived_in_parts(delivery)
            return
        pointer = self.ptr
        size = _recv(pointer, _buffer, _BUFFER_SIZE)
        if not 0 < size <= self._at_once:
            self._unusual(delivery, size)
            return
        data = _unpack(_buffer, size)
        _advance(pointer)
        self._granted = granted = self._granted - 1
        if granted < 0:
            self._no_credit()
            return
        self.transfers += 1
        self.handler.on_transfer(delivery, data, not self._never_settled and _is_settled(delivery))

    def _unusual(self, delivery: Any, size: int) -> None:
        """More than fits the buffer or the limit, nothing at all, or aborted."""
        if size == _BUFFER_SIZE:
            self._parts = bytearray(ffi.buffer(_buffer, size))
            self._arrived_in_parts(delivery)
        elif size > 0:
            self._too_large(size)
        elif size == _END:
            self._complete(delivery, b"")
        else:
            self._aborted(delivery)

    def _complete(self, delivery: Any, data: bytes) -> None:
        _advance(self.ptr)
        self._granted -= 1
        if self._granted < 0:
            self._no_credit()
            return
        self.transfers += 1
        self.handler.on_transfer(delivery, data, bool(_is_settled(delivery)))

    def _no_credit(self) -> None:
        self.detach(AmqpError(TRANSFER_LIMIT_EXCEEDED, "a transfer arrived without link credit"))

    def drop(self, delivery: Any) -> None:
        """A pre-settled delivery that nobody can take: counted, for its sender cannot be told."""
        self.others["dropped"] = self.others.get("dropped", 0) + 1
        self.settle(delivery, SETTLED)

    def message_refused(self, error: AmqpError) -> None:
        """One message of this link was refused: for the operator's log and counters."""
        self.engine.message_refused(self, error)

    def tag(self, delivery: Any) -> bytes:
        """The delivery's tag as it came: any bytes, not only text."""
        raw = lib.pn_delivery_tag(delivery)
        return bytes(ffi.buffer(raw.start, raw.size)) if raw.size else b""

    def settle(self, delivery: Any, outcome: Outcome) -> None:
        """Give the peer's delivery its outcome; nothing happens when the link is gone."""
        if not self.open:
            return
        if outcome is ACCEPTED:
            _update(delivery, _ACCEPTED)
            self.accepted += 1
        else:
            dispositions.write(delivery, outcome)
            self.others[outcome.name] = self.others.get(outcome.name, 0) + 1
        _settle(delivery)
        engine = self.engine
        if not engine.dirty:
            engine.touch()

    def _arrived_in_parts(self, delivery: Any) -> None:
        """Large and unfinished messages: collected outside proton, which would copy them again and again."""
        size = lib.pn_delivery_pending(delivery)
        if lib.pn_delivery_aborted(delivery):
            self._aborted(delivery)
            return
        parts = self._parts = self._parts if self._parts is not None else bytearray()
        if self.max_message_size and len(parts) + size > self.max_message_size:
            self._too_large(len(parts) + size)
            return
        done = not lib.pn_delivery_partial(delivery)
        if size >= _PARTIAL or done:
            while size > 0 and (got := lib.pn_link_recv(self.ptr, _buffer, min(size, _BUFFER_SIZE))) > 0:
                parts += ffi.buffer(_buffer, got)
                size -= got
            self.engine.touch()
        if done:
            self._parts = None
            self._complete(delivery, bytes(parts))

    def _aborted(self, delivery: Any) -> None:
        """2.6.14: an aborted delivery never happened; its credit is given back."""
        self._parts = None
        lib.pn_link_advance(self.ptr)
        lib.pn_delivery_settle(delivery)
        self._granted -= 1
        self.grant(1)

    def _too_large(self, size: int) -> None:
        self._parts = None
        self.detach(
            AmqpError(
                MESSAGE_SIZE_EXCEEDED,
                f"the message has at least {size} bytes, this link takes {self.max_message_size}",
            )
        )

    # -- we send

    @property
    def credit(self) -> int:
        """What may be sent now: the peer's credit, 0 while its socket or session is full."""
        return 0 if self.engine.blocked else self.window

    def send(self, data: bytes, context: Any, settled: bool = False) -> None:
        """Send one message; `context` comes back with its outcome (not when `settled`)."""
        pointer, engine = self.ptr, self.engine
        self.window -= 1
        self.transfers += 1
        engine.serial = serial = engine.serial + 1
        engine.tag_bytes[0] = serial
        delivery = _deliver(pointer, engine.tag)
        _send(pointer, data, len(data))
        _advance(pointer)
        if settled or self.presettled:
            _settle(delivery)
            if not settled:
                self.handler.on_outcome(context, SETTLED)
        else:
            engine.unsettled[delivery] = (self, context)
        if not engine.dirty:
            engine.touch()

    def updated(self, delivery: Any, context: Any) -> bool:
        """A delivery event on an outgoing link: settle and pass the outcome on; False: no outcome yet."""
        state = _remote_state(delivery)
        if state == _ACCEPTED:
            outcome: Outcome = ACCEPTED
        elif (not state or state == _RECEIVED) and not lib.pn_delivery_settled(delivery):
            return False
        else:
            outcome = dispositions.read(delivery, state)
        _settle(delivery)
        engine = self.engine
        if not engine.dirty:
            engine.touch()
        if self.open:
            self.handler.on_outcome(context, outcome)
        return True

    def flowed(self) -> None:
        """A flow event: remember the credit and let the node use it."""
        if not self.open:
            return
        if self.incoming:
            self._drain_answered()
            return
        self.window = lib.pn_link_credit(self.ptr)
        self.draining = bool(lib.pn_link_get_drain(self.ptr))
        if self.window > 0 and not self.engine.blocked:
            self.handler.on_credit()

    def drained(self) -> None:
        """Answer a drain: all that could be sent has been sent (2.6.7)."""
        if self.open:
            lib.pn_link_drained(self.ptr)
            self.window = 0
            self.draining = False
            self.engine.touch()

    def take_unsettled(self) -> list[Any]:
        """The contexts whose outcome will never come, oldest first; for `on_detach`."""
        if self._orphans is None:
            return self.engine.take_unsettled(self)
        orphans, self._orphans = self._orphans, None
        return orphans

    def orphan(self, context: Any) -> None:
        """Keep a context for `take_unsettled` while the whole connection ends."""
        if self._orphans is None:
            self._orphans = []
        self._orphans.append(context)
