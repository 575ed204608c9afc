"""The unmodified clients for JavaScript and Go: what one of them sends, the others receive (EH-12)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from proton import Described, symbol
from proton.reactor import Filter

from tests.support.amqp.proton_clients import Login, receive
from tests.support.eventhubs.foreign import LIBRARIES, HubClient, messages
from tests.support.eventhubs.hubs import HubGateway
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until


@pytest.fixture(scope="module")
def hubs(start_module_gateway: Gateways) -> HubGateway:
    return HubGateway(start_module_gateway)


@pytest.mark.row("EH-12", part="JavaScript and Go")
def test_each_receives_what_the_others_sent(hubs: HubGateway) -> None:
    hub = hubs.hub()
    for library in LIBRARIES:
        told = HubClient(library, hubs, hub).send()
        assert [each["partitions"] for each in told if each["event"] == "hub"] == [["0", "1", "2"]]

    sent = sorted(f"{library} {what}" for library in LIBRARIES for what in ("single", "0", "1", "2", "keyed"))
    found = {library: HubClient(library, hubs, hub).receive(len(sent)) for library in LIBRARIES}

    for got in found.values():
        assert sorted(each["body"] for each in got) == sent
        assert {each["body"]: each["properties"] for each in got if each["properties"]} == {
            f"{library} single": {"color": "red"} for library in LIBRARIES
        }
        keyed = [each for each in got if each["body"].endswith("keyed")]
        assert {each["partitionKey"] for each in keyed} == {"key"}
        assert len({each["partition"] for each in keyed}) == 1
    fields = ("body", "partition", "sequenceNumber", "offset", "enqueued")
    places = [sorted(tuple(each[field] for field in fields) for each in got) for got in found.values()]
    assert places[0] == places[1]


@pytest.mark.row("EH-12", part="JavaScript and Go")
@pytest.mark.parametrize("library", LIBRARIES)
def test_checkpoints_outlive_a_kill(hubs: HubGateway, tmp_path: Path, library: str) -> None:
    hub, checkpoints = hubs.hub(), tmp_path / "checkpoints.json"
    client = HubClient(library, hubs, hub)
    client.send()
    first = client.start("subscribe", "$Default", "100", str(checkpoints))
    wait_until(lambda: len(messages(first)) >= 5, "the first five events")
    wait_until(checkpoints.exists, "a checkpoint")
    first.end(signal.SIGKILL)
    before = {each["body"] for each in messages(first)}
    assert len(before) == 5

    HubClient("js" if library == "go" else "go", hubs, hub).send()
    after = client.receive(5, checkpoints)

    bodies = {each["body"] for each in after}
    other = "js" if library == "go" else "go"
    assert {f"{other} {what}" for what in ("single", "0", "1", "2", "keyed")} <= bodies | before
    assert not {each for each in bodies if each.startswith(library)} - before


@pytest.mark.row("EH-12", part="other AMQP clients")
def test_any_amqp_client_reads_the_same_events(hubs: HubGateway) -> None:
    hub = hubs.hub()
    HubClient("js", hubs, hub).send()
    position = "amqp:event-streams-delivery-annotations-filter"
    start = Filter({symbol("at"): Described(symbol(position), {symbol("event-streams-offset"): symbol("@earliest")})})
    found = [each.message for each in receive(Login(hubs.plain), f"events/{hub}", 5, options=start).finish()]
    assert sorted(bytes(each.body).decode() for each in found) == ["js 0", "js 1", "js 2", "js keyed", "js single"]
    (keyed,) = [each for each in found if bytes(each.body) == b"js keyed"]
    assert keyed.annotations == {symbol("event-streams-group-key"): "key"}
    assert [each.properties for each in found if each.properties] == [{"color": "red"}]
