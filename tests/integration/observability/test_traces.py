"""Spans of requests, responses, and events of topics, at a collector that decodes OTLP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.amqp import frames
from tests.support.amqp.links import outcomes, receiving, sending
from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import KEY, Inbox, Outbox, answer, connected, cookie_of
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import free_port, wait_until
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.otlp_collector import OtlpCollector, SeenSpan
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.topics import consuming

ENV = {"SCOPEGATE_TEST_KEY": KEY}
PARENT = "b7ad6b7169203331"


def context(number: int, flags: str = "01") -> dict[str, Any]:
    """Application properties with a context of a trace of its own."""
    return {"traceparent": f"00-{number:032x}-{PARENT}-{flags}"}


def of(spans: list[SeenSpan], number: int) -> SeenSpan:
    """The only span of a trace."""
    (found,) = [span for span in spans if span.trace == f"{number:032x}"]
    return found


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as running:
        yield running


def traced(collector: OtlpCollector, **tracing: Any) -> Document:
    """A gateway whose policy has traces."""
    document = Document(tracing={"endpoint": collector.url, **tracing}, log="json")
    document.kafka("embedded", topics={"orders": 1})
    return document


def test_the_four_kinds_of_spans_have_the_parents_that_messages_carry(
    collector: OtlpCollector, start_gateway: Gateways
) -> None:
    document = traced(collector)
    core = document.relay()
    start_gateway(document.text, env={**ENV, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc"})
    service, home = Inbox(core, "services/render"), Inbox(document.edge, "chat/home")
    client = Outbox(document.edge, "svc/render")
    client.credit()
    asked = client.post(message(b"draw", message_id="m-1", reply_to="chat/home", app=context(1)))
    request = service.take()
    client.outcome(asked)
    responder = Outbox(core, None)
    responder.credit()
    responder.post(rewritten_answer(request, context(2)))
    home.take()
    producer, reader = sending(document.edge, "events/orders"), receiving(document.edge, "events/orders")
    producer.transfer(message(b"order", app=context(3))).until("disposition", state="accepted")
    reader.disposition(reader.until("transfer").delivery_id, "accepted")
    spans = collector.wait(4)
    produced, delivered = [span for span in spans if span.trace == f"{3:032x}"]
    found = [of(spans, 1), of(spans, 2), *sorted((produced, delivered), key=lambda span: span.name, reverse=True)]
    assert [span.name for span in found] == [
        "request svc/{name}", "response chat/**", "produce events/{topic}", "deliver events/{topic}",
    ]  # fmt: skip
    assert {span.parent for span in spans} == {PARENT}
    assert len({span.id for span in spans}) == 4
    assert [span.attributes["messaging.destination.name"] for span in found] == [
        "svc/render", "chat/home", "events/orders", "events/orders",
    ]  # fmt: skip
    assert {span.attributes["scopegate.outcome"] for span in spans} == {"accepted"}
    assert all(0 < span.seconds < 60 and not span.failed for span in spans)
    assert {span.resource["service.instance.id"] for span in spans} == {"gw-test"}
    assert collector.headers[0]["authorization"] == "Bearer abc"


def rewritten_answer(request: bytes, app: dict[str, Any]) -> bytes:
    """The answer to a request that was rewritten, with a context of its own."""
    asked = sections(request)["properties"]
    return message(b"drawn", to=asked["reply_to"], correlation_id=asked["message_id"], app=app)


def test_a_span_has_nothing_of_the_other_scope_and_no_token(
    collector: OtlpCollector, start_gateway: Gateways
) -> None:
    document = traced(collector)
    core = document.relay()
    start_gateway(document.text, env=ENV)
    edge = connected(document.edge)
    plain, capable = Inbox(core, "services/plain"), Inbox(core, "services/new", capable=True)
    home = Inbox(edge, None, source=frames.source(None, dynamic=True))
    mine = home.attach.source["address"]
    for number, (name, service) in enumerate((("plain", plain), ("new", capable)), 1):
        client = Outbox(edge, f"svc/{name}", handle=number)
        client.credit()
        asked = client.post(message(b"top secret", message_id="m-1", reply_to=mine, app=context(number)))
        request = service.take()
        client.outcome(asked)
        responder = Outbox(core, "$replies.core" if name == "new" else None)
        responder.credit()
        app = context(number + 10)
        responder.post(answer(cookie_of(request), app=app) if name == "new" else rewritten_answer(request, app))
        home.take()
    spans = collector.wait(4)
    assert [of(spans, number).name for number in (1, 2, 11, 12)] == ["request svc/{name}"] * 2 + ["response"] * 2
    assert {span.attributes["messaging.destination.name"] for span in spans} == {"svc/plain", "svc/new", "$temp/…"}
    assert {span.resource["scopegate.scope"] for span in spans} == {"edge"}
    sent = b"".join(collector.bodies)
    for private in (b"core", b"services/", mine.removeprefix("$temp/").encode(), b"top secret", b"$replies"):
        assert private not in sent


def test_only_sampled_traces_have_spans_and_batches_stay_whole(
    collector: OtlpCollector, start_gateway: Gateways
) -> None:
    """The half of the traces whose ids are in the lower half; a message without context begins no trace."""
    document = traced(collector, sample=0.5)
    gateway = start_gateway(document.text)
    producer, half = sending(document.edge, "events/orders"), 1 << 63
    low, high, unsampled = context(7), context(half + 7), context(8, "00")
    for number in range(60):
        app = (low, high, unsampled, None)[number % 4]
        producer.transfer(message(b"order", app=app))
    assert set(outcomes(producer, 60).values()) == {"accepted"}
    settled = sending(document.edge, "events/orders").transfer(message(app=context(9)), settled=True)
    spans = collector.wait(16)
    assert settled is not None
    gateway.stop()
    assert sorted(int(span.trace, 16) for span in spans) == [7] * 15 + [9]
    assert of(spans, 9).attributes["scopegate.outcome"] == "settled"


def test_a_rejection_and_a_lost_link_are_errors(collector: OtlpCollector, start_gateway: Gateways) -> None:
    document = traced(collector)
    gateway = start_gateway(document.text)
    producer, reader = sending(document.edge, "events/orders"), receiving(document.edge, "events/orders")
    for number in (1, 2):
        producer.transfer(message(b"order", ma={"traceparent": context(number)["traceparent"]}))
        producer.until("disposition", state="accepted")
    first, _ = reader.until("transfer"), reader.until("transfer")
    refused = frames.composite("rejected", error=frames.error("shop:sold-out", "a text that nobody needs"))
    reader.disposition(first.delivery_id, refused)
    wait_until(lambda: len(collector.spans) == 3, "the rejection")
    reader.close()
    spans = collector.wait(4)  # a gateway that ends has two seconds for the last of them
    gateway.stop()
    failed = {span.trace: span for span in spans if span.name.startswith("deliver")}
    assert [failed[f"{number:032x}"].attributes["scopegate.outcome"] for number in (1, 2)] == ["rejected", "none"]
    assert failed[f"{1:032x}"].attributes["error.type"] == "shop:sold-out"
    assert all(span.failed for span in failed.values())
    assert b"nobody needs" not in b"".join(collector.bodies)


def test_messages_of_transactions_have_the_outcomes_of_their_transactions(
    collector: OtlpCollector, start_gateway: Gateways, kafka_broker: KafkaBroker
) -> None:
    """Sent and retired in one; a run of several with a context; one that never ends; nothing for the discharge."""
    document = Document(tracing={"endpoint": collector.url}, log="json")
    document.kafka(kafka_broker.bootstrap)
    gateway = start_gateway(document.text)
    inputs, outputs = kafka_broker.create_topic(), kafka_broker.create_topic()
    peer = connected(document.edge)
    controller, outbox = Controller(peer), Outbox(peer, f"events/{outputs}", 1)
    inbox = consuming(peer, inputs, 2, group=False)
    feed = Outbox(connected(document.edge), f"events/{inputs}")
    for number in (101, 102):
        assert feed.send(message(b"input", app=context(number))).matches("accepted")
    taken = [inbox.transfer() for _ in range(2)]
    collector.wait(2)
    for number, fail in ((1, False), (2, True)):
        txn_id = controller.declare()
        plain = outbox.send(message(b"plain"), state=in_transaction(txn_id))
        for part in (0, 10):
            posted = outbox.send(message(b"order", app=context(number + part)), state=in_transaction(txn_id))
            assert (plain["outcome"].name, posted["outcome"].name) == ("accepted", "accepted")
        peer.disposition(taken[number - 1].delivery_id, in_transaction(txn_id, "accepted"))
        assert len(collector.spans) == 2 + (number - 1) * 3, "a span before its transaction has ended"
        assert controller.discharge(txn_id, fail=fail).matches("accepted")
        collector.wait(2 + number * 3 - (number - 1))
    inbox.transfer()  # what was rolled back comes again
    many, run = controller.declare(), range(200, 230)
    for number in run:  # they arrive together, and one in three has a context
        outbox.post(message(app=context(number) if number % 3 == 0 else None), state=in_transaction(many))
    assert controller.discharge(many).matches("accepted")
    outbox.send(message(b"lost", app=context(3)), state=in_transaction(controller.declare()))
    peer.close()
    collector.wait(20)
    gateway.stop()
    found = [(span.name.split()[0], int(span.trace, 16), span.failed) for span in collector.spans]
    outcomes = [span.attributes["scopegate.outcome"] for span in collector.spans]
    assert sorted(zip(*zip(*found, strict=True), outcomes, strict=True)) == sorted([
        *[("produce", number, False, "accepted") for number in (101, 102, 1, 11, *run[1::3])],
        *[("produce", number, True, "rolled-back") for number in (2, 12, 3)],
        ("deliver", 101, False, "accepted"),
        ("deliver", 102, False, "modified"), ("deliver", 102, True, "none"),  # for its link has ended
    ])  # fmt: skip
    assert {span.parent for span in collector.spans} == {PARENT}


def test_traffic_goes_on_while_the_collector_is_away(start_gateway: Gateways) -> None:
    """Its failure is logged once and counted, what does not fit is dropped, and later spans arrive."""
    port = free_port()
    away = f"http://127.0.0.1:{port}/v1/traces"
    document = Document(tracing={"endpoint": away, "buffer": 10}, log="json")
    document.kafka("embedded", topics={"orders": 1})
    gateway = start_gateway(document.text)
    producer = sending(document.edge, "events/orders")

    def lost(result: str) -> float:
        return gateway.metrics()[f'scopegate_trace_spans_total{{result="{result}"}}']

    for number in range(100):
        producer.transfer(message(b"order", app=context(number + 1)))
    assert set(outcomes(producer, 100).values()) == {"accepted"}
    wait_until(lambda: lost("unsent") > 0, "spans to be given up")
    assert lost("overflowed") > 0 == lost("sent")
    assert lost("overflowed") + lost("unsent") <= 100
    with OtlpCollector(port) as collector:
        producer.transfer(message(b"order", app=context(500)))
        producer.until("disposition")
        wait_until(lambda: any(span.trace == f"{500:032x}" for span in collector.spans), "a later span")
        gateway.wait_log("spans sent again")
        gateway.stop()
    (told,) = [line for line in gateway.log() if line["event"] == "spans not sent; traffic goes on"]
    assert "refused" in told["reason"]


def test_without_the_key_the_library_is_not_loaded() -> None:
    code = (
        "import sys, gateway.server.composition, gateway.server.gateway, gateway.tracing.links\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
