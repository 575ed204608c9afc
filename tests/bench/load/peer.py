"""One AMQP connection of the load generator: proton's C engine over raw bytes (issue 3, section 8).

It drives the engine the way the gateway does (bytes in, events out, one flush per loop turn) but shares no
code with it, so that a mistake there cannot hide in the measuring instrument.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Protocol, cast

from cproton_ffi import ffi, lib

ONE_MIB = 1 << 20
BUFFER_SIZE = 4 * ONE_MIB
BUFFER: Any = ffi.new("char[]", BUFFER_SIZE)  # shared: everything here runs on one loop
OFFERED = ("RESPONSE_ANNOTATIONS_V1_0",)
_names = itertools.count(1)


class Role(Protocol):
    """What a connection is used for; `delivery` comes once per delivery event, `turn` after a read."""

    def opened(self, peer: Peer) -> None: ...
    def attached(self, link: Any) -> None: ...
    def delivery(self, delivery: Any) -> None: ...
    def turn(self) -> None: ...
    def failed(self, reason: str) -> None: ...


class Peer(asyncio.Protocol):
    """A client connection (or the serving half of the self-test, with `server=True`)."""

    def __init__(self, role: Role, *, server: bool = False) -> None:
        self.role = role
        self._connection = lib.pn_connection()
        self._transport = lib.pn_transport()
        self._collector = lib.pn_collector()
        self._socket: asyncio.Transport | None = None
        self._flush_due = False
        self._bind(server)
        self.session = lib.pn_session(self._connection)
        lib.pn_session_set_incoming_capacity(self.session, 256 * ONE_MIB)

    def _bind(self, server: bool) -> None:
        if server:
            lib.pn_transport_set_server(self._transport)
        lib.pn_sasl_allowed_mechs(lib.pn_sasl(self._transport), b"ANONYMOUS")
        lib.pn_transport_set_max_frame(self._transport, 65536)
        lib.pn_connection_collect(self._connection, self._collector)
        lib.pn_connection_set_container(self._connection, b"bench-%d" % next(_names))
        lib.pn_connection_set_hostname(self._connection, b"bench")
        _put_symbols(lib.pn_connection_offered_capabilities(self._connection), OFFERED)
        lib.pn_transport_bind(self._transport, self._connection)

    def sender(self, address: str | None) -> Any:
        """Opens a link that we send on; `address` None is the anonymous terminus."""
        link = lib.pn_sender(self.session, b"bench-%d" % next(_names))
        lib.pn_terminus_set_type(lib.pn_link_source(link), lib.PN_SOURCE)
        target = lib.pn_link_target(link)
        lib.pn_terminus_set_type(target, lib.PN_TARGET)
        if address is not None:
            lib.pn_terminus_set_address(target, address.encode())
        lib.pn_link_open(link)
        return link

    def receiver(
        self,
        address: str | None,
        *,
        capabilities: tuple[str, ...] = (),
        filters: bytes = b"",
        settled: bool = False,
        binding: bytes = b"",
    ) -> Any:
        """Opens a link that we receive on; `address` None asks for a dynamic one.

        `filters` and `binding` (the link properties) are encoded maps.
        """
        link = lib.pn_receiver(self.session, b"bench-%d" % next(_names))
        source, target = lib.pn_link_source(link), lib.pn_link_target(link)
        lib.pn_terminus_set_type(source, lib.PN_SOURCE)
        lib.pn_terminus_set_type(target, lib.PN_TARGET)
        if address is None:
            lib.pn_terminus_set_dynamic(source, True)
        else:
            lib.pn_terminus_set_address(source, address.encode())
        if filters:
            lib.pn_data_decode(lib.pn_terminus_filter(source), filters, len(filters))
        if settled:
            lib.pn_link_set_snd_settle_mode(link, lib.PN_SND_SETTLED)
        if binding:
            lib.pn_data_decode(lib.pn_link_properties(link), binding, len(binding))
        _put_symbols(lib.pn_terminus_capabilities(target), capabilities)
        lib.pn_link_open(link)
        return link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        lib.pn_connection_open(self._connection)
        lib.pn_session_open(self.session)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket = None
        self.role.failed(f"connection lost: {exc}")

    def data_received(self, data: bytes) -> None:
        start, done, size = ffi.from_buffer(data), 0, len(data)
        while done < size:
            pushed = lib.pn_transport_push(self._transport, start + done, size - done)
            self._events()
            if pushed <= 0:
                break
            done += pushed
        self.role.turn()
        self.flush_soon()

    def flush_soon(self) -> None:
        """Asks for one flush at the end of this loop turn."""
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Writes all the engine has to say."""
        self._flush_due = False
        socket, transport, buffer = self._socket, self._transport, BUFFER
        while socket is not None and (size := lib.pn_transport_pending(transport)) > 0:
            size = lib.pn_transport_peek(transport, buffer, min(size, BUFFER_SIZE))
            socket.write(ffi.unpack(buffer, size))
            lib.pn_transport_pop(transport, size)
        self._events()

    def close(self) -> None:
        """Closes the connection and the socket once what was written is out."""
        lib.pn_connection_close(self._connection)
        self.flush()
        if self._socket is not None:
            self._socket.close()

    def _events(self) -> None:
        collector, role_delivery = self._collector, self.role.delivery
        peek, pop, kind_of = lib.pn_collector_peek, lib.pn_collector_pop, lib.pn_event_type
        delivery_of, delivery_kind = lib.pn_event_delivery, lib.PN_DELIVERY
        while event := peek(collector):
            kind = kind_of(event)
            if kind == delivery_kind:
                role_delivery(delivery_of(event))
            else:
                self._control(kind, event)
            pop(collector)

    def _control(self, kind: int, event: Any) -> None:
        if kind == lib.PN_CONNECTION_REMOTE_OPEN:
            self.role.opened(self)
        elif kind == lib.PN_LINK_REMOTE_OPEN:
            self.role.attached(lib.pn_event_link(event))
        elif kind == lib.PN_LINK_REMOTE_CLOSE:
            self.role.failed(_condition(lib.pn_link_remote_condition(lib.pn_event_link(event))))
        elif kind == lib.PN_CONNECTION_REMOTE_CLOSE:
            self.role.failed(_condition(lib.pn_connection_remote_condition(self._connection)))
        elif kind == lib.PN_TRANSPORT_ERROR:
            self.role.failed(_condition(lib.pn_transport_condition(self._transport)))


def remote_source_address(link: Any) -> str:
    """The address the peer gave to the source, for dynamic ones."""
    return str(ffi.string(lib.pn_terminus_get_address(lib.pn_link_remote_source(link))), "utf-8")


def _condition(condition: Any) -> str:
    if not lib.pn_condition_is_set(condition):
        return "closed by the peer"
    texts = (lib.pn_condition_get_name(condition), lib.pn_condition_get_description(condition))
    return ": ".join(str(ffi.string(text), "utf-8") for text in texts if text)


def _put_symbols(data: Any, symbols: tuple[str, ...]) -> None:
    if not symbols:
        return
    lib.pn_data_put_array(data, False, lib.PN_SYMBOL)
    lib.pn_data_enter(data)
    for symbol in symbols:
        raw = symbol.encode()
        lib.pn_data_put_symbol(data, (len(raw), ffi.from_buffer(raw)))
    lib.pn_data_exit(data)
