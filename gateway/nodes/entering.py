"""Messages of another scope on their way into a node that is no meeting point: a Kafka topic (X-5, KM-22).

A topic is the other scope's, and keeps no delivery annotations. So requests are rewritten on their way in, like those
to any receiver that announces nothing; or, where the relay says `replies: cookie`, annotated: the topic keeps the
annotations in headers of the record, for a responder at Kafka that knows them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from gateway.amqp.outcomes import RELEASED
from gateway.errors import AmqpError
from gateway.nodes.announcing import RESPONSE_ADDRESS_SUPPORTED, Way, announcing, way
from gateway.nodes.keeping import Keeping
from gateway.nodes.refusal import refuse

if TYPE_CHECKING:
    from gateway.amqp.link import Link
    from gateway.nodes.meeting import Crossing
    from gateway.nodes.scopes import Scope


class Node(Protocol):
    """The node itself."""

    def attach(self, link: Link) -> None: ...


class _Capabilities(NamedTuple):
    capabilities: tuple[str, ...]


class _Inside(NamedTuple):
    """The node as the receiver of a crossing message."""

    way: Way
    target: _Capabilities


class Entering:
    """A node of `scope`; what comes from other scopes crosses before the node has it."""

    def __init__(self, node: Node, scope: Scope) -> None:
        self._node: Final = node
        self._scope: Final = scope

    def attach(self, link: Link) -> None:
        crosses = link.incoming and link.way.scope != self._scope.name and link.way.replies != "none"
        self._node.attach(_EnteringLink(link, self._scope) if crosses else link)  # type: ignore[arg-type]


class _EnteringLink:
    """The link, as the node sees it: all of it, but for what its handler hears."""

    def __init__(self, link: Link, scope: Scope) -> None:
        self._link: Final = link
        self._scope: Final = scope

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def accept(self, handler: Any, *, capabilities: Iterable[str] = (), **more: Any) -> None:
        """The target leads into another scope, and honours annotations (RA-2.2-4)."""
        announced = announcing(self._link, self._link.way.announces)
        entrance = _Entrance(self._link, handler, self._scope)
        self._link.accept(entrance, capabilities=(*capabilities, *announced), **more)


class _Entrance:
    """The handler around the node's own."""

    def __init__(self, link: Link, handler: Any, scope: Scope) -> None:
        capable = (RESPONSE_ADDRESS_SUPPORTED,) if link.way.replies == "cookie" else ()
        self._link: Final = link
        self._handler: Final = handler
        self._scope: Final = scope
        self._inside: Final = _Inside(way(scope.name), _Capabilities(capable))
        self._crossing: tuple[Any, Crossing | None] = (None, None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)

    def on_transfer(self, delivery: Any, data: bytes, settled: bool) -> None:
        """Cross, then what the node does with it; what cannot cross is rejected."""
        try:
            if (crossing := self._crossed()) is not None:
                data = crossing(data)
        except AmqpError as error:
            refuse(self._link, delivery, error, settled)
            self._link.grant(1)
        except Keeping as wait:
            crossed = partial(self._kept, delivery, wait.data, settled)
            if wait.kept is None:
                wait.when_known(crossed)
            else:  # known already, and not kept
                crossed(wait.kept)
        else:
            self._handler.on_transfer(delivery, data, settled)

    def _kept(self, delivery: Any, data: bytes, settled: bool, kept: bool) -> None:
        """The long cookie is in shared state, or never will be."""
        if not self._link.open:
            return
        if kept:
            self._handler.on_transfer(delivery, data, settled)
            return
        if settled:
            self._link.drop(delivery)
        else:
            self._link.settle(delivery, RELEASED)
        self._link.grant(1)

    def _crossed(self) -> Crossing | None:
        """How messages come in; decided anew when a reload has made new crossings."""
        crossings = self._scope.world.crossings
        if self._crossing[0] is not crossings:
            made = self._scope.world.between(self._link, self._inside)  # type: ignore[arg-type]
            self._crossing = (crossings, made)
        return self._crossing[1]
