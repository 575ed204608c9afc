"""What a listener of the dialect does, frame by frame: tokens, requests, batches, owner levels, bad input."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, unquote

import pytest
from confluent_kafka import Consumer, TopicPartition

from bridges.eventhubs.partition_hash import partition_of
from gateway.amqp.codec.codec import Array, Symbol
from tests.support.amqp import frames
from tests.support.eventhubs.hubs import HubGateway, sas
from tests.support.eventhubs.peer import BATCH, HubPeer, batch, data, epoch
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE


@pytest.fixture(scope="module")
def hubs(start_module_gateway: Gateways) -> HubGateway:
    return HubGateway(start_module_gateway)


@pytest.fixture
def hub(hubs: HubGateway) -> str:
    return hubs.hub()


@pytest.fixture
def peer(hubs: HubGateway) -> Iterator[HubPeer]:
    with HubPeer(hubs.port) as peer:
        yield peer


@pytest.fixture
def client(hubs: HubGateway, hub: str, peer: HubPeer) -> HubPeer:
    """A peer with a token for the hub."""
    assert peer.put_token(hubs.resource(hub), sas(hubs.resource(hub))).status == 202
    return peer


def records(hubs: HubGateway, topic: str, count: int, partition: int = 0) -> list[tuple[bytes | None, bytes]]:
    """Keys and values of a partition, as a Kafka client reads them."""
    consumer = Consumer({"bootstrap.servers": hubs.kafka.bootstrap, "group.id": "test"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        found = consumer.consume(count, PATIENCE) if count else []
        high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE)[1]
        assert high == count
        return [(each.key(), each.value()) for each in found]
    finally:
        consumer.close()


@pytest.mark.row("EH-4")
def test_without_a_token_nothing_opens(hubs: HubGateway, hub: str, peer: HubPeer) -> None:
    assert peer.refused(hub, sends=True)["condition"] == "amqp:unauthorized-access"
    assert peer.request("$management", operation="READ", type="com.microsoft:eventhub", name=hub).status == 401


@pytest.mark.row("EH-4")
def test_a_token_opens_no_other_hub(hubs: HubGateway, client: HubPeer) -> None:
    other = hubs.hub()
    assert client.refused(other, sends=True)["condition"] == "amqp:unauthorized-access"
    assert client.refused(f"{other}/ConsumerGroups/g/Partitions/0")["condition"] == "amqp:unauthorized-access"
    assert client.request("$management", operation="READ", type="com.microsoft:eventhub", name=other).status == 401


@pytest.mark.row("EH-2")
def test_bad_tokens_and_bad_requests(hubs: HubGateway, hub: str, peer: HubPeer) -> None:
    resource = hubs.resource(hub)
    assert peer.put_token(resource, sas(resource, secret="forged")).status == 401
    assert peer.put_token(resource, sas(resource, seconds=-5)).status == 401
    assert peer.put_token(resource, sas(hubs.resource("other"))).status == 401
    jwt = peer.request("$cbs", "eyJ.e30.", operation="put-token", type="jwt", name=resource)
    assert (jwt.status, "shared access" in jwt.description) == (401, True)
    kind = "servicebus.windows.net:sastoken"
    assert peer.request("$cbs", 7, operation="put-token", type=kind, name=resource).status == 400
    assert peer.request("$cbs", sas(resource), operation="delete", name=resource).status == 501
    assert peer.request("$cbs", None).status == 501
    assert peer.refused(hub, sends=True)["condition"] == "amqp:unauthorized-access"
    assert peer.put_token(resource, sas(resource)).status == 202
    assert "SharedAccessSignature" not in hubs.gateway.process.text()


@pytest.mark.row("EH-2")
def test_a_token_in_the_wrong_place_is_not_in_the_log(hubs: HubGateway, hub: str) -> None:
    token = sas(hubs.resource(hub), seconds=4321)
    with HubPeer(hubs.port) as peer:
        peer.refused(token, sends=True)
        peer.refused(f"{hub}/{token}")
        peer.refused(f"sb://127.0.0.1/{quote(token, safe='')}/x/y")
        peer.attach(token, False, 77, source=frames.source("s"), target=frames.target(hub))
        peer.until("detach")
        assert peer.request("$management", operation=token, type="com.microsoft:eventhub", name=token).status == 501
    signature = token.partition("&sig=")[2].partition("&")[0]
    text = hubs.gateway.process.text()
    assert "&sig=…" in text
    for form in (signature, unquote(signature), quote(signature)):
        assert form not in text


@pytest.mark.row("EH-4")
def test_links_end_when_their_token_expires(hubs: HubGateway, hub: str, peer: HubPeer) -> None:
    resource = hubs.resource(hub)
    peer.put_token(resource, sas(resource))
    peer.attach_sender(hub)
    while peer.put_token(resource, sas(resource, seconds=2)).status != 202:  # it had expired on its way
        pass
    detach = peer.until("detach")
    assert detach.error["condition"] == "amqp:unauthorized-access"
    assert "ExpiredToken" in detach.error["description"]
    peer.detach()
    peer.put_token(resource, sas(resource))
    peer.attach_sender(hub, 1)


@pytest.mark.row("EH-3")
def test_management(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    read = {"operation": "READ", "name": hub}
    about = client.request("$management", type="com.microsoft:eventhub", **read)
    assert (about.status, about.body["partition_count"]) == (200, 3)
    assert about.body["partition_ids"] == Array("string", ("0", "1", "2"))
    empty = client.request("$management", type="com.microsoft:partition", partition="0", **read).body
    assert (empty["last_enqueued_sequence_number"], empty["is_partition_empty"]) == (-1, True)
    assert client.request("$management", type="com.microsoft:partition", partition="9", **read).status == 404
    for wrong in ({}, {"partition": 0}, {"partition": ""}, {"partition": "0", "name": 7}):
        assert client.request("$management", **{"type": "com.microsoft:partition", **read, **wrong}).status == 400
    assert client.request("$management", type="com.microsoft:queue", **read).status == 501
    missing, resource = "no-such-hub", hubs.resource("no-such-hub")
    client.put_token(resource, sas(resource))
    assert client.request("$management", operation="READ", type="com.microsoft:eventhub", name=missing).status == 404


@pytest.mark.row("EH-1", "EH-9")
def test_a_batch_is_one_record_for_each_event(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    client.attach_sender(f"{hub}/Partitions/0")
    client.until("flow")
    client.transfer(batch(data(b"one"), data(b"two"), data(b"three")), message_format=BATCH)
    assert client.until("disposition").state.name == "accepted"
    client.transfer(data(b"single"))
    assert client.until("disposition", first=client.last_delivery).state.name == "accepted"
    assert [value for _, value in records(hubs, hub, 4)] == [b"one", b"two", b"three", b"single"]


@pytest.mark.row("EH-9")
def test_credit_is_for_messages_and_not_for_their_events(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    client.attach_sender(f"{hub}/Partitions/0")
    granted = client.until("flow").link_credit
    for _ in range(30):
        client.transfer(batch(*(data(b"x") for _ in range(100))), message_format=BATCH)
        assert client.until("disposition").state.name == "accepted"
    client.flow(0, delivery_count=30, echo=True)
    flow = client.until("flow")
    while flow.handle is None:
        flow = client.until("flow")
    assert granted - 30 <= flow.link_credit <= granted


@pytest.mark.row("EH-9")
@pytest.mark.parametrize(
    ("payload", "message_format"),
    [
        (batch(data(b"good"), b"no message"), BATCH),
        (frames.encode(frames.Described(frames.Ulong(0x77), "no batch")), BATCH),
        (batch(data(b"good"), data(b"bad", **{"x-opt-partition-key": 7})), BATCH),
    ],
    ids=["an event that is none", "no data", "a wrong key"],
)
def test_a_broken_batch_writes_nothing(
    hubs: HubGateway, hub: str, client: HubPeer, payload: bytes, message_format: int
) -> None:
    client.attach_sender(f"{hub}/Partitions/0")
    client.until("flow")
    client.transfer(payload, message_format=message_format)
    outcome = client.until("disposition").state
    assert outcome.name == "rejected"
    assert outcome["error"]["condition"] == "com.microsoft:argument-out-of-range"
    client.transfer(data(b"next"))
    assert client.until("disposition").state.name == "accepted"
    assert [value for _, value in records(hubs, hub, 1)] == [b"next"]


@pytest.mark.row("EH-9")
def test_a_batch_without_events_is_refused(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    client.attach_sender(f"{hub}/Partitions/0")
    client.until("flow")
    client.transfer(b"", message_format=BATCH)
    assert client.until("disposition").state.name == "rejected"


@pytest.mark.row("EH-9")
def test_a_batch_that_is_too_large_ends_its_link_only(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    assert client.attach_sender(f"{hub}/Partitions/0").max_message_size <= 1024 * 1024
    client.until("flow")
    client.attach_sender(f"{hub}/Partitions/1", 1)
    chunk = batch(data(b"x" * 60_000))
    number = client.last_delivery + 1
    client.transfer(chunk, message_format=BATCH, more=True)
    for _ in range(20):
        client.send("transfer", handle=0, delivery_id=number, more=True, payload=chunk)
    assert client.until("detach").error["condition"] == "amqp:link:message-size-exceeded"
    client.transfer(data(b"other link"), 1)
    assert client.until("disposition").state.name == "accepted"


@pytest.mark.row("EH-8")
def test_events_are_settled_when_they_are_sent(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    client.attach_sender(f"{hub}/Partitions/0")
    client.until("flow")
    client.transfer(batch(data(b"one"), data(b"two")), message_format=BATCH)
    client.until("disposition")
    kind = Symbol("apache.org:selector-filter:string")
    start = {kind: frames.Described(kind, "amqp.annotation.x-opt-offset > '-1'")}
    source = frames.source(f"{hub}/ConsumerGroups/$Default/Partitions/0", filter=start)
    unsettled = 0
    answer = client.attach_receiver(None, 5, snd_settle_mode=unsettled, source=source)
    assert answer.snd_settle_mode == 1
    client.flow(5, link_credit=2)
    assert [client.until("transfer").settled for _ in range(2)] == [True, True]


@pytest.mark.row("EH-10")
def test_a_partition_key_is_the_key_of_the_record(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    client.attach_sender(hub)
    client.until("flow")
    client.transfer(data(b"keyed", **{"x-opt-partition-key": "k"}))
    assert client.until("disposition").state.name == "accepted"
    found = [partition for partition in range(3) if _high(hubs, hub, partition)]
    assert records(hubs, hub, 1, found[0]) == [(b"k", b"keyed")]


@pytest.mark.row("EH-10")
def test_the_partition_can_be_that_of_the_service(start_gateway: Gateways) -> None:
    hubs = HubGateway(start_gateway, partition_key="service")
    hub = hubs.hub()
    keys = ("a", "b", "c", "key", "customer-7")
    with HubPeer(hubs.port) as peer:
        peer.put_token(hubs.resource(hub), sas(hubs.resource(hub)))
        peer.attach_sender(hub)
        peer.until("flow")
        for key in keys:
            peer.transfer(data(key.encode(), **{"x-opt-partition-key": key}))
            assert peer.until("disposition").state.name == "accepted"
    for partition in range(3):
        expected = [(key.encode(), key.encode()) for key in keys if partition_of(key, 3) == partition]
        assert records(hubs, hub, len(expected), partition) == expected


def _high(hubs: HubGateway, topic: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": hubs.kafka.bootstrap, "group.id": "test"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE)[1])
    finally:
        consumer.close()


def receiver(hub: str, level: int | None = None) -> dict[str, object]:
    properties = {} if level is None else {"properties": epoch(level)}
    return {"address": f"{hub}/ConsumerGroups/$Default/Partitions/0", **properties}


@pytest.mark.row("EH-7")
def test_owner_levels(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    client.attach_receiver(**receiver(hub, 5), handle=1)  # type: ignore[arg-type]
    lower = client.refused(f"{hub}/ConsumerGroups/$Default/Partitions/0", properties=epoch(4))
    assert lower["condition"] == "amqp:link:stolen"

    client.attach("equal", True, 2, source=frames.source(f"{hub}/ConsumerGroups/$Default/Partitions/0"),
        properties=epoch(5))
    assert client.until("detach").error["condition"] == "amqp:link:stolen"
    client.until("attach", name="equal")
    client.attach_receiver(f"{hub}/ConsumerGroups/other/Partitions/0", 3, properties=epoch(0))


@pytest.mark.row("EH-6")
def test_a_selector_of_another_kind_is_refused(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    kind = Symbol("apache.org:selector-filter:string")
    source = frames.source(
        f"{hub}/ConsumerGroups/g/Partitions/0", filter={kind: frames.Described(kind, "color = 'red'")}
    )
    assert client.refused("", source=source)["condition"] == "com.microsoft:argument-out-of-range"


@pytest.mark.row("EH-5")
def test_a_receiver_that_wants_to_know_the_end_of_no_partition_is_refused(
    hubs: HubGateway, hub: str, client: HubPeer
) -> None:
    wanted = ["com.microsoft:enable-receiver-runtime-metric"]
    address = f"{hub}/ConsumerGroups/g/Partitions/99"
    assert client.refused(address, desired_capabilities=wanted)["condition"] == "amqp:not-found"


@pytest.mark.row("EH-11", part="refusals")
def test_a_refusal_has_no_terminus_but_that_of_a_lost_partition(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    def answer(handle: int, partition: int, level: int) -> frames.Frame:
        place = frames.source(f"{hub}/ConsumerGroups/g/Partitions/{partition}")
        name, mine = f"receiver-{handle}", frames.target("mine")
        client.attach(name, True, handle, source=place, target=mine, properties=epoch(level))
        return client.until("attach", name=name)

    unknown = answer(1, 99, 5)
    assert (unknown.source, unknown.target) == (None, None)
    assert answer(2, 0, 5).source is not None
    lost = answer(3, 0, 4)
    assert lost.source is None
    assert lost.target is not None


@pytest.mark.row("EH-11")
def test_idempotent_producers_are_refused_and_geo_replication_is_ignored(
    hubs: HubGateway, hub: str, client: HubPeer
) -> None:
    wanted = ["com.microsoft:idempotent-producer"]
    assert client.refused(hub, sends=True, desired_capabilities=wanted)["condition"] == "amqp:not-implemented"
    client.attach_sender(hub, 1, desired_capabilities=["com.microsoft:georeplication"])


@pytest.mark.row("EH-4")
def test_a_reload_without_the_key_ends_the_links(start_gateway: Gateways) -> None:
    hubs = HubGateway(start_gateway)
    hub = hubs.hub()
    with HubPeer(hubs.port) as peer:
        peer.put_token(hubs.resource(hub), sas(hubs.resource(hub)))
        peer.attach_sender(hub)
        peer.until("flow")
        changed = hubs.document.but()
        keys = changed.scope()["listen"][0]["event_hubs"]["keys"]
        keys[:] = [key for key in keys if key["name"] != "app"]
        hubs.gateway.reload(changed.text)
        assert peer.until("detach").error["condition"] == "amqp:unauthorized-access"


@pytest.mark.row("EH-11", part="messages that reach no node")
def test_what_a_connection_cannot_hold_is_busy(start_gateway: Gateways) -> None:
    hubs = HubGateway(start_gateway)
    hub, changed = hubs.hub(), hubs.document.but()
    changed.scope()["listen"][0]["limits"] = {"memory": "64KiB", "max_message_size": "64KiB"}
    hubs.gateway.reload(changed.text)
    with HubPeer(hubs.port) as peer:
        peer.put_token(hubs.resource(hub), sas(hubs.resource(hub)))
        peer.attach_sender(f"{hub}/Partitions/0")
        peer.until("flow")
        first = peer.last_delivery + 1
        peer.send_raw(b"".join(_transfer(number, b"x" * 8000) for number in range(first, first + 400)))
        while (told := peer.until("disposition").state).name == "accepted":
            pass
    assert (told.name, told["error"]["condition"]) == ("rejected", "com.microsoft:server-busy")


def _transfer(number: int, body: bytes) -> bytes:
    head = frames.performative("transfer", handle=0, delivery_id=number, delivery_tag=b"%d" % number)
    return frames.framed(head + data(body))


@pytest.mark.row("EH-2")
def test_answers_go_to_the_receiver_of_the_session(hubs: HubGateway, hub: str, peer: HubPeer) -> None:
    peer.attach_sender("$cbs", 1)
    peer.until("flow")
    peer.transfer(data(b""), 1)
    rejected = peer.until("disposition").state
    assert rejected["error"]["condition"] == "amqp:precondition-failed"
    assert peer.put_token(hubs.resource(hub), sas(hubs.resource(hub))).status == 202
