"""One socket: protocol header, SASL, then the engine (AMQP 1.0 part 2, 2.2 and part 5, 5.3).

All connections of a loop share a `FlushScheduler`, which writes the engines' output once per turn of the loop.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final, Protocol, cast

from gateway.amqp.engine.engine import Engine
from gateway.amqp.engine.pressure import Pressure
from gateway.amqp.link.config import CallSoon, EngineConfig, PeerInfo
from gateway.amqp.link.link import Link
from gateway.amqp.sasl.password_checks import Ticket
from gateway.amqp.transport.flush_scheduler import FlushScheduler, guarded
from gateway.amqp.transport.full_arity import FullArityEngine
from gateway.amqp.transport.handshake import Handshake
from gateway.amqp.transport.heartbeats import HEARTBEAT, Heartbeats
from gateway.amqp.transport.slices import UNREAD
from gateway.amqp.transport.waiting_input import WaitingInput
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.held.account import Account

_HIGH_WATER: Final = 1024 * 1024
"""Bytes waiting in one socket above which its links stop sending."""
_CLOSE_GRACE: Final = 5.0
"""Seconds that a peer has to answer our close before the socket is closed."""


class ConnectionDelegate(Protocol):
    """A listener or connector: decides about the connections that it owns."""

    def secure(self, connection: Connection) -> Handshake: ...
    def engine_config(self, connection: Connection) -> EngineConfig: ...
    def established(self, connection: Connection) -> None: ...
    def check_password(
        self, connection: Connection, passes: Callable[[], bool], then: Callable[[bool], None]
    ) -> Ticket: ...
    def refused(self, connection: Connection, reason: str) -> None: ...
    def unauthenticated(self, connection: Connection, security: Handshake) -> None: ...
    def opened(self, connection: Connection) -> None: ...
    def requested(self, connection: Connection, link: Link) -> None: ...
    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...
    def message_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_counted(self, link: Link) -> None: ...
    def closed(self, connection: Connection, error: AmqpError | None) -> None: ...


class Connection(asyncio.Protocol):
    """A socket with its engine; also the engine's owner."""

    def __init__(
        self, hub: FlushScheduler, host: ConnectionDelegate, *, server: bool, handshake: float, name: str
    ) -> None:
        self.hub: Final = hub
        self._host: Final = host
        self._server: Final = server
        self._handshake: Final = handshake
        self.name: Final = name
        self.transport: asyncio.Transport | None = None
        self.engine: Engine | None = None
        self.peer = PeerInfo(connection=name)
        self._security: Handshake | None = None
        self._ticket: Ticket | None = None
        self.loss: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heartbeats: Final = Heartbeats(hub.loop, self._look)
        self._ending = False
        self._waiting: Final = WaitingInput()
        self._deaf = self._lost = self._failed = self._working = self._behind = False
        self._pressure: Pressure | None = None
        self.bytes_in = self.bytes_out = self._uncharged = self.outside = 0
        self._taken_bytes = 0, 0

    # -- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER)
        peername = transport.get_extra_info("peername")
        self.peer.address = f"{peername[0]}:{peername[1]}" if isinstance(peername, tuple) else "unknown"
        self._timer = self.hub.loop.call_later(self._handshake, self._too_slow)
        self._host.established(self)
        if not transport.is_closing():
            self._security = self._host.secure(self)
            self._write(self._security.take())

    def data_received(self, data: bytes) -> None:
        self.bytes_in += len(data)
        try:  # what `guarded` does, without its call
            if self.engine is not None:
                self._receive(data)
                self._uncharged += len(data)
                if self._uncharged > UNREAD:  # a socket may be read many times before the loop flushes
                    self._charge()
            elif self._security is not None:
                self._secure(self._security, data)
        except Exception as error:
            self.hub.failed(self, error)

    def _receive(self, data: bytes) -> None:
        """Process input; large input is processed in slices, so that other connections get their turns."""
        if self._working:
            self._waiting.add(data)
            self._hold(len(self._waiting.data) > UNREAD)
        elif self.engine is not None and len(data) <= self._waiting.slice and self.hub.free():
            if self.engine.receive(data):
                self._behind = self._working = True
                self.hub.soon(self._go_on)
        else:
            self._waiting.add(data)
            self._working = True
            self.hub.run(self._go_on)

    def _hold(self, deaf: bool) -> None:
        """Stop reading the socket, or read it again."""
        if deaf is not self._deaf:
            self._deaf = deaf
            self._listen()

    def _listen(self) -> None:
        transport, deaf = self.transport, self._deaf or (self._pressure is not None and self._pressure.paused)
        if transport is not None and not transport.is_closing() and transport.is_reading() is deaf:
            (transport.pause_reading if deaf else transport.resume_reading)()

    def _go_on(self) -> None:
        """Process the next part of the input, in turn with other connections."""
        try:
            self._behind = self._work()
        except Exception as error:
            self.hub.failed(self, error)
            self._waiting.clear()
            self._behind = False
        self._working = self._behind or len(self._waiting.data) > 0
        if self._working:
            self.hub.soon(self._go_on)
        elif self._lost:
            self._let_go()
        else:
            self._hold(False)

    def _work(self) -> bool:
        """Let the engine go on, or process the next slice; returns whether the engine has to go on."""
        engine = self.engine
        assert engine is not None  # it stays until nothing waits
        if self._behind:
            return engine.go_on()
        data, before = self._waiting.take(), time.thread_time()
        behind = engine.receive(data)
        self._waiting.took(time.thread_time() - before)
        return behind

    def eof_received(self) -> bool:
        return False  # without a close first: connection_lost tells the engine

    def pause_writing(self) -> None:
        if self.engine is not None:
            self.engine.pause(True)

    @guarded
    def resume_writing(self) -> None:
        if self.engine is not None:
            self.engine.pause(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.loss = exc
        self._stop_timer(final=True)
        if self._ticket is not None:
            self._ticket.cancel()
        self.transport = self._security = None
        if self.engine is None:
            self._host.closed(self, None)
        elif self._working:  # process what the peer sent before it left
            self._lost = True
        else:
            self.hub.run(self._let_go)

    def _let_go(self) -> None:
        if (engine := self.engine) is not None:
            try:
                engine.lost(None)
            finally:
                self.engine = None
                self._close_account()
                engine.free()

    # -- before the engine

    def _secure(self, security: Handshake, data: bytes) -> None:
        security.receive(data)
        self._secured(security)

    def _secured(self, security: Handshake) -> None:
        """Continue after protocol header and SASL."""
        self._write(security.take())
        if security.failed:
            self._host.unauthenticated(self, security)
            self.abort(gently=True)
        elif security.done:
            self.peer.user, self.peer.mechanism = security.user or "anonymous", security.mechanism
            self._security = None
            self._start_engine(security.rest)
        elif (passes := security.check) is not None and self._ticket is None and self.transport is not None:
            self.transport.pause_reading()  # further input waits in the socket
            self._ticket = self._host.check_password(self, passes, self._checked)

    def _checked(self, passes: bool) -> None:
        self._ticket = None
        if (security := self._security) is not None and self.transport is not None:
            security.checked(passes)
            self.transport.resume_reading()
            self._secured(security)

    def _start_engine(self, rest: bytes) -> None:
        config = self._host.engine_config(self)
        make = FullArityEngine if config.full_arity else Engine
        engine = self.engine = make(config, self, server=self._server)
        engine.peer = self.peer
        self._open_account(engine)
        if not self._server:
            engine.open()
        if rest:
            self._receive(rest)
        engine.touch()

    def _open_account(self, engine: Engine) -> None:
        hub, config, transport = self.hub, engine.config, self.transport
        if transport is not None:
            account = hub.budget.open(
                self.peer.scope, self.peer.user, self._over, connection=config.memory, per_user=config.user_memory
            )
            self._pressure = Pressure(hub.loop, engine, account, transport, self._slowed, self._listen)

    def _charge(self) -> None:
        self._uncharged = 0
        if self._pressure is not None:
            self._pressure.turn(len(self._waiting.data) + self.outside)

    def _slowed(self, how: str) -> None:
        self.hub.slowed(self, how)

    def _over(self) -> None:
        """End the connection: nothing else frees the memory that it holds and others need."""
        self._slowed("closed")
        self.close(AmqpError(RESOURCE_LIMIT_EXCEEDED, "out of memory, and this connection holds the most of it"))

    def _close_account(self) -> None:
        if self._pressure is not None:
            self._pressure.close()
            self.hub.budget.close(self.peer.scope, self.peer.user, self._pressure.account)
            self._pressure = None

    @property
    def account(self) -> Account | None:
        """The account of its memory, once its peer is known."""
        return None if self._pressure is None else self._pressure.account

    def _too_slow(self) -> None:
        if self.engine is None or not self.engine.opened:
            self._host.refused(self, "no open frame within the time limit")
            self.abort(gently=False)

    # -- output and time

    def write_out(self) -> None:
        """Write the engine's output; called by the flush scheduler once per turn of the loop."""
        engine, transport = self.engine, self.transport
        if engine is None or transport is None:
            return
        pieces = engine.take_pieces()
        if size := sum(map(len, pieces)):
            self.bytes_out += size
            transport.writelines(pieces)  # not joined: the socket is written to from all of them at once
            if self._heartbeats.resting and size > HEARTBEAT:
                self._heartbeats.wrote(engine)
        while not self._behind and engine.dispatch(): ...  # what is behind has turns of its own
        self._charge()
        if engine.finished and not self._ending:
            self._end(transport)

    flush = guarded(write_out)

    def _end(self, transport: asyncio.Transport) -> None:
        """End our half only: a socket that is closed with unread input is reset, and our close frame could be lost."""
        self._ending = True
        if transport.can_write_eof():
            transport.write_eof()
            self.hub.loop.call_later(_CLOSE_GRACE, self.abort)
        else:
            self.abort(gently=True)

    def take_bytes(self) -> tuple[int, int]:
        """The bytes that came in and went out since the last call."""
        before, self._taken_bytes = self._taken_bytes, (self.bytes_in, self.bytes_out)
        return self.bytes_in - before[0], self.bytes_out - before[1]

    def _write(self, data: bytes) -> None:
        if data and self.transport is not None:
            self.transport.write(data)

    @guarded
    def _look(self) -> None:
        if self.engine is not None:
            self._heartbeats.looked(self.engine, self._working or self.outside > 0)

    def _stop_timer(self, final: bool = False) -> None:
        self._heartbeats.stop(final)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self, error: AmqpError | None = None) -> None:
        """Close in order; the socket is closed when the peer answers, or after the grace period."""
        if self.engine is None or not self.engine.opened:
            self.abort(gently=True)
            return
        self.engine.close(error)
        self.flush()
        self.hub.loop.call_later(_CLOSE_GRACE, self.abort)

    def broken(self) -> None:
        """An unexpected error of ours: notify the peer if possible, and close the socket."""
        engine, again, self._failed = self.engine, self._failed, True
        if again or engine is None or not engine.opened:
            self.abort()
            return
        try:
            engine.broken()
        except Exception as error:
            self.hub.failed(self, error)
        self.flush()

    def abort(self, gently: bool = False) -> None:
        """Close the socket at once; `gently`: after pending output was sent."""
        if (transport := self.transport) is None:
            return
        if not gently:
            transport.abort()
        elif not transport.is_closing():  # asyncio's TLS transport can neither be asked nor aborted if closed twice
            transport.close()

    # -- the engine's owner

    @property
    def soon(self) -> CallSoon | None:
        """Schedules the ends of many links; None for a connector, whose links are attached again at once."""
        return (lambda step: self.hub.soon(lambda: self._take(step))) if self._server else None

    @guarded
    def _take(self, step: Callable[[], None]) -> None:
        step()

    def engine_dirty(self) -> None:
        self.hub.add(self)

    def engine_opened(self, engine: Engine) -> None:
        self._stop_timer()
        self._host.opened(self)
        self._heartbeats.begin(engine)

    def engine_closed(self, engine: Engine, error: AmqpError | None) -> None:
        self._stop_timer()
        if self.transport is not None:  # a peer that does not read our last frame must not keep the socket open
            self._timer = self.hub.loop.call_later(_CLOSE_GRACE, self.abort)
        self._host.closed(self, error)

    def link_requested(self, link: Link) -> None:
        self._host.requested(self, link)

    def link_refused(self, link: Link, error: AmqpError) -> None:
        self._host.link_refused(link, error)

    def link_ended(self, link: Link, error: AmqpError | None) -> None:
        self._host.link_ended(link, error)

    def message_refused(self, link: Link, error: AmqpError) -> None:
        self._host.message_refused(link, error)

    def link_counted(self, link: Link) -> None:
        self._host.link_counted(link)

    @property
    def descriptor(self) -> int:
        """The number of the socket's file descriptor; -1: it is closed."""
        found = self.transport.get_extra_info("socket") if self.transport is not None else None
        return -1 if found is None else int(found.fileno())

    @property
    def ssl_object(self) -> ssl.SSLObject | None:
        """The TLS session of this socket, None on plain TCP."""
        found: ssl.SSLObject | None = None
        if self.transport is not None:
            found = self.transport.get_extra_info("ssl_object")
        return found

