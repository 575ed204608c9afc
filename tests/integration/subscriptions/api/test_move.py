"""Subscriptions are moved to another gateway, with their positions and, on request, their secrets: nothing is lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import main
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.policy import KEY
from tests.support.gateway.process import free_port
from tests.support.servers.http_sink import SunkRequest, http_sink, status
from tests.support.servers.kafka import KafkaBroker
from tests.support.subscriptions.api import (
    PATH,
    USERS,
    ApiClient,
    EventWriter,
    api_port,
    eventually,
    sink_ports,
    subscription_policy,
)

SECRET = "s3cret-of-the-sink"


async def run(port: int, *words: str, user: str = "billing") -> Result:
    """A command of a user at the gateway with this API."""
    login = ["--url", f"http://127.0.0.1:{port}{PATH}", "--user", user]
    arguments = ["subscriptions", words[0], *login, *words[1:]]
    environment = {"SCOPEGATE_PASSWORD": USERS[user]}
    return await asyncio.to_thread(CliRunner().invoke, main, arguments, env=environment)


@pytest.mark.row("CE-P-6")
async def test_subscriptions_move_with_their_positions_and_secrets(
    tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways, kafka_broker: KafkaBroker
) -> None:
    folder, topic = tmp_path_factory.mktemp("move"), kafka_broker.create_topic()
    here = subscription_policy(folder, topics={topic: 1})
    here.data["kafka"]["main"] = {"bootstrap": kafka_broker.bootstrap}
    (folder / "key").write_text(KEY)
    here.data["keys"] = {"active": "k", "ring": {"k": {"file": str(folder / "key")}}}
    for rule in here.scope()["subscriptions"][0]["sinks"]:
        rule["allow_plain_without_tls"] = True
    start_gateway(here.text)
    there = here.but()
    there.data["gateway"] |= {"id": "gw-there", "http": f"127.0.0.1:{free_port()}"}
    there.scope()["listen"][0]["bind"] = f"127.0.0.1:{free_port()}"
    there.scope()["api"][0]["bind"] = f"127.0.0.1:{free_port()}"
    start_gateway(there.text)
    old, new = api_port(here), api_port(there)
    api, writer, file = ApiClient(old), EventWriter(kafka_broker.bootstrap), folder / "export.json"
    busy = True

    def answer(request: SunkRequest) -> bytes:
        refused = busy and request.header("ce-id") in ("b1", "b2")
        return status(503 if refused else 204)

    async with http_sink(answer, port=sink_ports(here)[0]) as sink:
        login = {"credentialtype": "PLAIN", "identifier": "u", "secret": SECRET}
        body = {"id": "m", "protocol": "HTTP", "sink": f"{sink.url}/in", "sinkcredential": login}
        assert (await api.ask("POST", PATH, body)).status == 201
        for id in ("a1", "a2", "b1", "b2"):
            writer.write(topic, id, key=id[0])

        def seen() -> list[str | None]:
            return [each.header("ce-id") for each in sink.requests]

        async def reached() -> bool:
            return {"a1", "a2", "b1"} <= set(seen())

        await eventually(reached)
        shown = (await api.ask("GET", f"{PATH}/m/export?secrets=1")).json
        assert SECRET not in json.dumps(shown)
        ops = ApiClient(old, "ops")
        assert (await ops.ask("GET", f"{PATH}/m/export")).status == 200
        assert (await ops.ask("GET", f"{PATH}/m/export?secrets=1")).status == 403
        assert "secrets" not in (await api.ask("GET", f"{PATH}/m/export")).json

        exported = await run(old, "export", "--secrets")
        assert exported.exit_code == 0, exported.output
        file.write_text(exported.stdout)
        assert (await api.ask("DELETE", f"{PATH}/m")).status == 200
        writer.write(topic, "c1", key="c")  # while nobody delivers
        before, busy = len(sink.requests), False
        imported = await run(new, "import", str(file))
        assert (imported.exit_code, imported.output) == (0, "m\n"), imported.output

        async def moved() -> bool:
            return {"b1", "b2", "c1"} <= set(seen()[before:])

        await eventually(moved)
        assert {each.header("authorization") for each in sink.requests} == {sink.requests[0].header("authorization")}
        after = [each for each in seen()[before:] if each in ("b1", "b2")]
        assert after == ["b1", "b2"]
        assert (await ApiClient(new).ask("GET", f"{PATH}/m")).json["sinkcredential"] == {
            "credentialtype": "PLAIN", "identifier": "u",
        }  # fmt: skip
    (found,) = json.loads(exported.stdout)["subscriptions"]
    await wrong_imports(new, found)


async def wrong_imports(port: int, exported: dict[str, Any]) -> None:
    """What does not fit is named, and nothing is created."""
    exported["subscription"]["id"] = "n"
    api = ApiClient(port)
    cases = [
        (exported, "/secrets"),  # bound to the id
        ({**exported, "secrets": None}, "/sinkcredential/secret"),
        ({**exported, "secrets": 5}, "/secrets"),
        ({**exported, "more": 5}, "/more"),
        ({"positions": {}}, "/subscription"),
    ]
    plain = {name: value for name, value in exported["subscription"].items() if name != "sinkcredential"}
    ((address, at),) = exported["positions"].items()
    where = f"/positions/{address.replace('/', '~1')}"
    far = {"log": at["log"], "offsets": {"0": "99999", "7": "0"}}
    cases += [
        ({"subscription": plain, "positions": {address: far}}, f"{where}/offsets/0"),
        ({"subscription": plain, "positions": {address: {**at, "log": "x"}}}, where),
        ({"subscription": plain, "positions": {"events/none": at}}, "/positions/events~1none"),
        ({"subscription": plain, "positions": {address: 5}}, "/positions"),
    ]
    for body, field in cases:
        answer = await api.ask("POST", f"{PATH}?import=1", body)
        assert answer.status == 400, body
        assert field in [each["field"] for each in answer.json["mistakes"]], answer.json
    assert (await api.ask("GET", f"{PATH}/n")).status == 404
    assert (await api.ask("POST", f"{PATH}?import=1&import=1", exported)).status == 400


@pytest.mark.row("CE-P-6")
async def test_what_was_delivered_and_why_nothing_is_move_too(
    tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways
) -> None:
    document = subscription_policy(tmp_path_factory.mktemp("progress"))
    gateway = start_gateway(document.text)
    api, writer = ApiClient(api_port(document)), EventWriter(gateway)

    def answer(request: SunkRequest) -> bytes:
        return status(410 if request.path == "/gone" else 204)

    async with http_sink(answer, port=sink_ports(document)[0]) as sink:
        bodies = [
            {"id": "few", "protocol": "HTTP", "sink": f"{sink.url}/few", "config": {"maxevents": 3}},
            {"id": "gone", "protocol": "HTTP", "sink": f"{sink.url}/gone"},
        ]
        for body in bodies:
            assert (await api.ask("POST", PATH, body)).status == 201

        async def state_of(id: str) -> tuple[str, str | None]:
            told = (await api.ask("GET", f"{PATH}/{id}/status")).json
            return told["state"], told.get("reason")

        async def move(id: str, **progress: object) -> None:
            exported = (await api.ask("GET", f"{PATH}/{id}/export")).json
            assert exported.get("progress", {}) == progress
            assert (await api.ask("DELETE", f"{PATH}/{id}")).status == 200
            assert (await api.ask("POST", f"{PATH}?import=1", exported)).status == 201

        def attempts() -> int:
            return len([each for each in sink.requests if each.path == "/gone"])

        async def delivered(count: int) -> None:
            async def reached() -> bool:
                return len([each for each in sink.requests if each.path == "/few"]) == count

            await eventually(reached)

        await move("few")
        writer.write("orders", "1")
        writer.write("orders", "2")
        await delivered(2)

        async def settled() -> bool:
            few = (await api.ask("GET", f"{PATH}/few/status")).json
            return few["events"]["delivered"] == 2 and (await state_of("gone"))[0] == "suspended"

        await eventually(settled)
        await move("few", delivered=2)
        before = attempts()
        await move("gone", stopped="gone")
        assert await state_of("gone") == ("suspended", "gone")
        for id in ("3", "4"):
            writer.write("orders", id)
        await delivered(3)

        async def ended() -> bool:
            return (await state_of("few"))[0] == "ended"

        await eventually(ended)
        await move("few", delivered=3, stopped="maxevents")
        assert await state_of("few") == ("ended", "maxevents")
        assert attempts() == before > 0
        assert (await api.ask("PUT", f"{PATH}/gone", bodies[1])).status == 200  # an update ends the suspension

        async def tried_again() -> bool:
            return attempts() > before

        await eventually(tried_again)
        for wrong in (5, {"delivered": -1}, {"delivered": True}, {"stopped": "policy"}, {"more": 1}):
            body = {"subscription": bodies[0], "progress": wrong}
            refused = await api.ask("POST", f"{PATH}?import=1", body)
            assert (refused.status, refused.json["mistakes"][0]["field"]) == (400, "/progress")
