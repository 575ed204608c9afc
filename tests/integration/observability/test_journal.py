"""The journal of boundary decisions: what a real Kafka has of a known run, and what traffic feels of it (nothing)."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from gateway.amqp.codec.codec import Described, Symbol, decode_all
from tests.support.amqp import frames
from tests.support.amqp.links import passes, receiving, refusal, sending
from tests.support.amqp.messages import message
from tests.support.gateway.crossing import KEY, Inbox, Outbox, answer, connected, cookie_of
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.journal import JournalReader, Rows, table, those, total
from tests.support.gateway.warm import shortened
from tests.support.servers.kafka import KafkaBroker

ENV = {"SCOPEGATE_TEST_KEY": KEY}
LONG = {"gateway.journal.journaling._LAST": 30.0, "gateway.journal.journaling._LOOK": 30.0}
"""So long may a gateway that ends write rows, and Kafka say where logs end: a busy machine may stand still."""
BODY = b"a body that is nobody's business"


class Place:
    """A gateway with scopes edge and core, a topic for events and one for the journal."""

    def __init__(self, broker: KafkaBroker, gateways: Gateways, **options: object) -> None:
        self.topic, self.events = broker.create_topic(), broker.create_topic()
        journal = {"kafka": "main", "topic": self.topic, "interval": "200ms", **options}
        self.document = Document(journal=journal, log="json")
        self.document.kafka(broker.bootstrap)
        self.core = self.document.relay()
        self.edge = self.document.edge
        self.gateway = gateways(self.document.text, env={**ENV, **shortened(LONG)})
        self.reader = JournalReader(broker.bootstrap, self.topic)

    def end(self) -> Rows:
        """Stop the gateway; return all that it has written."""
        self.gateway.stop()
        end = self.reader.end()
        return self.reader.wait(lambda rows: len(rows) == end > 0, "the last row")


@pytest.fixture
def place(kafka_broker: KafkaBroker, start_gateway: Gateways) -> Iterator[Place]:
    place = Place(kafka_broker, start_gateway)
    yield place
    place.reader.close()


def test_a_known_run(place: Place) -> None:
    receiver, sender = receiving(place.edge, "chat/room"), sending(place.edge, "chat/room")
    for number in range(3):
        passes(sender, receiver, number)
    sender.transfer(message(BODY))
    rejected = frames.composite("rejected", error=frames.error("amqp:not-allowed"))
    receiver.disposition(receiver.until("transfer").delivery_id, rejected)
    sender.until("disposition", first=3)
    assert refusal(place.edge, "no/such/address") == "amqp:not-found"
    producer = sending(place.edge, f"events/{place.events}")
    producer.transfer(message(BODY)).until("disposition", state="accepted")
    anonymous = Outbox(place.edge, None)
    anonymous.credit()
    assert anonymous.send(message(to="no/such/other")).name == "rejected"
    anonymous.post(message(BODY, to="chat/room"))
    receiver.disposition(receiver.until("transfer").delivery_id, "accepted")
    rows = place.end()
    room = {"kind": "link", "scope": "edge", "user": "anonymous", "address": "chat/room", "decision": "allow"}
    room |= {"route": "direct", "rule": "chat/**", "to_scope": "edge", "to_address": "chat/room"}
    assert total(rows, "attached", action="send", **room) == 2  # the anonymous terminus leads there, too
    assert total(rows, "messages", action="send", **room) == 5
    assert total(rows, "messages", action="receive", **room) == 5
    assert total(rows, "bytes", action="send", **room) > 3 * len(BODY)
    assert table(rows, "outcomes", action="send", **room) == {"accepted": 3, "rejected": 1}
    denied = {"decision": "deny", "condition": "amqp:not-found", "refused_by": "policy"}
    assert total(rows, "attached", action="receive", address="no/such/address", **denied) == 1
    assert total(rows, "attached", action="send", address="no/such/other", **denied) == 1
    assert total(rows, "messages", route="kafka", to_topic=place.events, to_cluster="main") == 1
    assert table(rows, "outcomes", route="anonymous") == {"accepted": 1, "rejected": 1}
    assert table(rows, "refused", route="anonymous") == {"amqp:not-found": 1}
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert {(row["v"], row["gateway"], row["process"]) for row in rows} == {(1, "gw-test", rows[0]["process"])}
    assert all(row["from_ms"] <= row["to_ms"] for row in rows)
    assert BODY.decode() not in place.reader.text


def test_crossings_and_no_cookie(place: Place) -> None:
    plain, capable = Inbox(place.core, "services/plain"), Inbox(place.core, "services/new", capable=True)
    answers = Inbox(place.edge, "chat/home")
    cookies = []
    quiet = Inbox(connected(place.core, offered_capabilities=None), "services/quiet", capable=True)
    for inbox, name in ((plain, "plain"), (capable, "new"), (capable, "new"), (quiet, "quiet")):
        client = Outbox(place.edge, f"svc/{name}")
        client.credit()
        delivery = client.post(message(BODY, reply_to="chat/home", message_id="m"))
        request = inbox.take()
        client.outcome(delivery)
        if name == "new":
            cookies.append(cookie_of(request))
    responder = Outbox(place.core, "$replies.core")
    responder.credit()
    responder.post(answer(cookies[0]))
    answers.take()
    rows = place.end()
    crossed = {"kind": "crossing", "scope": "edge", "to_scope": "core", "replies": "auto"}
    assert total(rows, "messages", to_address="services/plain", result="rewritten", announced=False, **crossed) == 1
    believed = {"announced": True, "believed": True}
    assert total(rows, "messages", to_address="services/new", result="annotated", **believed, **crossed) == 2
    doubted = {"announced": True, "believed": False}
    assert total(rows, "messages", to_address="services/quiet", result="rewritten", **doubted, **crossed) == 1
    home = {"kind": "crossing", "scope": "core", "to_scope": "edge", "replies": "homeward", "to_address": "chat/home"}
    assert total(rows, "messages", result="unchanged", **home) == 1
    relayed = those(rows, kind="link", route="direct", address="svc/new", action="send")
    assert {(row["to_scope"], row["to_address"], row["replies"]) for row in relayed} == {
        ("core", "services/new", "auto")
    }
    assert total(rows, "messages", kind="link", address="chat/home", user=None, action="send") == 1
    for cookie in cookies:
        assert cookie.hex() not in place.reader.text
        assert cookie[10:40].decode("latin-1") not in place.reader.text
    assert "$replies.core/" not in place.reader.text.replace("$replies.core/…", "")


def test_samples_and_filters(kafka_broker: KafkaBroker, start_gateway: Gateways) -> None:
    place = Place(kafka_broker, start_gateway, sample=2, filters=True)
    sql = Described(Symbol("amqp:sql-filter"), "properties.subject = 'x'")
    peer = connected(place.edge)
    peer.attach_receiver("chat/room", source=frames.source("chat/room", filter={Symbol("f"): sql}))
    peer.flow(0, link_credit=10)
    sender = sending(place.edge, "chat/room")
    for number in range(4):
        sender.transfer(message(BODY, subject="x", to="chat/room", reply_to="$temp/secret-place"))
        peer.disposition(peer.until("transfer").delivery_id, "accepted")
        sender.until("disposition", first=number)
    rows = place.end()
    sampled = those(rows, kind="message", address="chat/room", action="send")
    assert len(sampled) == 2
    assert {(row["message_to"], row["message_reply_to"], row["annotated"]) for row in sampled} == {
        ("chat/room", "$temp/…", False)
    }
    assert all(row["size"] > len(BODY) for row in sampled)
    (asked,) = {row["filter_set"] for row in those(rows, action="receive", address="chat/room")}
    assert those(rows, action="receive", filters=["amqp:sql-filter"])
    assert decode_all(base64.b64decode(asked)) == {"f": sql}
    assert "secret-place" not in place.reader.text
    place.reader.close()


def test_what_is_read_of_event_logs(kafka_broker: KafkaBroker, start_gateway: Gateways) -> None:
    place = Place(kafka_broker, start_gateway)
    address = f"events/{place.events}"
    group = connected(place.edge)
    group.attach_receiver(address, properties={Symbol("event-streams-consumer-group"): "billing"})
    sql = Described(Symbol("amqp:sql-filter"), "properties.subject = 'x'")
    filtered = connected(place.edge)
    filtered.attach_receiver(address, source=frames.source(address, filter={Symbol("f"): sql}))
    producer = sending(place.edge, address)
    for number in range(10):
        producer.transfer(message(BODY, subject="x" if number < 3 else "y"))
        producer.until("disposition", first=number)
    group.flow(0, link_credit=4)
    for _ in range(4):
        group.disposition(group.until("transfer").delivery_id, "accepted")
    filtered.flow(0, link_credit=10)
    for _ in range(3):
        filtered.disposition(filtered.until("transfer").delivery_id, "accepted")
    billing = {"kind": "reading", "group": "billing", "address": address, "to_topic": place.events, "route": "kafka"}

    def behind(rows: Rows) -> bool:
        return {"partition": 0, "position": 4, "end": 10} in (those(rows, **billing) or [{}])[-1].get("partitions", [])

    place.reader.wait(behind, "a group that is six events behind")
    filtered.detach()
    picky = {"kind": "reading", "filters": ["amqp:sql-filter"], "address": address}
    place.reader.wait(lambda rows: those(rows, links=0, **picky), "the last word on a link that has ended")
    rows = place.end()
    assert (total(rows, "scanned", **billing), total(rows, "matched", **billing)) == (4, 4)
    assert sum(table(rows, "latency", **billing).values()) + total(rows, "older", **billing) == 4
    assert {"links", "scanned", "matched", "older", "latency", "partitions"} <= set(those(rows, **billing)[0])
    assert (total(rows, "scanned", **picky), total(rows, "matched", **picky)) == (10, 3)
    assert those(rows, **picky)[-1]["partitions"] == [{"partition": 0, "position": 10, "end": 10}]
    assert table(rows, "outcomes", kind="link", group="billing") == {"accepted": 4}
    place.reader.close()


def test_what_a_node_refuses(kafka_broker: KafkaBroker, start_gateway: Gateways) -> None:
    place = Place(kafka_broker, start_gateway, interval="10m")  # the only rows are those of the end
    assert refusal(place.edge, "events/no-such-topic") == "amqp:not-found"
    rows = place.end()
    refused = {"address": "events/no-such-topic", "action": "receive", "route": "kafka"}
    assert total(rows, "attached", decision="deny", refused_by="node", condition="amqp:not-found", **refused) == 1
    assert total(rows, "attached", decision="allow", **refused) == 0
    place.reader.close()


def test_traffic_goes_on_without_kafka_and_losses_are_told(own_kafka: KafkaBroker, start_gateway: Gateways) -> None:
    place = Place(own_kafka, start_gateway, sample=1, buffer=20)
    receiver, sender = receiving(place.edge, "chat/room", 1000), sending(place.edge, "chat/room")
    passes(sender, receiver)
    place.reader.wait(lambda rows: those(rows, kind="message"), "a row before")
    place.reader.close()
    own_kafka.process.end()
    place.gateway.wait_log("kafka down")
    for number in range(1, 101):
        passes(sender, receiver, number)  # nobody waits for the journal
    lost = 'scopegate_journal_rows_total{result="lost: buffer"}'
    assert place.gateway.wait_metric(lost, lambda value: value >= 80) <= 100
    place.gateway.wait_log("journal not written; traffic goes on")
    own_kafka.start()
    place.gateway.wait_log("journal written again")
    reader = JournalReader(own_kafka.bootstrap, place.topic)
    wanted = {"kind": "link", "address": "chat/room", "action": "send"}

    def whole(rows: Rows) -> bool:
        reported = sum(row["causes"].get("buffer", 0) for row in those(rows, kind="lost"))
        sampled = len({row["seq"] for row in those(rows, kind="message")})
        return reported > 0 and reported + sampled == total(rows, "messages", **wanted) == 101

    reader.wait(whole, "losses told, counts whole")
    reader.close()
