"""A container that the gateway connects to: several URLs, jittered backoff, links that are attached again
(docs/design.md, `connect`)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Final, Protocol

from gateway import PRODUCT
from gateway.amqp.engine.engine import Engine
from gateway.amqp.link.config import EngineConfig
from gateway.amqp.message.response_support import CAPABILITY as ANNOTATIONS
from gateway.amqp.sasl.client import SaslClient
from gateway.amqp.sasl.password_checks import Ticket
from gateway.amqp.transport.connection import Connection
from gateway.amqp.transport.flush_scheduler import FlushScheduler
from gateway.amqp.transport.handshake import Handshake
from gateway.connectors.anonymous_sender import AnonymousRelayNode, SharedAnonymousSender
from gateway.connectors.backoff import ReconnectPauses
from gateway.connectors.failures import Failures, why, why_no_login
from gateway.connectors.port import ConnectedLink, needs_response_routing
from gateway.connectors.queue_pull import QueuePull
from gateway.connectors.relay import RemoteNode
from gateway.connectors.reply_queue import ConnectorReplyAddress
from gateway.connectors.transactions.resource import ContainerTransactions
from gateway.connectors.unanswered import UnansweredLinks
from gateway.errors import NOT_ALLOWED, NOT_IMPLEMENTED, AmqpError, brief
from gateway.links.link import NodeLink, TransformFactory
from gateway.links.link_context import LinkContext, link_context
from gateway.observability.link_events import LinkEvents
from gateway.response.crossing_rule import RESPONSE
from gateway.routing.event_annotations import CAPABILITY

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.nodes.base import Resolver
    from policies.model.scopes.connect import ConnectorSection as ConnectorModel
    from policies.values.units import Endpoint

_HANDSHAKE: Final = 10.0


class Watcher(Protocol):
    """Something that attaches links to the container (bridges)."""

    def opened(self, engine: Engine) -> None: ...
    def closed(self) -> None: ...


class Connector:
    """Keeps one connection to the container open for the relays that use it; the delegate of that connection."""

    _since = 0.0
    """When the present connection was opened, by the loop's clock."""
    _timer: asyncio.TimerHandle | None = None
    """Until its session has begun."""

    def __init__(
        self,
        scope: str,
        model: ConnectorModel,
        *,
        container_id: str,
        hub: FlushScheduler,
        report: LinkEvents,
        node_scope: Callable[[], Resolver],
        routes: bool,
        bridged: bool = False,
    ) -> None:
        """`routes`: the policy routes responses in this scope; `bridged`: it reads an event log there."""
        self.name: Final = model.name
        self.scope: Final = scope
        self.model: Final = model
        self._password: str | None = None
        self._tls: ssl.SSLContext | None = None
        self._hub: Final = hub
        self._report: Final = report
        self._relays: set[ConnectedLink] = set()
        self._watchers: set[Watcher] = set()
        self._connection: Connection | None = None
        self._endpoint: Endpoint = model.to[0]
        self._ended = asyncio.Event()
        self._was_open = self._begun = self._unfit = self._down = self._holding = False
        self._failures: Final = Failures()
        self._detail = "not connected yet"
        self.routes: Final = routes
        correlation = model.replies.ids == "both"
        self.reply_address: Final = ConnectorReplyAddress(
            self, model.replies.address, node_scope, correlation=correlation
        )
        self.transactions: Final = ContainerTransactions(self)
        self._anonymous_sender: SharedAnonymousSender | None = None
        pauses = (model.backoff.min.seconds, model.backoff.max.seconds)
        self._pulls: Final = tuple(QueuePull(self, entry, node_scope, pauses) for entry in model.pull)
        self.bridged: Final = bridged
        self._unanswered: Final = UnansweredLinks(self.later, self._replace)
        self._engine_config: Final = self._config(container_id)

    def _config(self, container_id: str) -> EngineConfig:
        """The engine configuration; targets of pulls and relays announce response routing (RA-2.1-2)."""
        model, routes = self.model, self.routes
        streams = (CAPABILITY,) if self.bridged or model.require_event_streams else ()
        return EngineConfig(
            container_id=model.container_id or container_id,
            desired=(("ANONYMOUS-RELAY",) if model.use_relay else ()) + streams,
            offered=(ANNOTATIONS,) if routes else (),
            properties=PRODUCT,
            idle_timeout=model.idle_timeout,
            max_links=65_535,
            shared=True,
            strict_annotations=model.strict_annotations,
            annotations=model.annotations if routes else "never",
        )

    @property
    def settings(self) -> tuple[ConnectorModel, bool, bool]:
        """Settings whose change needs another connector."""
        return self.model, self.routes, self.bridged

    def credentials(self, password: str | None, tls: ssl.SSLContext | None) -> None:
        """Set the credentials of the next connection: before `run`, and after every reload."""
        self._password, self._tls = password, tls

    async def run(self) -> None:
        """Connect and reconnect until cancelled."""
        pauses = ReconnectPauses(self.model.backoff.min.seconds, self.model.backoff.max.seconds)
        for endpoint in cycle(self.model.to):
            self._was_open = False
            await self._session(endpoint)
            lasted = self._hub.loop.time() - self._since if self._was_open else 0.0
            await asyncio.sleep(pauses.after(lasted))

    async def _session(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._down = False
        self._ended.clear()
        try:
            async with asyncio.timeout(_HANDSHAKE):
                await self._connect(endpoint)
        except (OSError, TimeoutError, UnicodeError) as error:  # UnicodeError: a name that DNS cannot hold
            self._failed(why(error, self._tls if endpoint.tls else None, opened=False))
            self.unreachable(error)
            return
        await self._ended.wait()

    async def _connect(self, endpoint: Endpoint) -> None:
        """TLS checks the host name of the endpoint, whichever address was connected to."""
        dialled, connect = await self.dial(endpoint), self._hub.loop.create_connection
        tls, name = (self._tls, endpoint.host) if endpoint.tls else (None, None)
        if dialled is None:
            await connect(self._make, endpoint.host, endpoint.port, ssl=tls, server_hostname=name)
        else:
            await connect(self._make, sock=dialled, ssl=tls, server_hostname=name)

    async def dial(self, endpoint: Endpoint) -> socket.socket | None:
        """A connected socket; None: the loop resolves the name and connects."""
        return None

    def unreachable(self, error: Exception) -> None:
        """There is no connection; for those who wait for one."""

    def _make(self) -> Connection:
        return Connection(
            self._hub, self, server=False, handshake=_HANDSHAKE, name=f"{self.scope}/{self.name}"
        )

    def _failed(self, reason: str) -> None:
        """Count a failed attempt, and log its reason where that is new: an outage is one line."""
        if self._down:
            return
        self._down, self._detail = True, f"{self._endpoint}: {reason}"
        self._report.increment("connector_failures", self.name)
        if self._failures.is_new(self._endpoint, reason):
            ids = {"scope": self.scope, "connector": self.name}
            self._report.log.warning("connector down", **ids, detail=self._detail, relays=len(self._relays))

    def ready(self) -> tuple[bool, str]:
        """Whether the container is connected, and if not, why; also the queues that are not pulled from."""
        if self.engine is None:
            return False, self._detail
        waiting = [f"; not pulling from {pull.entry.source}: {pull.problem}" for pull in self._pulls if pull.problem]
        return True, f"connected to {self._endpoint}{''.join(waiting)}"

    def hold(self) -> None:
        """Grant no more credit (drain), nor on connections that are made later."""
        self._holding = True
        if (engine := self.engine) is not None:
            engine.stop_granting()

    def close(self, error: AmqpError | None = None) -> None:
        """Close the connection; relays lose their remote links. Nothing has failed, so nothing is logged."""
        self._down, self._detail = True, f"{self._endpoint}: closed"
        if self._connection is not None:
            self._connection.close(error)

    # -- for relays

    def relay(self, address: str, make_transform: TransformFactory) -> RemoteNode | AnonymousRelayNode:
        """A node at `address` of the container."""
        if not self.model.use_relay:
            return RemoteNode(self, address, make_transform)
        if self._anonymous_sender is None:
            self._anonymous_sender = SharedAnonymousSender(self, make_transform)
            if (engine := self.engine) is not None:
                self._anonymous_sender.opened(engine)
        return AnonymousRelayNode(self, self._anonymous_sender, address)

    @property
    def engine(self) -> Engine | None:
        connection = self._connection
        engine = connection.engine if connection is not None else None
        usable = engine is not None and self._begun and not engine.closed and not self._unfit
        return engine if usable else None

    def join(self, relay: ConnectedLink) -> None:
        self._relays.add(relay)
        if (engine := self.engine) is not None:
            self._unanswered.look(engine)

    def leave(self, relay: ConnectedLink) -> None:
        self._relays.discard(relay)

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` when the connection is open, and when it is lost."""
        self._watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self._hub.loop.call_later(seconds, call)

    def remote_context(self, *, routes_responses: bool) -> LinkContext:
        """The context of a link to the container; `routes_responses`: responses come back through the gateway."""
        context = link_context(self.scope)
        return context._replace(reply_address=self.reply_address) if routes_responses else context

    def when_returnable(self, local: NodeLink, then: Callable[[AmqpError | None], None]) -> None:
        """Call `then` when responses to requests on `local` can be received.

        At once if they need no address of ours.
        """
        if needs_response_routing(local, self.scope) and local.context.replies not in ("none", RESPONSE):
            self.reply_address.when_known(then)
        else:
            then(None)

    # -- owner of the response address

    @property
    def responder(self) -> str:
        """The name of the responder for `response_rate`; no user has such a name."""
        return f"\0connector {self.name}"

    def reply_address_changed(self) -> None:
        """Requests name the new address from now on."""
        engine = self.engine
        for link in engine.links if engine is not None else ():
            if not link.incoming and link.handler is not None:
                link.handler.policy_changed(lambda _: None)  # none is withdrawn

    def reply_address_failed(self, error: AmqpError) -> None:
        self._report.log.warning("no response address", connector=self.name, description=str(error))

    # -- owner of the pulls

    def pulling(self, source: str, to: str) -> None:
        self._report.log.info("pulling", connector=self.name, source=source, to=to)

    def pull_failed(self, source: str, to: str, detail: str) -> None:
        self._report.increment("pull_failures", self.name)
        self._report.log.warning("not pulling", connector=self.name, source=source, to=to, detail=detail)

    # -- delegate of the connection

    def established(self, connection: Connection) -> None:
        connection.peer.scope, connection.peer.connector = self.scope, self.name
        self._connection = connection
        self._report.connected(connection)

    def secure(self, connection: Connection) -> SaslClient:
        sasl = self.model.sasl
        return SaslClient(
            (sasl.mechanism,),
            sasl.user,
            self._password,
            self._endpoint.host,
            tls=connection.ssl_object is not None,
            allow_plain_without_tls=self.model.allow_plain_without_tls,
        )

    def check_password(
        self, connection: Connection, passes: Callable[[], bool], then: Callable[[bool], None]
    ) -> Ticket:
        raise AssertionError("a connector logs in and verifies no passwords")

    def engine_config(self, connection: Connection) -> EngineConfig:
        return self._engine_config

    def refused(self, connection: Connection, reason: str) -> None:
        self._failed(reason)

    def unauthenticated(self, connection: Connection, security: Handshake) -> None:
        self._failed(why_no_login(security.reason))

    def opened(self, connection: Connection) -> None:
        engine = connection.engine
        assert engine is not None
        if self.model.require_event_streams and CAPABILITY not in engine.offered:
            self._refuse(engine)
            return
        self._was_open, self._since = True, self._hub.loop.time()
        self._detail = f"{self._endpoint}: connected, but no session has begun"
        self._timer = self.later(_HANDSHAKE, partial(self._too_slow, connection))
        engine.begin(partial(self._session_begun, connection, engine))

    def _too_slow(self, connection: Connection) -> None:
        self._failed("no begin frame within the time limit")
        connection.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _session_begun(self, connection: Connection, engine: Engine) -> None:
        """Links may be attached now: before, their number on the session was not known."""
        self._begun = True
        self._stop_timer()
        self._failures.clear()
        if self._holding:
            engine.stop_granting()
        self._report.increment("connector_opens", self.name)
        self._report.connection_opened(connection, connector=self.name, to=str(self._endpoint))
        self.reply_address.opened(engine)
        if self._anonymous_sender is not None:
            self._anonymous_sender.opened(engine)
        for relay in list(self._relays):
            self.attempt(partial(relay.connect, engine))
        for each in (*self._pulls, *self._watchers):
            self.attempt(partial(each.opened, engine))

    def attempt(self, step: Callable[[], object]) -> None:
        """Call `step`; its error is logged and must not affect other relays, pulls and bridges."""
        try:
            step()
        except Exception as error:
            self._report.task_failed(f"connector:{self.name}", error)

    def _refuse(self, engine: Engine) -> None:
        """The container lacks a capability that the policy requires (ES-3.1-4)."""
        text = f"the policy requires {CAPABILITY}, and this container does not offer it"
        self._replace(engine, AmqpError(NOT_IMPLEMENTED, text))

    def _replace(self, engine: Engine, error: AmqpError) -> None:
        """End a connection that is of no use, because of `error`; another one follows."""
        connection = self._connection
        assert connection is not None  # the engine is its own
        self._unfit = True
        self._failed(error.description)
        engine.close(error)
        self.later(_HANDSHAKE, connection.abort)

    def requested(self, connection: Connection, link: Link) -> None:
        """Refuse links that a container attaches on a connection of ours."""
        raise AmqpError(NOT_ALLOWED, "the gateway is the client of this connection")

    def link_refused(self, link: Link, error: AmqpError) -> None:
        self._report.link_refused(link, error)

    def link_ended(self, link: Link, error: AmqpError | None) -> None:
        self._report.link_ended(link, error)

    def message_refused(self, link: Link, error: AmqpError) -> None:
        self._report.message_refused(link, error)

    def link_counted(self, link: Link) -> None:
        self._report.flush(link)

    def closed(self, connection: Connection, error: AmqpError | None) -> None:
        self._connection, self._unfit, self._begun = None, False, False
        self._stop_timer()
        self._report.disconnected(connection)
        self.attempt(self.reply_address.closed)
        self.attempt(self.transactions.closed)
        if self._anonymous_sender is not None:
            self.attempt(self._anonymous_sender.closed)
        for each in (*self._pulls, *self._watchers):
            self.attempt(each.closed)
        tls = self._tls if self._endpoint.tls else None
        self._failed(brief(error) if error is not None else why(connection.loss, tls, opened=self._was_open))
        self._ended.set()
