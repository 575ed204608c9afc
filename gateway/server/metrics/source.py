"""What the metrics read of the gateway (`gateway.server.gateway.Gateway`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.config.policy_state import PolicyState
    from gateway.connectors.connector import Connector
    from gateway.observability.link_events import LinkEvents
    from gateway.observability.readiness import Readiness
    from policies.model.scopes.listen import ListenerSection
    from policies.rules import CompiledPolicy


class MeasuredCluster(Protocol):
    """A Kafka cluster."""

    @property
    def written(self) -> tuple[Sequence[int], float]:
        """Seconds until records were written: counts by bucket, and the sum."""

    async def ends(self, topic: str) -> dict[int, int]: ...


class _ListenerSettings(Protocol):
    @property
    def scope(self) -> str: ...
    @property
    def model(self) -> ListenerSection: ...


class MeasuredListener(Protocol):
    """A listener."""

    @property
    def settings(self) -> _ListenerSettings: ...
    @property
    def connections(self) -> Collection[object]: ...


class MeasuredGateway(Protocol):
    """The gateway."""

    @property
    def policy(self) -> CompiledPolicy: ...
    @property
    def policy_state(self) -> PolicyState: ...
    @property
    def readiness(self) -> Readiness: ...
    @property
    def report(self) -> LinkEvents: ...
    @property
    def listening(self) -> Iterable[MeasuredListener]: ...
    @property
    def clusters(self) -> Mapping[str, MeasuredCluster]: ...
    @property
    def connectors(self) -> Mapping[tuple[str, str], Connector]: ...
    def links(self) -> Iterator[Link]: ...
