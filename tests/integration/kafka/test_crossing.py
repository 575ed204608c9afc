"""Requests from another scope to a Kafka topic, and Kafka clients' responses to the requesters (X-5, X-6, KM-22)."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from gateway.amqp.codec.codec import Symbol, Timestamp
from tests.support.amqp.frames import framed, performative
from tests.support.amqp.links import outcomes
from tests.support.amqp.messages import bare, message, sections
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Inbox, Outbox, answer, hop_annotations
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, ports, wait_until
from tests.support.servers.kafka import new_producer

POLICY = """
gateway: {{id: gw-kafka-crossing, http: "127.0.0.1:{http}", log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
kafka: {{main: {{bootstrap: embedded, topics: {{requests: 1, answers: 1, events: 1, source: 1, copy: 1}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "auto/{{topic}}", relay: core, address: "log/{{topic}}"}}
      - {{match: "cookie/{{topic}}", relay: core, address: "log/{{topic}}", replies: cookie}}
      - {{match: "none/{{topic}}", relay: core, address: "log/{{topic}}", replies: none}}
      - {{match: "q/*", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    connect:                              # the gateway as a client of its own event logs
      - name: loop
        to: "amqp://127.0.0.1:{core}"
        pull:
          - {{from: log/answers, to: $replies.core}}
          - {{from: log/events, to: far/work}}
          - {{from: log/source, to: log/copy}}
    addresses:
      - {{match: "log/{{topic}}", kafka: main}}
      - {{match: "shorn/{{topic}}", kafka: main, annotate: never}}
      - {{match: "far/*", relay: there}}
      - {{match: "private/*", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: ["log/*", "shorn/*", "far/*"]}}]
  there:
    listen: [{{bind: "127.0.0.1:{there}"}}]
    addresses:
      - {{match: "far/*", direct: balanced}}
      - {{match: "read/{{topic}}", relay: core, address: "log/{{topic}}"}}
      - {{match: "plain/{{topic}}", relay: core, address: "log/{{topic}}", replies: none}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
_names = (f"q/{number}" for number in itertools.count())


class Place(NamedTuple):
    """The gateway's scopes and its Kafka."""

    edge: int
    core: int
    there: int
    gateway: Gateway
    bootstrap: str


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    edge, core, there, http = ports(4)
    policy = POLICY.format(edge=edge, core=core, there=there, http=http)
    gateway = start_module_gateway(policy, env={"SCOPEGATE_TEST_KEY": "k" * 43})
    wait_until(lambda: "not pulling" not in gateway.get("/readyz")[1], "the pulls to stand")
    detail = json.loads(gateway.get("/readyz")[1])["parts"]["kafka/main"]["detail"]
    return Place(edge, core, there, gateway, detail.rpartition(" ")[2])


@pytest.fixture
def reply_to() -> str:
    return next(_names)


@pytest.fixture
def requests(place: Place) -> Iterator[Consumer]:
    """An ordinary Kafka client that reads requests from now on."""
    consumer = Consumer({"bootstrap.servers": place.bootstrap, "group.id": "service", "log_level": 0})
    _, end = consumer.get_watermark_offsets(TopicPartition("requests", 0), timeout=PATIENCE)
    consumer.assign([TopicPartition("requests", 0, end)])
    yield consumer
    consumer.close()


def record(consumer: Consumer) -> tuple[bytes, dict[str, bytes]]:
    """The next record: its value and its headers."""
    (found,) = consumer.consume(1, PATIENCE)
    return found.value(), dict(found.headers() or [])


def produce(place: Place, topic: str, value: bytes, headers: dict[str, bytes]) -> None:
    """Write one record as an ordinary Kafka client does."""
    producer = new_producer(place.bootstrap)
    producer.produce(topic, value, headers=headers)
    assert producer.flush(PATIENCE) == 0


def asked(place: Place, address: str, payload: bytes) -> None:
    assert Outbox(place.edge, address).send_with_credit(payload).matches("accepted")


@pytest.mark.row("X-5")
def test_a_responder_at_kafka_answers_by_headers(place: Place, requests: Consumer, reply_to: str) -> None:
    answers = Inbox(place.edge, reply_to)
    now = time.time_ns() // 1_000_000
    asked(place, "cookie/requests", message(b"ask", reply_to=reply_to, message_id="m", app={"n": 1}))
    value, headers = record(requests)
    assert value == b"ask"
    assert headers["amqp.response-link-target-address"] == b"$replies.core"
    assert now < int(headers["amqp.response-address-cookie-expiry"]) <= now + 360_000
    cookie = headers["amqp.response-address-cookie"]
    for number in range(2):  # one request, several responses
        produce(place, "answers", b"answer %d" % number, {"amqp.address-cookie": cookie})
    for number in range(2):
        home = answers.take()
        assert sections(home)["data"] == b"answer %d" % number
        assert hop_annotations(home) == {}


READERS = {
    "core": ("core", "log/requests", "$replies.core", False),
    "a group in core": ("core", "log/requests", "$replies.core", True),
    "without what the log says": ("core", "shorn/requests", "$replies.core", False),
    "there": ("there", "read/requests", "$replies.there", False),
}
REQUEST = {"message_id": b"\0\1", "subject": "s", "app": {"n": 1}, "footer": {"x-opt-f": 1}}


class Reader(NamedTuple):
    """An AMQP responder that reads the topic, and the receiver of its responses."""

    port: int
    inbox: Inbox
    replies: str
    shorn: bool

    def asked(self) -> tuple[bytes, dict[str, Any]]:
        """The next request, and its delivery annotations without those of the event stream."""
        got = self.inbox.take()
        reported = hop_annotations(got)
        own = {name for name in reported if name.startswith(("event-streams-", "x-opt-kafka-"))}
        assert bool(own) is not self.shorn
        return got, {name: value for name, value in reported.items() if name not in own}


@pytest.fixture(params=list(READERS))
def read(request: pytest.FixtureRequest, place: Place) -> Callable[[bool], Reader]:
    """Attach a reader of the topic that understands response annotations, or one that does not."""
    scope, address, replies, grouped = READERS[request.param]
    port = getattr(place, scope)
    group = {Symbol("event-streams-consumer-group"): next(_names)} if grouped else None

    def attach(capable: bool) -> Reader:
        inbox = Inbox(port, address, capable=capable, properties=group)
        return Reader(port, inbox, replies, address.startswith("shorn/"))

    return attach


def answered(responder: Outbox, response: bytes, answers: Inbox) -> bytes:
    """Send a response, and return it as the requester received it; the responder's delivery was accepted."""
    responder.credit()
    delivery = responder.post(response)
    home = answers.take()
    assert responder.outcome(delivery).matches("accepted")
    return home


@pytest.mark.row("X-5", "RA-2.2-5", "RA-2.3-17")
def test_a_reader_that_understands_annotations_gets_those_of_a_request(
    place: Place, reply_to: str, read: Callable[[bool], Reader]
) -> None:
    """They are bit for bit as sent, with those that a response needs in addition."""
    reader, answers = read(True), Inbox(place.edge, reply_to)
    sent = message(b"ask", reply_to=reply_to, **REQUEST)
    asked(place, "cookie/requests", sent)
    got, reported = reader.asked()
    assert bare(got) == bare(sent)
    cookie = reported.pop("response-address-cookie")
    assert type(cookie) is bytes
    assert type(reported.pop("response-address-cookie-expiry")) is Timestamp
    assert reported == {"response-link-target-address": reader.replies}
    home = answered(Outbox(reader.port, reader.replies), answer(cookie, b"yes"), answers)
    assert (sections(home)["data"], hop_annotations(home)) == (b"yes", {})


@pytest.mark.row("X-5", "RA-2.2-3", "RA-2.5-1", "RA-2.5-6", "RA-2.5-7", "RA-2.5-10")
def test_for_a_reader_that_does_not_a_request_is_rewritten(
    place: Place, reply_to: str, read: Callable[[bool], Reader]
) -> None:
    reader, answers = read(False), Inbox(place.edge, reply_to)
    sent = message(b"ask", reply_to=reply_to, **REQUEST)
    asked(place, "cookie/requests", sent)
    got, reported = reader.asked()
    assert reported == {}
    fields, before = sections(got), sections(sent)
    there = fields["properties"]["reply_to"]
    assert there.startswith(f"{reader.replies}/")
    assert fields["properties"]["message_id"] != b"\0\1"
    assert (fields["data"], fields["application_properties"], fields["footer"], fields["properties"]["subject"]) == (
        before["data"], before["application_properties"], before["footer"], "s"
    )  # fmt: skip
    response = message(b"yes", correlation_id=fields["properties"]["message_id"])
    home = sections(answered(Outbox(reader.port, there), response, answers))
    assert (home["data"], home["properties"]["correlation_id"]) == (b"yes", b"\0\1")


@pytest.mark.row("X-5")
def test_behind_a_relay_without_response_routing_a_request_has_no_annotations(place: Place, reply_to: str) -> None:
    reader = Inbox(place.there, "plain/requests", capable=True)
    sent = message(b"ask", reply_to=reply_to, **REQUEST)
    asked(place, "cookie/requests", sent)
    got = reader.take()
    assert bare(got) == bare(sent)
    assert not any(name.startswith("response-") for name in hop_annotations(got))


FORGED = {
    "another address": {"link-target-address": b"private/inbox"},
    "no text": {"link-target-address": b"\xff"},
    "no time": {"address-cookie-expiry": b"soon"},
    "a long time": {"address-cookie-expiry": b"9" * 19},
    "something else": {"whatever": b"x"},
}


@pytest.mark.row("X-5", "X-10")
@pytest.mark.parametrize("capable", [True, False])
@pytest.mark.parametrize("forged", FORGED.values(), ids=list(FORGED))
def test_what_a_kafka_client_writes_gives_no_way_to_addresses_that_not_everybody_may_use(
    place: Place, capable: bool, forged: dict[str, bytes]
) -> None:
    """Annotations of wrong types are ignored, and no reply address is generated unless every user may receive there."""
    reader = Inbox(place.core, "log/requests", capable=capable)
    headers = {f"amqp.response-{name}": value for name, value in forged.items()}
    produce(place, "requests", b"forged", {"amqp.reply-to": b"private/inbox", **headers})
    got = reader.take()
    assert sections(got)["data"] == b"forged"
    assert "$replies" not in str(sections(got).get("properties"))
    reported = {name: value for name, value in hop_annotations(got).items() if name.startswith("response-")}
    known = capable and forged.get("link-target-address") == b"private/inbox"
    assert reported == ({"response-link-target-address": "private/inbox"} if known else {})


@pytest.mark.row("X-5", "RA-2.5-1", "RA-2.5-10")
def test_without_the_wish_for_headers_a_request_is_rewritten(place: Place, requests: Consumer, reply_to: str) -> None:
    answers = Inbox(place.edge, reply_to)
    asked(place, "auto/requests", message(b"ask", reply_to=reply_to, message_id="m"))
    _, headers = record(requests)
    assert not any(name.startswith("amqp.response-") for name in headers)
    address = headers["amqp.reply-to"].decode()
    assert address.startswith("$replies.core/")
    assert reply_to not in address
    responder = Outbox(place.core, address)
    responder.post(message(b"yes", correlation_id=headers["amqp.message-id"].decode()))
    home = sections(answers.take())
    assert (home["data"], home["properties"]["correlation_id"]) == (b"yes", "m")


def test_what_asks_for_no_response_is_unchanged_on_its_way_in(place: Place, requests: Consumer) -> None:
    reader = Inbox(place.core, "log/requests")
    for way in ("auto", "none"):
        sent = message(b"event", message_id="m", app={"way": way})
        asked(place, f"{way}/requests", sent)
        assert bare(reader.take()) == bare(sent)
        assert record(requests)[0] == b"event"


@pytest.mark.row("X-5")
@pytest.mark.parametrize("cookie", [b"forged", b""])
def test_a_wrong_cookie_in_a_record_reaches_nobody(place: Place, reply_to: str, cookie: bytes) -> None:
    answers = Inbox(place.edge, reply_to)
    before = sum(_refused(place))
    produce(place, "answers", b"forged", {"amqp.address-cookie": cookie})
    wait_until(lambda: sum(_refused(place)) > before, "the refusal to be counted")
    assert answers.empty()


def _refused(place: Place) -> Iterator[float]:
    metrics = place.gateway.metrics().items()
    return (value for name, value in metrics if "messages_refused" in name and 'scope="core"' in name)


@pytest.mark.row("X-6", "ES-4.6.4-3", "ES-4.6.5-3")
@pytest.mark.parametrize("capable", [True, False])
def test_a_consumed_event_enters_another_scope_without_what_its_log_said(place: Place, capable: bool) -> None:
    """The gateway consumes it from an event log and forwards it: without ES annotations, with the request's."""
    service = Inbox(place.there, "far/work", capable=capable)
    sent = message(b"event", reply_to="log/answers", message_id="m", app={"n": 1})
    assert Outbox(place.core, "log/events").send_with_credit(sent).matches("accepted")
    got = service.take()
    reported = hop_annotations(got)
    assert not any(name.startswith("event-streams-") for name in reported)
    assert (reported.get("response-link-target-address") == "$replies.there") is capable
    assert (bare(got) == bare(sent)) is capable
    assert sections(got)["properties"]["reply_to"].startswith("log/" if capable else "$replies.there/")


def test_a_topic_that_is_pulled_into_another_keeps_messages_as_they_were(place: Place) -> None:
    copy = Inbox(place.core, "log/copy")
    sent = [message(b"%d" % number, message_id=f"m-{number}", app={"n": number}) for number in range(20)]
    source = Outbox(place.core, "log/source")
    source.credit()
    for each in sent:
        source.post(each)
    got = [copy.take() for _ in sent]
    assert [bare(each) for each in got] == [bare(each) for each in sent]
    assert [hop_annotations(each)["event-streams-offset"] for each in got] == [f"{at:020d}" for at in range(20)]


def test_what_comes_in_one_write_is_kept_but_for_what_is_refused(place: Place, requests: Consumer) -> None:
    """Three before, one that is not a message, and one after it."""
    payloads = [message(b"%d" % number) for number in range(4)]
    payloads.insert(3, b"\xff\xff\xff")
    transfers = [
        framed(performative("transfer", handle=0, delivery_id=at, delivery_tag=b"%d" % at, message_format=0) + payload)
        for at, payload in enumerate(payloads)
    ]
    with Peer(place.edge) as peer:
        peer.start()
        peer.attach_sender("auto/requests")
        peer.until("flow")
        peer.send_raw(b"".join(transfers))
        assert [record(requests)[0] for _ in range(4)] == [b"0", b"1", b"2", b"3"]
        assert outcomes(peer, 5) == {0: "accepted", 1: "accepted", 2: "accepted", 3: "rejected", 4: "accepted"}


def test_requests_that_are_refused_give_back_their_credit_and_no_more(place: Place) -> None:
    """The sender then has the same credit as before."""
    with Peer(place.edge) as peer:
        peer.start()
        peer.attach_sender("auto/requests")
        most = peer.until("flow").link_credit
        for number in range(1, 4):
            peer.transfer(b"\xff\xff\xff")
            flow = peer.until("flow")
            assert flow.delivery_count + flow.link_credit == number + most
