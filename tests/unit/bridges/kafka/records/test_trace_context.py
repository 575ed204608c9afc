"""A W3C trace context goes along between AMQP's application properties and Kafka's headers, in either direction."""

from __future__ import annotations

from bridges.kafka.records.decode import from_record
from bridges.kafka.records.encode import to_record
from gateway.amqp.message.sections import walk
from tests.support.amqp.messages import message, sections

CONTEXT = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "vendor=t61rcWkgMzE,other=00f067aa0ba902b7",
    "baggage": "user=alice",
}


def test_kafka_applications_see_the_context_of_an_amqp_producer() -> None:
    data = message(b"event", app=CONTEXT)
    headers = dict(to_record(data, walk(data), mode="auto").headers)
    assert {name: headers.get(name) for name in CONTEXT} == {name: text.encode() for name, text in CONTEXT.items()}


def test_amqp_consumers_see_the_context_of_a_kafka_producer() -> None:
    headers = [(name, text.encode()) for name, text in CONTEXT.items()]
    restored = from_record(b"key", b"event", headers)
    assert sections(restored.header + restored.rest)["application_properties"] == CONTEXT


def test_an_event_that_comes_back_over_amqp_has_it_unchanged() -> None:
    data = message(b"event", app=CONTEXT, ma={"traceparent": CONTEXT["traceparent"]})
    record = to_record(data, walk(data), mode="auto")
    restored = from_record(record.key, record.value, list(record.headers))
    found = sections(restored.header + restored.rest)
    assert found["application_properties"] == CONTEXT
    assert found["message_annotations"]["traceparent"] == CONTEXT["traceparent"]


def test_the_extension_of_cloudevents_is_that_of_kafkas_binding() -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order", "traceparent": CONTEXT["traceparent"]}
    data = message(b"{}", app={f"cloudEvents:{name}": value for name, value in event.items()})
    headers = dict(to_record(data, walk(data), mode="cloudevents").headers)
    assert headers["ce_traceparent"] == CONTEXT["traceparent"].encode()
