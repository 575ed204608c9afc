"""Takes the events of one connection from proton's collector and hands each to its link or to the connection.

Part of the engine. The usual events (whole messages, accepted deliveries) are collected in C, many in one call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from cproton_ffi import lib

from gateway.amqp.link.attach_info import Disposition, read_disposition
from gateway.amqp.link.state import BUFFER_SIZE
from gateway.amqp.proton import batch
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.engine.control_frames import ControlFrameInspector
    from gateway.amqp.engine.table import LinkTable
    from gateway.amqp.link.link import Link
    from gateway.amqp.link.port import EnginePort
    from gateway.amqp.link.transactions import NamedTransaction
    from gateway.amqp.proton._batch import Batch
    from gateway.amqp.proton.handles import ProtonCollector, ProtonDelivery, ProtonEvent, ProtonLink

_FLOW: Final = lib.PN_LINK_FLOW
_AT_ONCE: Final = 50
"""Events that are handled one by one in a call: a single disposition of the peer may make many thousands of them."""
_MOST: Final = 64 * 2**20
"""Bytes of the state of one disposition, for all of its messages together."""
_STATES: Final = 2**20
"""Bytes of states of a peer for messages that it has sent and not settled: nobody uses them, and proton keeps them."""
_SECONDS: Final = 0.001
"""The time that they may take, and no more of them begin: outcomes with many annotations take long."""


class Dispatcher:
    """The events of one connection; `last_flow` is the link of the last flow.

    `named`: the transaction that the flow names whose event comes next; None: it names none. `disposition`: what the
    disposition says whose events come, if it was read from its frame.
    """

    def __init__(
        self,
        engine: EnginePort[Link],
        collector: ProtonCollector,
        links: LinkTable,
        inspector: ControlFrameInspector,
        control: Callable[[int, ProtonEvent], None],
        kinds: Iterable[int],
    ) -> None:
        """`control` gets the events of these `kinds`; flows and deliveries go to their links, and others are dropped.
        """
        self._engine: Final = engine
        self._collector: Final = collector
        self._events: Final = batch.address(collector)
        self._handled: Final = batch.event_table((_FLOW, *kinds))
        self._links: Final = links
        self._inspector: Final = inspector
        self._control: Final = control
        self.last_flow: Link | None = None
        self.named: NamedTransaction | None = None
        self.disposition: Disposition | None = None
        self._stay = 0

    def read_state(self, frame: bytes | None) -> None:
        """Read a disposition, whose events come next, once for all of its messages; None: they have come.

        proton has a copy of the state for each message that it knows. Raises AmqpError if these are too many.
        """
        self.disposition = found = None if frame is None else read_disposition(frame)
        if frame is None:
            return
        tally = self._engine.tally
        known = tally.out_count + tally.in_count
        messages = known if found is None else min(found.messages, known)
        if messages * len(frame) > _MOST:
            text = f"a disposition of {len(frame)} bytes for {messages} messages; the limit for all of them is 64 MiB"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"{text}: settle fewer at a time, or with fewer annotations")
        if found is not None and found.stays:
            self._stay = messages * len(frame) + (self._stay if tally.in_count else 0)
            if self._stay > _STATES:
                text = "states of more than 1 MiB for unsettled messages that you have sent: leave them out, or settle"
                raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)

    def dispatch(self) -> bool:
        """Dispatch waiting events to their links or to the connection; returns whether some may be left."""
        engine, collector = self._engine, self._collector
        run: list[Batch] = []
        until = time.monotonic() + _SECONDS
        for _ in range(_AT_ONCE):
            other = batch.drain_events(
                self._events, engine.senders, engine.receivers, BUFFER_SIZE - 1, run, self._handled
            )
            if run:
                self._hand_out(run)
            if not other:
                return False
            event = lib.pn_collector_peek(collector)
            try:
                if delivery := lib.pn_event_delivery(event):
                    self._partial_or_settled(lib.pn_delivery_link(delivery), delivery)
                elif (kind := lib.pn_event_type(event)) == _FLOW:
                    self._flow(lib.pn_event_link(event))
                else:
                    self._control(kind, event)
            finally:
                lib.pn_collector_pop(collector)
            if time.monotonic() > until:
                break
        return True

    def _hand_out(self, run: list[Batch]) -> None:
        """Pass on received messages and accepted deliveries; a link may have ended since they were collected."""
        if not self._engine.dirty:
            self._engine.touch()
        inspector = self._inspector
        try:
            for link, found in run:
                if link.incoming and inspector.watching:
                    link.received_of_any_format(found)
                elif link.incoming and inspector.transacting:
                    link.received_with_states(found, inspector.one_state)
                elif link.incoming:
                    link.received_all(found)
                else:
                    link.accepted_all(found)
        finally:
            run.clear()

    def _partial_or_settled(self, pointer: ProtonLink, delivery: ProtonDelivery) -> None:
        """Handle a delivery that is neither a whole message nor accepted."""
        link = self._links.live.get(pointer)
        if link is None or (link.incoming and not link.open):
            self._links.unclaimed(pointer, delivery)
        elif link.incoming:
            link.on_partial(delivery)
        elif (number := link.number(delivery)) in link.unsettled:
            link.updated(delivery, number, lib.pn_delivery_remote_state(delivery))
        else:
            if not link.open:
                link.updated_late(delivery)
            self._links.unclaimed(pointer, delivery)

    def _flow(self, pointer: ProtonLink) -> None:
        self.last_flow = link = self._links.live.get(pointer)
        named, self.named = self.named, None
        if link is None:
            return
        if named is not None and not link.incoming:
            link.name_transaction(named)
        link.flowed()
