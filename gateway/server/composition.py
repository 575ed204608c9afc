"""What the gateway and its command line use of the bridges: the only module of the gateway that imports them.

Part of the composition root. Each function imports what it needs when it is called: librdkafka and Spark take a while
to load, and so does the gateway itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    import click

    from bridges.cloudevents.service import SubscriptionManagers
    from bridges.cloudevents.subscription.explain import SubscriptionExplanation
    from bridges.kafka.bridge import ClusterBridge
    from gateway.links.dialect import ListenerDialect
    from gateway.nodes.scope import Scope
    from gateway.server.client_api import SubscriptionParts
    from gateway.state.leases.manager import Leases
    from gateway.state.termini.store import Termini
    from gateway.tasks import Supervisor
    from policies.model.kafka import KafkaCluster
    from policies.model.scopes.event_hubs import EventHubsSection, SharedKey
    from policies.subscriptions import ManagerRules


def make_cluster(
    name: str,
    model: KafkaCluster,
    settings: Mapping[str, str],
    supervisor: Supervisor,
    leases: Leases,
    termini: Termini,
) -> ClusterBridge:
    """A Kafka bridge; imported only by a gateway whose policy has one, because librdkafka takes a while to load."""
    import asyncio

    from bridges.kafka.bridge import ClusterBridge
    from bridges.kafka.clusters.cluster import ClusterConfig

    config = ClusterConfig(
        model.bootstrap, settings, dict(model.topics), max_readers=model.readers, cache=model.cache,
        transactional_producers=model.transactional_producers,
    )  # fmt: skip
    return ClusterBridge(name, config, asyncio.get_running_loop(), supervisor, leases, termini)


def make_dialect(
    model: EventHubsSection, keys: Iterable[SharedKey], scope: Scope, loop: asyncio.AbstractEventLoop
) -> ListenerDialect:
    """The adapter of a listener for clients of Event Hubs; imported only by a gateway whose policy has one."""
    from bridges.eventhubs.dialect import EventHubs, HubClock

    return EventHubs(model, keys, scope, HubClock(lambda: time.time_ns() // 1_000_000, loop.call_later))


def make_subscriptions(parts: SubscriptionParts) -> SubscriptionManagers:
    """The subscription managers; imported only by a gateway whose policy has one."""
    from bridges.cloudevents.service import GatewayAddresses, GatewayServices, SubscriptionManagers

    return SubscriptionManagers(GatewayServices(*parts, GatewayAddresses()))


def check_cluster(settings: Mapping[str, str]) -> str | None:
    """The mistake that librdkafka finds in settings, or None; nothing is connected."""
    from bridges.kafka.admin.client import settings_error

    return settings_error(settings)


def explain_subscription(rules: ManagerRules, user: str, body: bytes) -> SubscriptionExplanation:
    """What a manager would answer when `user` proposes a subscription, for the command line."""
    from bridges.cloudevents.manager.dependencies import wall_clock_ms
    from bridges.cloudevents.subscription.explain import explain_subscription as explain

    return explain(rules, user, body, wall_clock_ms())


def newest_events(
    model: KafkaCluster, settings: Mapping[str, str], cluster: str, topic: str, count: int
) -> Iterator[bytes]:
    """The newest records of a topic as encoded messages, for the command line; raises AmqpError."""
    from bridges.kafka.admin.sample import newest

    return newest({"bootstrap.servers": model.bootstrap, **settings}, cluster, topic, count)


def kafka_client_slowness() -> str | None:
    """Why Kafka's records are handled slowly here, and the way out; `None` if they are not."""
    from bridges.kafka.bridge import client_slowness

    return client_slowness()


def bridge_commands() -> Mapping[str, Callable[[], click.Command]]:
    """The commands that bridges add to `scopegate`, by name; each is imported when it is called."""
    return {"pipeline": _pipeline, "subscriptions": _subscriptions}


def _pipeline() -> click.Command:
    from bridges.spark.cli.pipeline import pipeline

    return pipeline


def _subscriptions() -> click.Command:
    from bridges.cloudevents.cli.subscriptions import subscriptions

    return subscriptions
