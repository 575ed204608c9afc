"""The adapter of one listener: the dialect of Azure Event Hubs' clients (`gateway.links.dialect.ListenerDialect`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from bridges.eventhubs import management, positions
from bridges.eventhubs.addresses import CBS, MANAGEMENT, HubAddress, read_address, request_node
from bridges.eventhubs.authorization import Authorization, ExpiryTimer
from bridges.eventhubs.conditions import error_of, named, outcome_of
from bridges.eventhubs.info import EndTracker, Hub, InfoReader
from bridges.eventhubs.partition_hash import partition_of
from bridges.eventhubs.receiver import HubReceiver
from bridges.eventhubs.requests import NodeRequest, RequestAnswer, RequestNode
from bridges.eventhubs.sender import HubSender
from bridges.eventhubs.unpacking import BATCH_FORMAT
from gateway.errors import INVALID_FIELD, NOT_ALLOWED, NOT_IMPLEMENTED, STOLEN, UNAUTHORIZED_ACCESS, AmqpError, quoted
from gateway.links.link_context import link_context
from gateway.principal import client as client_of
from policies.model.scopes.event_hubs import HUB, SharedKey

if TYPE_CHECKING:
    from gateway.amqp.link.config import EngineConfig
    from gateway.amqp.link.link import Link
    from gateway.nodes.scope import Scope
    from policies.model.scopes.event_hubs import EventHubsSection

_SAS: Final = ("servicebus.windows.net:sastoken", "amqp:sastoken")
_IDEMPOTENT: Final = "com.microsoft:idempotent-producer"
_PRODUCER: Final = "com.microsoft:producer-"
_RUNTIME_METRIC: Final = "com.microsoft:enable-receiver-runtime-metric"


class HubClock(NamedTuple):
    """The wall clock in milliseconds, and timers of the event loop in seconds."""

    now_ms: Callable[[], int]
    call_later: Callable[[float, Callable[[], None]], ExpiryTimer]


class EventHubs:
    """What one listener of the dialect does with attaches."""

    def __init__(self, model: EventHubsSection, keys: Iterable[SharedKey], scope: Scope, clock: HubClock) -> None:
        self._model: Final = model
        self._keys = {key.name: key for key in keys}
        self._scope: Final = scope
        self._clock: Final = clock
        self._clients: Final[dict[Hashable, _HubClient]] = {}
        """The clients by their connection's engine."""

    def engine_config(self, config: EngineConfig) -> EngineConfig:
        """The clients read every field of a performative, and send batches.

        The one for Go takes an attach with any terminus for one that accepts: the detach behind it then breaks a link,
        which it opens again and again. Only a partition that was taken it knows by a broken link.
        """
        return replace(
            config,
            full_arity=True,
            message_formats=frozenset((BATCH_FORMAT,)),
            refusals_with_terminus=frozenset((STOLEN,)),
            told_outcome=outcome_of,
        )

    def renew(self, keys: Iterable[SharedKey]) -> None:
        """Use the keys of a reloaded policy; links whose token a removed or changed key has signed end."""
        self._keys = {key.name: key for key in keys}
        for client in list(self._clients.values()):
            client.authorization.renew(self._keys)

    def attach(self, link: Link, admit: Callable[[], None]) -> None:
        """Attach a link; `admit` counts it, once it is known for whom it acts. Raises AmqpError."""
        client = self._clients.get(link.engine)
        if client is None:
            authorization = Authorization(self._keys, self._clock.now_ms, self._clock.call_later)
            client = _HubClient(self._model, self._scope, authorization, self._clock)
            self._clients[link.engine] = client
        try:
            client.attach(link, admit)
        except AmqpError as error:
            raise error_of(error) from error

    def link_ended(self, link: Link) -> None:
        """A link was refused or has ended."""
        if (client := self._clients.get(link.engine)) is not None:
            client.authorization.independent(link)

    def closed(self, engine: Hashable) -> None:
        """A connection has ended."""
        if (client := self._clients.pop(engine, None)) is not None:
            client.authorization.close()


class _HubClient:
    """One connection: its tokens and request nodes."""

    def __init__(self, model: EventHubsSection, scope: Scope, authorization: Authorization, clock: HubClock) -> None:
        self._model: Final = model
        self._scope: Final = scope
        self._clock: Final = clock
        self.authorization: Final = authorization
        properties = partial(management.respond, self._info)
        self._nodes: Final = {CBS: RequestNode(self._put_token), MANAGEMENT: RequestNode(properties)}

    def attach(self, link: Link, admit: Callable[[], None]) -> None:
        address = (link.target if link.incoming else link.source).address
        if address is None:
            raise AmqpError(NOT_ALLOWED, "the attach names no event hub")
        link.context = link_context(self._scope.name)
        link.filter_rules = self._scope.context.filter_rules
        if (name := request_node(address)) is not None:
            admit()
            self._nodes[name].attach(link)
            return
        hub = read_address(address)
        user = self.authorization.user(hub.path)
        link.act_for(user)
        admit()
        self.authorization.depend(link, hub.path, user)
        try:
            if link.incoming:
                self._attach_sender(link, hub)
            else:
                self._attach_receiver(link, hub)
        except AmqpError as error:
            raise named(error, self._address(hub.hub), hub.hub) from error

    # -- hubs

    def _address(self, hub: str) -> str:
        return self._model.address.fill({HUB: hub})

    def _attach_receiver(self, link: Link, hub: HubAddress) -> None:
        if hub.group is None or hub.partition is None:
            text = "a receiver needs <hub>/ConsumerGroups/<group>/Partitions/<n>"
            raise AmqpError(NOT_ALLOWED, text)
        address = self._address(hub.hub)
        source = link.source._replace(
            address=address, filter=positions.position(link.source.filter), durable=0, capabilities=[]
        )
        receiver = HubReceiver(link, hub.hub, source, positions.link_properties(hub, link.properties))
        if _RUNTIME_METRIC not in link.desired:
            self._scope.attach_to(receiver, address, client_of(link))
            return
        attach = partial(self._attach_tracking, link, receiver, address)
        tracker = EndTracker(self._scope, address, hub.partition, self._clock.now_ms, attach)
        receiver.track(tracker)
        tracker.start()

    def _attach_tracking(self, link: Link, receiver: HubReceiver, address: str) -> None:
        """Attach a receiver whose first event shall tell where its partition ends."""
        try:
            if not link.gone:
                self._scope.attach_to(receiver, address, client_of(link))
                return
        except AmqpError as error:
            receiver.refuse(error)
        receiver.untrack()

    def _attach_sender(self, link: Link, hub: HubAddress) -> None:
        if hub.group is not None:
            raise AmqpError(NOT_ALLOWED, "events are sent to <hub> or <hub>/Partitions/<n>")
        if _IDEMPOTENT in link.desired or any(str(name).startswith(_PRODUCER) for name in link.properties):
            text = "idempotent producers are not supported; the gateway writes each event that it accepts once"
            raise AmqpError(NOT_IMPLEMENTED, text)
        address = self._address(hub.hub)
        target = link.target._replace(address=address, durable=0)
        properties = positions.link_properties(hub, {})
        if self._model.partition_key == "kafka" or hub.partition is not None:
            sender = HubSender(link, hub.hub, target, properties, None, self._clock.call_later)
            self._scope.attach_to(sender, address, client_of(link))
        else:
            make = partial(HubSender, link, hub.hub, target, properties, later=self._clock.call_later)
            InfoReader(self._scope, address, partial(self._attach_hashing, link, make)).start()

    def _attach_hashing(self, link: Link, make: Callable[..., HubSender], found: Hub | AmqpError) -> None:
        """Attach a sender whose partition keys are hashed as the service does: the number of partitions is known."""
        if link.gone:
            return
        sender = make(partitioner=None if isinstance(found, AmqpError) else partial(_partition, len(found)))
        try:
            if isinstance(found, AmqpError):
                raise found
            self._scope.attach_to(sender, sender.address or "", client_of(link))
        except AmqpError as error:
            sender.refuse(error)

    # -- requests

    def _put_token(self, request: NodeRequest, answered: Callable[[RequestAnswer], None]) -> None:
        if (operation := request.text("operation")) != "put-token":
            raise AmqpError(NOT_IMPLEMENTED, f"the operation is {quoted(operation)}: $cbs only knows put-token")
        if (kind := request.text("type")) not in _SAS:
            text = f"the type is {quoted(kind)}: only shared access signatures are accepted ({_SAS[0]})"
            raise AmqpError(UNAUTHORIZED_ACCESS, text)
        if not isinstance(request.body, str):
            raise AmqpError(INVALID_FIELD, "the body of put-token must be an amqp-value with the token")
        self.authorization.put(request.body, request.text("name"))
        answered(RequestAnswer(202, "Accepted"))

    def _info(self, request: NodeRequest, hub: str, then: Callable[[Hub | AmqpError], None]) -> None:
        presented = request.text("security_token") or None
        user = self.authorization.user((hub, MANAGEMENT), presented)
        address = self._address(hub)
        decisions = [self._scope.rules.decide(user, action, address) for action in ("receive", "send")]
        if all(decision.condition is not None for decision in decisions):
            raise AmqpError(decisions[0].condition or UNAUTHORIZED_ACCESS, f"{quoted(hub)}: {decisions[0].reason}")
        InfoReader(self._scope, address, then).start()


def _partition(partitions: int, key: str) -> int:
    return partition_of(key, partitions)
