"""What delivery uses of a subscription, and of the gateway around it."""

from __future__ import annotations

from typing import Protocol

from bridges.cloudevents.events.filter import EventFilter
from bridges.cloudevents.sinks.port import Sink, SinkListener
from bridges.cloudevents.subscription.model import DeliverySettings, SinkProtocol, SinkUri, SubscriptionConfig


class PushedSubscription(Protocol):
    """`subscription.subscription.Subscription` is one."""

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


class SinkMaker(Protocol):
    """Makes the sink of a subscription; `sinks.open.SinkFactory.open` is one."""

    def __call__(self, subscription: PushedSubscription, listener: SinkListener) -> Sink: ...
