"""Every metric of a real gateway is in the catalogue, begins at 0, and has labels of the policy only."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from proton import Message

from gateway.observability.catalog import CATALOG
from tests.support.amqp.links import passes, receiving, sending
from tests.support.amqp.messages import message
from tests.support.amqp.proton_clients import Login, echo, request, respond
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import free_port
from tests.support.project.monitoring import named_metrics
from tests.support.servers.certs import Authority

KEY = "k" * 43
PEER_SAID = "said-by-a-peer"


@pytest.fixture
def everything(start_gateway: Gateways, authority: Authority) -> tuple[Document, Gateway, int]:
    """A gateway with each kind of thing that has metrics, and the port of its second scope."""
    document = Document()
    document.kafka("embedded", topics={"orders": 1, "journal": 1})
    core = document.relay()
    document.connector(free_port())
    server = authority.server(file="catalogue")
    document.add_listener(tls={"cert": str(server.cert), "key": str(server.key)})
    document.scope()["bridge"] = [{"name": "b", "from": "events/orders", "to": "chat/bridged"}]
    sink = {"protocol": "http", "to": "https://sink.example", "handshake": "off"}
    document.scope()["subscriptions"] = [
        {"name": "subs", "events": "events/orders", "sinks": [sink]},
    ]
    document.data["gateway"]["journal"] = {"kafka": "main", "topic": "journal", "interval": "1s"}
    document.data["gateway"]["tracing"] = {"endpoint": f"http://127.0.0.1:{free_port()}/v1/traces"}
    gateway = start_gateway(document.text, env={"SCOPEGATE_TEST_KEY": KEY}, ready=False)
    gateway.wait_log("serving")
    gateway.wait_metric("scopegate_certificate_expiry_timestamp_seconds", lambda value: value > 0)
    return document, gateway, core


def scrape(gateway: Gateway) -> dict[str, Metric]:
    """The families of one scrape, without the prefix."""
    found = text_string_to_metric_families(gateway.get("/metrics")[1])
    return {family.name.removeprefix("scopegate_"): family for family in found if family.name.startswith("scopegate_")}


def labels_of(family: Metric) -> set[frozenset[str]]:
    """The sets of labels that its samples have, without those of a histogram's buckets."""
    return {frozenset(sample.labels) - {"le"} for sample in family.samples}


ONLY_AFTER_AN_EVENT = {"scrape_errors", "subscription_sealed"}
"""Their labels are not known before: what could not be read, and keys that encrypt secrets of subscriptions."""


def test_the_catalogue_has_what_a_scrape_has(everything: tuple[Document, Gateway, int]) -> None:
    _, gateway, _ = everything
    families = scrape(gateway)
    assert set(CATALOG) - set(families) <= ONLY_AFTER_AN_EVENT
    assert set(families) <= set(CATALOG)
    for name, family in families.items():
        described = CATALOG[name]
        assert family.type == described.kind, name
        assert family.documentation == described.text
        assert labels_of(family) in ({frozenset(described.labels)}, set()), name


def test_series_of_the_policy_begin_at_zero_and_labels_are_words_of_the_policy(
    everything: tuple[Document, Gateway, int],
) -> None:
    document, gateway, core = everything
    before = gateway.metrics()
    rule = 'rule="chat/**",scope="edge"'
    listener = f'scopegate_listener_connections{{listener="127.0.0.1:{document.edge}",scope="edge"}}'
    begins = [
        f'scopegate_outcomes_total{{outcome="rejected",{rule}}}',
        f'scopegate_transfer_outcome_seconds_count{{direction="in",{rule}}}',
        f'scopegate_message_size_bytes_count{{{rule}}}',
        f'scopegate_links_starved{{{rule}}}',
        f'scopegate_rule_links{{direction="in",{rule}}}',
        f'scopegate_links_without_credit{{direction="out",{rule}}}',
        'scopegate_links_refused_total{condition="amqp:not-found",scope="core"}',
        'scopegate_connector_up{connector="broker",scope="edge"}',
        'scopegate_connector_opens_total{connector="broker"}',
        'scopegate_response_seconds_count{scope="edge",target="core"}',
        'scopegate_link_lag{rule="events/{topic}",scope="edge"}',
        'scopegate_group_lag{rule="events/{topic}",scope="edge"}',
        'scopegate_task_restarts_total{task="memory"}',
        'scopegate_reloads_total{result="failed"}',
        listener,
    ]
    assert {name: before.get(name) for name in begins} == dict.fromkeys(begins, 0.0)
    produced = 'scopegate_kafka_produce_seconds_count{cluster="main"}'  # the journal writes there, too
    assert produced in before
    responder = respond(Login(core), "services/plain", echo).attached()
    request(Login(document.edge), "svc/plain", [Message(id=f"{PEER_SAID}-1", body="x")])
    responder.stop()
    receiver, sender = receiving(document.edge, f"chat/{PEER_SAID}"), sending(document.edge, f"chat/{PEER_SAID}")
    passes(sender, receiver)
    producer = sending(document.edge, "events/orders")
    producer.transfer(message(b"event")).until("disposition", state="accepted")
    gateway.wait_metric(listener, lambda value: value == 3)  # that of the request has ended
    after = gateway.metrics()
    assert after[f'scopegate_transfer_outcome_seconds_count{{direction="in",{rule}}}'] == 1
    assert after[f'scopegate_transfer_outcome_seconds_count{{direction="out",{rule}}}'] == 1
    assert after[f'scopegate_message_size_bytes_count{{{rule}}}'] == 1
    assert 0 < after[f'scopegate_message_size_bytes_sum{{{rule}}}'] < 100
    assert after['scopegate_response_seconds_count{scope="edge",target="core"}'] == 1
    assert 0 < after['scopegate_response_seconds_sum{scope="edge",target="core"}'] < 60
    assert after[produced] >= max(1, before[produced])
    assert 0 < after['scopegate_kafka_produce_seconds_sum{cluster="main"}'] < 60 * after[produced], "the journal's, too"
    assert after[f'scopegate_rule_links{{direction="in",{rule}}}'] == 1
    gateway.wait_metric("scopegate_loop_lag_seconds_count", lambda value: value > 0)
    assert PEER_SAID not in gateway.get("/metrics")[1]


def test_state_of_policy_parts_keys_and_certificates(everything: tuple[Document, Gateway, int]) -> None:
    document, gateway, _ = everything
    found = gateway.metrics()
    digest = gateway.wait_log("serving")["digest"]
    assert found[f'scopegate_policy_info{{digest="{digest}"}}'] == 1
    assert found["scopegate_policy_loaded_timestamp_seconds"] > 1.7e9
    assert (found["scopegate_reload_ok"], found["scopegate_reload_timestamp_seconds"]) == (1, 0)
    assert found['scopegate_signing_key_expiry_timestamp_seconds{key="one"}'] == float("inf")
    assert found['scopegate_ready{part="gateway"}'] == found['scopegate_ready{part="listeners"}'] == 1
    assert found['scopegate_ready{part="connector/edge/broker"}'] == 0
    broken: dict[str, Any] = document.but().data
    broken["scopes"]["edge"]["listen"][0]["bnid"] = 1
    document.data = broken
    gateway.reload(document.text, ok=False)
    assert gateway.metrics()["scopegate_reload_ok"] == 0
    assert gateway.metrics()["scopegate_reload_timestamp_seconds"] > 1.7e9


def test_the_dashboard_and_the_alerts_name_metrics_that_are_there(
    everything: tuple[Document, Gateway, int],
) -> None:
    _, gateway, _ = everything
    found = set(gateway.metrics()) | {"up"}
    assert named_metrics() - found == set()
    assert len(named_metrics()) > 30
