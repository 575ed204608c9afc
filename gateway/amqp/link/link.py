"""One link of a connection: its attach, and how it begins and ends (AMQP 1.0 part 2, 2.6 and 2.7).

Its two halves, `receiver_link` and `sender_link`, handle messages: each takes a few C calls, one entry among the
unsettled deliveries, and one call of the node's handler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Self, cast

from cproton_ffi import lib

from gateway.amqp.codec.types import Value
from gateway.amqp.link.handlers import AttachListener, Incoming, Outgoing, OutgoingMessage, SendContext, Transfer
from gateway.amqp.link.outcomes import FAILED, Rejected
from gateway.amqp.link.sender_link import SenderHalf
from gateway.amqp.link.strict_handler import StrictHandler
from gateway.amqp.link.transacted_receiver import TransactedReceiverHalf
from gateway.amqp.message.hop import ROUTING
from gateway.amqp.message.response_support import SUPPORTED
from gateway.amqp.proton import batch, proton_data
from gateway.errors import MESSAGE_SIZE_EXCEEDED, AmqpError


class Link(TransactedReceiverHalf, SenderHalf):
    """A link as the nodes see it; `incoming` means that the peer is its sender."""

    __slots__ = ()

    def accept(
        self,
        handler: Incoming | Outgoing,
        *,
        address: str | None = None,
        capabilities: Iterable[str] = (),
        properties: Mapping[Value, Value] | None = None,
        filter: Mapping[Value, Value] | None = None,
        distribution_mode: str | None = None,
        max_message_size: int = 0,
        node_properties: Mapping[Value, Value] | None = None,
        durable: bool = False,
        volatile: bool = False,
        settled: bool = False,
        understands: frozenset[bytes] = ROUTING,
    ) -> None:
        """Answer the attach; from now on `handler` gets the link's events.

        Only the given filters and capabilities are in force, and only they are in the answer (CORE-3). `durable`: the
        terminus outlives its link; `volatile`: but not this process, so the answer does not call it durable (AMQP
        3.5.5). `settled`: every message is sent settled, whatever the peer prefers (2.7.3). `understands`: the names of
        the delivery annotations that the node gets (3.2.2).
        """
        if self.gone:
            handler.on_detach(None)
            return
        self.understands = understands
        self.unannounced = self.incoming and SUPPORTED not in (capabilities := tuple(capabilities))
        properties = {**self.fixed_properties, **(properties or {})}
        granted = proton_data.AttachReply(
            address, capabilities, properties, filter, distribution_mode, max_message_size, node_properties,
            durable=durable, volatile=volatile, settled=settled,
        )  # fmt: skip
        self.durable = durable
        self._answer(granted)
        counted = handler if self.counter is None else self.counter.instrument(handler)
        self.handler = self._strict(counted, detaches=True)
        self.began()
        self._open()
        self._use_early_flow()

    def _use_early_flow(self) -> None:
        """Use the credit of a flow that came before our attach."""
        if self.named is not None:
            self.name_transaction(self.named)
        self.flowed()

    def _answer(self, granted: proton_data.AttachReply) -> None:
        pointer = self.ptr
        lib.pn_terminus_copy(lib.pn_link_source(pointer), lib.pn_link_remote_source(pointer))
        lib.pn_terminus_copy(lib.pn_link_target(pointer), lib.pn_link_remote_target(pointer))
        mine = lib.pn_link_target(pointer) if self.incoming else lib.pn_link_source(pointer)
        proton_data.answer_terminus(mine, granted, source=not self.incoming)
        if self.source.outcomes:  # proton takes a source without an address for none (AT 2.2.2)
            lib.pn_terminus_set_type(lib.pn_link_source(pointer), lib.PN_SOURCE)
        proton_data.write(
            lib.pn_link_properties(pointer), dict(granted.properties) if granted.properties else None
        )
        self.presettled = self.presettled or granted.settled
        mode = lib.PN_SND_SETTLED if granted.settled else lib.pn_link_remote_snd_settle_mode(pointer)
        lib.pn_link_set_snd_settle_mode(pointer, mode)
        lib.pn_link_set_rcv_settle_mode(pointer, lib.pn_link_remote_rcv_settle_mode(pointer))
        self._limit(granted.max_message_size)

    def request(self, handler: AttachListener[Self], granted: proton_data.AttachReply) -> None:
        """Attach to a node of the peer (connectors); `handler.on_attached` gets the answer."""
        pointer = self.ptr
        remote = lib.pn_link_source(pointer) if self.incoming else lib.pn_link_target(pointer)
        lib.pn_terminus_set_type(lib.pn_link_source(pointer), lib.PN_SOURCE)
        kind = lib.PN_COORDINATOR if granted.coordinator else lib.PN_TARGET
        lib.pn_terminus_set_type(lib.pn_link_target(pointer), kind)
        proton_data.answer_terminus(remote, granted, source=self.incoming)
        if granted.durable:
            lib.pn_terminus_set_expiry_policy(remote, lib.PN_EXPIRE_NEVER)
        if granted.own:
            mine = lib.pn_link_target(pointer) if self.incoming else lib.pn_link_source(pointer)
            proton_data.write(lib.pn_terminus_capabilities(mine), proton_data.capability_array(granted.own))
        proton_data.write(
            lib.pn_link_properties(pointer), dict(granted.properties) if granted.properties else None
        )
        if granted.settled:
            lib.pn_link_set_snd_settle_mode(pointer, lib.PN_SND_SETTLED)
        self._limit(granted.max_message_size)
        self.attach_listener = handler
        self.handler = self._strict(handler, detaches=not granted.stays)
        self._open()

    def _strict(self: Self, handler: object, *, detaches: bool) -> object:
        """The handler, behind one that refuses what is not understood if the policy says so (3.2.10)."""
        if not self.incoming or not self.engine.config.strict_annotations or self.understands is None:
            return handler
        understands, self.understands = self.understands, None
        return StrictHandler(self, cast(Incoming, handler), understands, detaches=detaches)

    def _open(self: Self) -> None:
        lib.pn_link_open(self.ptr)
        if not self.incoming:
            self.engine.attaching(self)
        self.engine.touch()

    def refuse(self: Self, error: AmqpError) -> None:
        """Answer an attach with a null terminus of ours and a closing detach (CORE-2)."""
        if self.gone:
            return
        pointer = self.ptr
        source, target = lib.pn_link_source(pointer), lib.pn_link_target(pointer)
        lib.pn_terminus_set_type(source, lib.PN_UNSPECIFIED)
        lib.pn_terminus_set_type(target, lib.PN_UNSPECIFIED)
        repeats = self.engine.config.refusals_with_terminus
        if repeats is None or error.condition in repeats:
            if self.incoming:
                lib.pn_terminus_copy(source, lib.pn_link_remote_source(pointer))
            else:
                lib.pn_terminus_copy(target, lib.pn_link_remote_target(pointer))
        lib.pn_link_open(pointer)
        self._close(error)
        self.engine.refused(self, error)

    def withdraw(self, error: AmqpError) -> None:
        """Detach a link that the policy or a backend no longer allows; its unsettled messages get an outcome first.

        The handler releases those that it has not passed on (`give_back`); the others may have been delivered (3.4.5).
        """
        if self.open and self.incoming:
            self.handler.give_back()
            for delivery in self.held.deliveries:
                if not lib.pn_delivery_settled(batch.delivery_at(delivery)):
                    self.settle(delivery, FAILED)
        self.end(error)

    def end(self, error: AmqpError) -> None:
        """Detach the link, or refuse it if its attach has no answer; no effect if that has happened before."""
        if self.open:
            self.detach(error)
        elif self.waits:
            self.refuse(error)
            self.gone = True

    @property
    def waits(self) -> bool:
        """Whether the peer's attach has no answer yet."""
        return self.handler is None and self.failure is None and not self.gone

    def flowed(self: Self) -> None:
        """Handle a flow: update the credit, and let the node use it."""
        if not self.open or self.gone:
            return
        if self.incoming:
            self._drain_answered()
            return
        self.window = lib.pn_link_credit(self.ptr)
        self.draining = bool(lib.pn_link_get_drain(self.ptr))
        if self.owed:
            self.keep_owed()
        if self.acquisition is not None and self.acquisition.withholds():
            self.handler.on_credit()
        elif self.window > 0 and self.engine.blocked:
            self.engine.hold_up(self)
        elif self.window > 0:
            self.handler.on_credit()


class SizedLink(Link):
    """A link to a receiver with a max-message-size: larger messages are rejected on its behalf (2.7.3)."""

    __slots__ = ()

    def send(self, data: bytes, context: SendContext, settled: bool = False) -> None:
        """`Link.send`; the outcome of a message that is too large follows after the node's call."""
        if len(data) <= self.most:
            super().send(data, context, settled)
        elif settled:
            self.outcome_counts["dropped"] = self.outcome_counts.get("dropped", 0) + 1
        else:
            engine = self.engine
            engine.serial += 1
            self.unsettled.add(engine.serial, len(data), context)
            engine.oversize.append(partial(self._refuse_size, engine.serial, len(data)))
            engine.touch()

    def send_all(self, messages: list[OutgoingMessage]) -> None:
        """`Link.send_all`."""
        if all(len(message[0]) <= self.most for message in messages):
            super().send_all(messages)
        else:
            for message in messages:
                self.send(message[0], message)

    def forward(
        self, messages: list[Transfer], start: int, origin: object, changed: list[bytes] | None = None
    ) -> int:
        """`Link.forward`, up to the first message that is too large; the node sends that one by itself."""
        sizes = [len(data) for data in changed] if changed is not None else [len(item[1]) for item in messages[start:]]
        if all(size <= self.most for size in sizes):
            return super().forward(messages, start, origin, changed)
        return start

    def _refuse_size(self, number: int, size: int) -> None:
        """Give a message that was not sent its outcome."""
        if self.open and number in self.unsettled:
            text = f"the message has {size} bytes; the max-message-size of its receiver is {self.most}"
            self.handler.on_outcome(self.unsettled.take(number), Rejected(AmqpError(MESSAGE_SIZE_EXCEEDED, text)))


def sized(link: Link) -> None:
    """Use the max-message-size of the peer's attach. Links without one have no overhead."""
    if not link.incoming and (most := lib.pn_link_remote_max_message_size(link.ptr)):
        link.most = most
        link.__class__ = SizedLink
