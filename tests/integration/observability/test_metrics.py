"""What an operator sees: readiness by part, exact counts of a known run, one log line per event, no secret."""

from __future__ import annotations

import base64
import json
import signal
from typing import Any

import pytest
from proton import Message

from tests.bench.running import cpu_seconds
from tests.support.amqp import frames
from tests.support.amqp.links import connected, passes, receiving, refusal, sending
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Listener, Peer
from tests.support.amqp.proton_clients import Login, echo, request, respond
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import free_port, wait_until

KEY = "the-very-secret-signing-key-of-a-test".ljust(43, "A")
BODY = "a body that is nobody's business"


def parts(gateway: Gateway) -> dict[str, dict[str, Any]]:
    """`/readyz` by part."""
    found: dict[str, dict[str, Any]] = json.loads(gateway.get("/readyz")[1])["parts"]
    return found


def test_readiness_names_what_is_missing(start_gateway: Gateways) -> None:
    document = Document()
    kafka, broker = free_port(), free_port()
    document.kafka(f"127.0.0.1:{kafka}")
    document.connector(broker)
    gateway = start_gateway(document.text, ready=False)
    wait_until(lambda: gateway.get("/readyz")[0], "an answer")
    assert gateway.get("/readyz")[0] == 200, "the gateway serves clients without its backends"
    assert not gateway.is_ready()
    assert gateway.get("/healthz") == (200, "ok\n")
    wait_until(lambda: "not reachable" in parts(gateway)["kafka/main"]["detail"], "why Kafka is not ready")
    wait_until(lambda: str(broker) in parts(gateway)["connector/edge/broker"]["detail"], "why the broker is not")
    assert {name for name, part in parts(gateway).items() if not part["ready"]} == {
        "kafka/main",
        "connector/edge/broker",
    }
    passes(*pair(document.edge))  # it serves what it can
    gateway.wait_log("kafka down", cluster="main")
    gateway.wait_log("connector down", connector="broker")
    with Listener(broker) as listener:
        peer = listener.accept()
        peer.expect_header(frames.SASL_HEADER).send_raw(frames.SASL_HEADER)
        peer.send("sasl_mechanisms", sasl_server_mechanisms=["ANONYMOUS"]).expect("sasl_init")
        peer.send("sasl_outcome", code=0).expect_header().send_raw(frames.AMQP_HEADER)
        peer.open().expect("open")
        peer.expect("begin")
        peer.begin(remote_channel=0)
        wait_until(lambda: parts(gateway)["connector/edge/broker"]["ready"], "the connector to be ready")
        gateway.wait_log("connector open", connector="broker")


def pair(port: int) -> tuple[Peer, Peer]:
    receiver, sender = receiving(port, "chat/room"), sending(port, "chat/room")
    return sender, receiver


def test_every_count_of_a_known_run(start_gateway: Gateways) -> None:
    document = Document()
    document.kafka("embedded", topics={"orders": 1})
    gateway = start_gateway(document.text)
    sender, receiver = pair(document.edge)
    for number in range(7):
        passes(sender, receiver, number)
    sender.transfer(message(b"no"))
    refused = receiver.until("transfer").delivery_id
    receiver.disposition(refused, frames.composite("rejected", error=frames.error("amqp:not-allowed")))
    sender.until("disposition", first=7, state="rejected")
    producer = sending(document.edge, "events/orders")
    for _ in range(5):
        producer.transfer(message(b"event"))
    for _ in range(5):
        gateway.wait_metric(
            'scopegate_kafka_events_total{cluster="main",event="accepted"}', lambda value: value == 5
        )
    assert refusal(document.edge, "no/such/address") == "amqp:not-found"
    anonymous = sending(document.edge, None)
    anonymous.transfer(message(to="no/such/address")).until("disposition", state="rejected")
    open_connections = (sender, receiver, producer, anonymous)
    gateway.wait_metric("scopegate_connections", lambda value: value == len(open_connections))
    metrics = gateway.metrics()
    rule = 'rule="chat/**",scope="edge"'
    expected = {
        "scopegate_connections_accepted_total": 5,
        "scopegate_connections_closed_total": 1,
        "scopegate_links": 4,
        "scopegate_unsettled": 0,
        'scopegate_links_attached_total{direction="in",scope="edge"}': 3,
        'scopegate_links_attached_total{direction="out",scope="edge"}': 1,
        'scopegate_links_refused_total{condition="amqp:not-found",scope="edge"}': 1,
        'scopegate_messages_refused_total{condition="amqp:not-found",scope="edge"}': 1,
        f'scopegate_deliveries_total{{direction="in",{rule}}}': 8,
        f'scopegate_deliveries_total{{direction="out",{rule}}}': 8,
        'scopegate_outcomes_total{outcome="accepted",rule="chat/**",scope="edge"}': 7,
        'scopegate_outcomes_total{outcome="rejected",rule="chat/**",scope="edge"}': 1,
        'scopegate_outcomes_total{outcome="accepted",rule="events/{topic}",scope="edge"}': 5,
        'scopegate_deliveries_total{direction="in",rule="events/{topic}",scope="edge"}': 5,
    }
    assert {name: metrics.get(name) for name in expected} == expected
    for peer in open_connections:
        peer.close().until("close")
    gateway.wait_metric("scopegate_connections_closed_total", lambda value: value == 5)
    gateway.wait_metric("scopegate_links", lambda value: value == 0)
    again = gateway.metrics()
    totals = {name: value for name, value in expected.items() if "_deliveries_" in name or "_outcomes_" in name}
    assert {name: again[name] for name in totals} == totals  # nothing is counted twice when links end
    assert again.get("scopegate_task_failures_total", 0) == again.get("scopegate_scrape_errors_total", 0) == 0


def test_one_line_for_each_event_and_no_secret_in_any(start_gateway: Gateways) -> None:
    document = Document()
    core = document.relay()
    gateway = start_gateway(document.text, env={"SCOPEGATE_TEST_KEY": KEY})
    responder = respond(Login(core), "services/plain", echo).attached()
    (response,) = request(Login(document.edge), "svc/plain", [Message(id="one", body=BODY)])
    assert response.message.body == BODY
    cookie = cookie_of_a_request(document.edge, core)
    responder.stop()
    refusal(document.edge, "no/such/address")
    gateway.reload()
    gateway.wait_log("connection closed")
    gateway.wait_log("link refused")
    lines = gateway.log()
    opened = [line for line in lines if line["event"] == "connection open"]
    assert len(opened) == len({line["connection"] for line in opened}) == 5
    attached = [(line["connection"], line["link"]) for line in lines if line["event"] == "link attached"]
    assert len(attached) == len(set(attached))
    assert {connection for connection, _ in attached} <= {line["connection"] for line in opened}
    (refused,) = [line for line in lines if line["event"] == "link refused"]
    assert refused["condition"] == "amqp:not-found"
    assert refused["address"] == "no/such/address"
    assert all(line.keys() >= {"event", "level", "timestamp", "logger"} for line in lines)
    log = gateway.process.text()
    for secret in (KEY, BODY, cookie.hex(), cookie.decode("latin-1")[:40], base64.b64encode(cookie).decode()[:40]):
        assert secret not in log
    assert "$replies.core/" not in log.replace("$replies.core/…", "")  # the token of a rewritten address


def cookie_of_a_request(edge: int, core: int) -> bytes:
    """Send a request to a service that understands annotations, and answer it with a forged cookie."""
    service = connected(core, offered_capabilities=["RESPONSE_ANNOTATIONS_V1_0"])
    service.attach_receiver("services/raw", target=frames.target(capabilities=["response-address-supported"]))
    service.flow(0, link_credit=1)
    requester = sending(edge, "svc/raw")
    requester.transfer(message(b"?", reply_to="chat/home"))
    annotations = sections(service.until("transfer").payload)["delivery_annotations"]
    cookie: bytes = annotations["response-address-cookie"]
    service.attach_sender(annotations["response-link-target-address"], 1)
    service.transfer(message(b"!", da={"address-cookie": cookie[:-1] + b"\0"}), 1)
    service.until("disposition", state={"error": "amqp:unauthorized-access"})
    return cookie


@pytest.mark.parametrize("attempts", [3])
def test_it_is_ready_soon(start_gateway: Gateways, attempts: int) -> None:
    took = []
    for _ in range(attempts):
        document = Document()
        document.relay()
        gateway = start_gateway(document.text, env={"SCOPEGATE_TEST_KEY": KEY}, warm=False)
        took.append(cpu_seconds(gateway.process.pid))  # what else the machine does is not its fault
        gateway.stop()
    print(f"processor time to ready without Kafka: {min(took):.2f} s at best, {max(took):.2f} s at worst")
    assert 0 < min(took) < 6  # the bench holds the promised 1.5 s on a quiet machine


def test_a_crash_in_c_says_where(start_gateway: Gateways) -> None:
    """Nothing dies quietly: what a bug in a C library leaves is a trace, not only an exit code."""
    gateway = start_gateway(Document().text)
    assert gateway.process.end(signal.SIGSEGV) == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in gateway.process.text()
