"""The properties of a subscription that delivery uses, and the factory of its sink."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from bridges.cloudevents.delivery.queue_settings import QueueSettings
from bridges.cloudevents.delivery.sink import Sink, SinkListener
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.events.filter import EventFilter
from bridges.cloudevents.model.values import DeliverySettings, SinkProtocol, SinkUri, SubscriptionConfig


class DeliverableSubscription(Protocol):
    """A subscription to deliver; implemented by `subscription.subscription.Subscription`."""

    @property
    def id(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def protocol(self) -> SinkProtocol: ...
    @property
    def sink(self) -> SinkUri: ...
    @property
    def filter(self) -> EventFilter: ...
    @property
    def config(self) -> SubscriptionConfig: ...
    @property
    def delivery(self) -> DeliverySettings: ...


class OpenSink(Protocol):
    """Makes the sink of a subscription; implemented by `sinks.factory.SinkFactory.open`."""

    def __call__(self, subscription: DeliverableSubscription, listener: SinkListener) -> Sink: ...


class SubscriptionVersion(NamedTuple):
    """A version of a subscription; `hold_reason` is the reason for sending nothing, or None."""

    subscription: DeliverableSubscription
    revision: int
    settings: QueueSettings
    hold_reason: Reason | None
    edition: int
