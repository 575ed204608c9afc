"""Kafka clusters, their topics and groups, connectors and bridges as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from gateway.admin.documents.common import Document

if TYPE_CHECKING:
    from gateway.connectors.connector import Connector
    from gateway.forwarding.worker import BridgeWorker


class ShownCluster(Protocol):
    """What is shown of a Kafka cluster."""

    @property
    def bootstrap(self) -> str: ...
    @property
    def in_flight(self) -> int: ...
    def ready(self) -> tuple[bool, str]: ...
    def counts(self) -> Mapping[str, int]: ...
    def topics(self) -> Mapping[str, int]:
        """The known topics with their numbers of partitions."""
    async def ends(self, topic: str) -> dict[int, int]: ...


def cluster_document(name: str, cluster: ShownCluster) -> Document:
    """A cluster of the policy."""
    ready, detail = cluster.ready()
    return {
        "id": name,
        "bootstrap": cluster.bootstrap,
        "ready": ready,
        "detail": detail,
        "topics": len(cluster.topics()),
        "in_flight": cluster.in_flight,
        "events": {event: count for event, count in cluster.counts().items() if count},
    }


def topic_documents(clusters: Mapping[str, ShownCluster]) -> Iterator[Document]:
    """The topics that are known because somebody uses them, or has done so."""
    for name, cluster in clusters.items():
        for topic, partitions in cluster.topics().items():
            yield {"id": f"{name}/{topic}", "cluster": name, "topic": topic, "partitions": partitions}


def bridge_document(scope: str, name: str, bridge: BridgeWorker) -> Document:
    """A bridge of the policy, and how far it is."""
    ready, detail = bridge.ready()
    return {
        "id": f"{scope}/{name}",
        "scope": scope,
        "bridge": name,
        "up": bridge.up,
        "ready": ready,
        "detail": detail,
        "held": bridge.held,
        "lag": bridge.lag,
        "delay_seconds": round(bridge.delay, 3),
        "events": dict(bridge.counts.by_event()),
    }


def connector_document(scope: str, name: str, connector: Connector) -> Document:
    """A connector of the policy."""
    ready, detail = connector.ready()
    engine = connector.engine
    return {
        "id": f"{scope}/{name}",
        "scope": scope,
        "connector": name,
        "to": [str(each) for each in connector.model.to],
        "up": engine is not None,
        "ready": ready,
        "detail": detail,
        "links": 0 if engine is None else engine.live_links,
        "unsettled": 0 if engine is None else engine.unsettled,
    }
