"""Makes the MQTT sink of a subscription."""

from __future__ import annotations

from typing import Final

from paho.mqtt.enums import MQTTProtocolVersion

from bridges.cloudevents.delivery.sink import SinkListener
from bridges.cloudevents.events.bindings.mqtt import MqttMessage, mqtt3, mqtt5_binary, mqtt5_structured
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.values import MqttSettings, PlainCredential, SinkProtocol
from bridges.cloudevents.sinks.common.dependencies import SinkDependencies
from bridges.cloudevents.sinks.mqtt.login import MqttTarget
from bridges.cloudevents.sinks.mqtt.sink import Encode, MqttSink
from bridges.cloudevents.subscription.subscription import Subscription
from policies.egress import SinkRule

_VERSIONS: Final = {
    SinkProtocol.MQTT3: MQTTProtocolVersion.MQTTv311,
    SinkProtocol.MQTT5: MQTTProtocolVersion.MQTTv5,
}


def open_mqtt(
    dependencies: SinkDependencies, subscription: Subscription, rule: SinkRule, listener: SinkListener
) -> MqttSink:
    """Make the sink; it connects with the first attempt."""
    settings, sink = subscription.settings, subscription.sink
    assert isinstance(settings, MqttSettings)
    ((host, port),) = sink.hosts
    target = MqttTarget(
        host,
        port,
        _VERSIONS[subscription.protocol],
        settings.topic,
        settings.qos,
        settings.retain,
        settings.expiry,
        dependencies.certificates.context(rule.tls) if sink.scheme == "mqtts" else None,
        subscription.credential if isinstance(subscription.credential, PlainCredential) else None,
        subscription.delivery.timeout,
    )
    window = subscription.delivery.window
    return MqttSink(
        dependencies.dialer(rule),
        target,
        _encoder(subscription.protocol, settings),
        window,
        listener,
        dependencies.supervisor,
    )


def _encoder(protocol: SinkProtocol, settings: MqttSettings) -> Encode:
    own = settings.user_properties
    if protocol is SinkProtocol.MQTT3:
        return _json
    write = mqtt5_binary if settings.mode == "binary" else mqtt5_structured
    return lambda event: write(event, own)


def _json(event: CloudEvent) -> MqttMessage:
    return MqttMessage(None, (), mqtt3(event))
