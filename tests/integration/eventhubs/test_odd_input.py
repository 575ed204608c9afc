"""What no client of Event Hubs sends gets the condition of AMQP or of the service, and the connection serves on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from gateway.amqp.codec.codec import Long, Symbol
from gateway.amqp.codec.types import Value
from gateway.amqp.message import sections
from tests.support.amqp import frames
from tests.support.amqp.messages import properties_list
from tests.support.eventhubs.hubs import HubGateway, sas
from tests.support.eventhubs.peer import BATCH, HubPeer, batch, data, epoch
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until

TOKEN = "servicebus.windows.net:sastoken"
OUT_OF_RANGE = "com.microsoft:argument-out-of-range"
SELECTOR = Symbol("apache.org:selector-filter:string")


@pytest.fixture(scope="module")
def hubs(start_module_gateway: Gateways) -> HubGateway:
    return HubGateway(start_module_gateway)


@pytest.fixture(scope="module")
def hub(hubs: HubGateway) -> str:
    return hubs.hub()


@pytest.fixture
def client(hubs: HubGateway, hub: str) -> Iterator[HubPeer]:
    """A peer with a token for the hub, which still may send after the test."""
    with HubPeer(hubs.port) as peer:
        assert peer.put_token(hubs.resource(hub), sas(hubs.resource(hub))).status == 202
        yield peer
        peer.attach_sender(f"{hub}/Partitions/2", 90)
        peer.transfer(data(b"at the end"), 90)
        assert peer.until("disposition", first=peer.last_delivery).state.name == "accepted"


def last(client: HubPeer, hub: str) -> int:
    """The last sequence number of partition 0."""
    read = {"operation": "READ", "type": "com.microsoft:partition", "name": hub, "partition": "0"}
    number: int = client.request("$management", **read).body["last_enqueued_sequence_number"]
    return number


@pytest.mark.row("EH-5")
@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("", "amqp:not-found"),
        ("sb://[/hub", "amqp:not-found"),
        ("{hub}/Partitions/", "amqp:not-found"),
        ("{hub}/Partitions/-1", "amqp:not-found"),
        ("{hub}/Partitions/99999999999999999999", "amqp:not-found"),
        ("{hub}/Partitions/\u0663", "amqp:not-found"),
        ("{hub}/Partitions/00", "amqp:not-found"),
        ("{hub}/Publishers/p", "amqp:not-found"),
        ("%2e%2e/{hub}", "amqp:not-found"),
        ("$cbs/{hub}", "amqp:not-found"),
        ("{hub}/ConsumerGroups//Partitions/0", "amqp:not-found"),
        ("{hub}/ConsumerGroups/g/Partitions/0", "amqp:not-allowed"),
        ("{hub}%2FPartitions%2F0", "amqp:unauthorized-access"),
        ("{hub}?a#b", "amqp:unauthorized-access"),
        ("a" * 7000, "amqp:unauthorized-access"),
    ],
    ids=range(15),
)
def test_addresses_for_sending(client: HubPeer, hub: str, address: str, condition: str) -> None:
    assert client.refused(address.replace("{hub}", hub), sends=True)["condition"] == condition


@pytest.mark.row("EH-5")
def test_a_link_without_an_address_is_refused(client: HubPeer) -> None:
    for field in ({"source": None}, {"target": None}):
        assert client.refused("", sends="target" in field, **field)["condition"] == "amqp:not-allowed"


@pytest.mark.row("EH-6")
@pytest.mark.parametrize(
    "filters",
    [
        {SELECTOR: "amqp.annotation.x-opt-offset > '1'"},
        {SELECTOR: frames.Described(SELECTOR, 7)},
        {SELECTOR: frames.Described(SELECTOR, "x" * 5000)},
        {SELECTOR: frames.Described(SELECTOR, "amqp.annotation.x-opt-offset > 'many'")},
        {SELECTOR: frames.Described(SELECTOR, "amqp.annotation.x-opt-offset > '\u0663'")},
        {SELECTOR: frames.Described(SELECTOR, "amqp.annotation.x-opt-offset > '9999999999999999999'")},
        {Symbol(name): frames.Described(SELECTOR, "amqp.annotation.x-opt-offset > '1'") for name in "ab"},
    ],
    ids=["no filter", "a number", "long", "no number", "no ASCII", "too great", "two"],
)
def test_filters(client: HubPeer, hub: str, filters: dict[Symbol, object]) -> None:
    source = frames.source(f"{hub}/ConsumerGroups/g/Partitions/0", filter=filters)
    assert client.refused("", source=source)["condition"] == OUT_OF_RANGE


@pytest.mark.row("EH-7")
@pytest.mark.parametrize("level", [True, -1, "1", 1.5, [1], frames.Ulong(2**63)], ids=str)
def test_owner_levels_that_are_none(client: HubPeer, hub: str, level: Value) -> None:
    properties = {Symbol("com.microsoft:epoch"): level}
    address = f"{hub}/ConsumerGroups/g/Partitions/0"
    assert client.refused(address, properties=properties)["condition"] == OUT_OF_RANGE
    client.attach_receiver(address, 50, properties=epoch(2**63 - 1))


@pytest.mark.row("EH-2")
@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"name": None}, 401),
        ({"name": ""}, 401),
        ({"name": Long(7)}, 401),
        ({"name": "sb://[/hub"}, 401),
        ({"type": None}, 401),
        ({"operation": None}, 501),
        ({"operation": "x" * 5000}, 501),
    ],
    ids=str,
)
def test_requests_for_tokens(
    client: HubPeer, hubs: HubGateway, hub: str, change: dict[str, Value], status: int
) -> None:
    resource = hubs.resource(hub)
    usual: dict[str, Value] = {"operation": "put-token", "type": TOKEN, "name": resource}
    assert client.request("$cbs", sas(resource), **{**usual, **change}).status == status


@pytest.mark.row("EH-2")
@pytest.mark.parametrize(
    ("old", "new"),
    [("&sig=", "&sig=%ff%fe"), ("&se=", "&se=99999999999999999999"), ("&se=", "&se=-1&x="), ("&skn=", "&skn=\u00e9"),
     ("sr=", "sr=%00"), ("&", "&&"), ("SharedAccessSignature ", "Bearer "), ("&sig=", "&sig=" + "x" * 9000)],
    ids=range(8),
)  # fmt: skip
def test_tokens(client: HubPeer, hubs: HubGateway, hub: str, old: str, new: str) -> None:
    resource = hubs.resource(hub)
    token = sas(resource).replace(old, new)
    assert client.request("$cbs", token, operation="put-token", type=TOKEN, name=resource).status == 401


@pytest.mark.row("EH-2")
@pytest.mark.parametrize(
    "message_id", [None, b"\xff" * 40, uuid.UUID(int=7), frames.Ulong(2**64 - 1), "x" * 5000], ids=range(5)
)
def test_answers_have_the_id_of_their_request(client: HubPeer, hubs: HubGateway, hub: str, message_id: Value) -> None:
    client.attach_receiver("$cbs", 70)
    client.flow(70, link_credit=1)
    client.attach_sender("$cbs", 71)
    head = properties_list({} if message_id is None else {"message_id": message_id})
    client.transfer(sections.section(sections.PROPERTIES, head), 71)
    answer = client.until("transfer").payload
    found = sections.properties(answer, sections.walk(answer)).correlation_id
    assert found == message_id


@pytest.mark.row("EH-9")
@pytest.mark.parametrize(
    "payload",
    [
        batch(data(b"good")) + sections.section(sections.AMQP_VALUE, 1),
        batch(data(b"good"))[:-1],
        sections.section(sections.AMQP_VALUE, 1),
        batch(b""),
        batch(data(b"good"), data(b"cut off")[:-3]),
        batch(data(b"good")) + b"\x00\x53\x75\x40",
        b"\x01\x02\x03",
        batch(data(b"good"), bytes.fromhex("005377c103015001")),
        batch(*[data(b"")] * 5000, bytes.fromhex("005377a102fffe")),
    ],
    ids=range(9),
)
def test_batches_that_are_none(client: HubPeer, hub: str, payload: bytes) -> None:
    before = last(client, hub)
    client.attach_sender(f"{hub}/Partitions/0")
    client.transfer(payload, message_format=BATCH)
    rejected = client.until("disposition", first=client.last_delivery).state
    assert (rejected.name, rejected["error"]["condition"]) == ("rejected", OUT_OF_RANGE)
    assert last(client, hub) == before


@pytest.mark.row("EH-9")
@pytest.mark.parametrize("payload", [b"", bytes.fromhex("005377c103015001"), data(b"cut off")[:-1]], ids=range(3))
def test_events_that_are_none(client: HubPeer, hub: str, payload: bytes) -> None:
    before = last(client, hub)
    client.attach_sender(f"{hub}/Partitions/0")
    client.transfer(payload)
    rejected = client.until("disposition", first=client.last_delivery).state
    assert (rejected.name, rejected["error"]["condition"]) == ("rejected", OUT_OF_RANGE)
    assert last(client, hub) == before


@pytest.mark.row("EH-9", "EH-11")
def test_a_batch_may_have_more_events_than_fit_into_the_queue_to_kafka(client: HubPeer, hub: str) -> None:
    """1 MB holds 104,000 empty events, and `create_batch` of the client for Python fills it."""
    before = last(client, hub)
    client.attach_sender(f"{hub}/Partitions/0")
    client.transfer_whole(batch(*[data(b"")] * 104_000), message_format=BATCH)
    client.transfer_whole(batch(data(b"behind it")), message_format=BATCH)
    settled = client.until("disposition", first=client.last_delivery - 1)
    while (settled.last or settled.first) != client.last_delivery:  # one disposition for both, or two
        assert settled.state.name == "accepted"
        settled = client.until("disposition")
    assert settled.state.name == "accepted"
    assert last(client, hub) == before + 104_001


@pytest.mark.row("EH-9")
def test_events_keep_their_order_behind_a_large_batch(client: HubPeer, hub: str) -> None:
    before = last(client, hub)
    client.attach_sender(f"{hub}/Partitions/0")
    client.transfer_whole(batch(*[data(b"")] * 5000), message_format=BATCH)
    client.transfer(data(b"single"))
    client.transfer(b"\x01\x02\x03")
    client.transfer_whole(batch(data(b"x")), message_format=BATCH)
    first = client.last_delivery - 3
    wanted = {first: "accepted", first + 1: "accepted", first + 2: "rejected", first + 3: "accepted"}
    found: dict[int, str] = {}
    while len(found) < 4:
        told = client.until("disposition")
        found |= dict.fromkeys(range(told.first, (told.last or told.first) + 1), told.state.name)
    assert found == wanted
    assert last(client, hub) == before + 5002


@pytest.mark.row("EH-9")
def test_a_batch_may_come_settled(client: HubPeer, hub: str) -> None:
    before = last(client, hub)
    client.attach_sender(f"{hub}/Partitions/0")
    client.transfer_whole(batch(*[data(b"")] * 5000), message_format=BATCH, settled=True)
    client.detach()
    assert client.until("detach").error is None
    wait_until(lambda: last(client, hub) == before + 5000, "the settled events")


@pytest.mark.row("EH-9")
def test_a_batch_may_have_more_events_than_a_message_has_sections(client: HubPeer, hub: str) -> None:
    before = last(client, hub)
    client.attach_sender(f"{hub}/Partitions/0")
    client.transfer_whole(batch(*[data(b"")] * 12_000), message_format=BATCH)
    assert client.until("disposition", first=client.last_delivery).state.name == "accepted"
    assert last(client, hub) == before + 12_000
