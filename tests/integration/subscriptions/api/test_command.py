"""`scopegate subscriptions`: a client of the API, and a subscription tried on the events of a topic."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import main
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import NO_SUCH_PROXY
from tests.support.servers.embedded_kafka import EmbeddedKafka
from tests.support.servers.http_sink import SunkRequest, http_sink, status
from tests.support.subscriptions.api import (
    PATH,
    USERS,
    ApiClient,
    EventWriter,
    api_port,
    sink_ports,
    subscription_policy,
)


class Place(NamedTuple):
    """A gateway, and where its API is."""

    gateway: Gateway
    api: int
    sink: str

    def run(self, *words: str, user: str = "billing") -> Result:
        """Run a command as a user."""
        login = ["--url", f"http://127.0.0.1:{self.api}{PATH}", "--user", user]
        environment = {"SCOPEGATE_PASSWORD": USERS.get(user, "wrong")}
        return CliRunner().invoke(main, ["subscriptions", words[0], *login, *words[1:]], env=environment)

    def make(self, id: str, **more: Any) -> None:
        body = {"id": id, "protocol": "HTTP", "sink": self.sink, **more}
        assert ApiClient(self.api).request("POST", PATH, body).status == 201


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Place:
    document = subscription_policy(tmp_path_factory.mktemp("command"))
    gateway = start_module_gateway(document.text)
    return Place(gateway, api_port(document), f"http://127.0.0.1:{sink_ports(document)[0]}/")


def test_list_and_show(place: Place) -> None:
    place.make("listed", config={"maxevents": 7})
    result = place.run("list")
    assert result.exit_code == 0
    assert f"listed  HTTP  active  {place.sink}" in result.output.splitlines()
    assert json.loads(place.run("list", "--json").output)[0]["id"] == "listed"
    with patch.dict(os.environ, NO_SUCH_PROXY):  # a proxy would ask its own machine about 127.0.0.1
        shown = json.loads(place.run("show", "listed").output)
    assert shown["subscription"]["config"]["maxevents"] == 7
    assert shown["status"]["revision"] > 0
    missing = place.run("show", "nowhere")
    assert (missing.exit_code, missing.stderr.strip()) == (1, "nowhere: there is no subscription with this id")
    assert place.run("list", user="nobody").exit_code == 1


def test_an_export_is_imported_again(place: Place, tmp_path: Path) -> None:
    place.make("kept", types=["a"])
    exported = place.run("export", user="ops")
    assert exported.exit_code == 0
    file = tmp_path / "subscriptions.json"
    file.write_text(exported.stdout)
    api = ApiClient(place.api)
    before = api.request("GET").json
    again = place.run("import", str(file))
    assert again.exit_code == 1
    assert "kept: there is a subscription with this id" in again.stderr
    for each in before:
        assert api.request("DELETE", f"{PATH}/{each['id']}").status == 200
    assert place.run("import", "--dry", str(file)).exit_code == 0
    assert api.request("GET").status == 204
    assert place.run("import", str(file)).exit_code == 0
    assert api.request("GET").json == before
    assert place.run("import", "--replace", str(file)).exit_code == 0
    file.write_text("{}")
    assert place.run("import", str(file)).exit_code == 1


def test_try_says_what_would_match(place: Place, tmp_path: Path) -> None:
    events = EventWriter(place.gateway)
    for number in range(4):
        events.write("orders", f"id-{number}", type="a" if number % 2 else "b")
    kafka = EmbeddedKafka()
    kafka.found(place.gateway)
    file = tmp_path / "wanted.json"
    words = ["subscriptions", "try", str(file), "--policy", str(place.gateway.policy), "--user", "billing"]

    def tried(**more: Any) -> Result:
        file.write_text(json.dumps({"protocol": "HTTP", "sink": place.sink, **more}))
        return CliRunner().invoke(main, [*words, "--bootstrap", kafka.bootstrap])

    result = tried(types=["a"])
    assert result.exit_code == 0
    assert "events/orders: 2 of 4 events selected (4 records)" in result.output
    assert "id=id-1 type=a" in result.output
    assert tried(types=["c"]).exit_code == 1
    wrong = tried(filterz=1)
    assert (wrong.exit_code, wrong.stderr.splitlines()[0][:9]) == (2, "/filterz:")
    assert CliRunner().invoke(main, words).exit_code == 2  # embedded: nobody knows where


async def answer_at_another_host(answer: bytes) -> tuple[Result, list[SunkRequest], list[SunkRequest]]:
    """List subscriptions at a server that sends the client to another one."""
    async with http_sink() as other:
        text = answer.replace(b"OTHER", other.url.encode())
        async with http_sink(lambda request: text) as named:
            words = ["subscriptions", "list", "--url", f"{named.url}/subscriptions", "--user", "billing"]
            environment = {"SCOPEGATE_PASSWORD": "pass-phrase"}
            result = await asyncio.to_thread(CliRunner().invoke, main, words, env=environment)
            return result, named.requests, other.requests


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_does_not_send_the_password_to_another_host(code: int) -> None:
    result, named, other = await answer_at_another_host(status(code, "location: OTHER/subscriptions"))
    assert result.exit_code == 1
    assert len(named) == 1
    assert other == []


async def test_the_next_page_is_at_the_host_that_the_user_named() -> None:
    pages = [status(200, body=b"[]"), status(200, 'link: <http://127.0.0.1:1/other?after=x>; rel="next"', body=b"[]")]
    async with http_sink(lambda request: pages.pop()) as named:
        words = ["subscriptions", "list", "--url", f"{named.url}/subscriptions", "--user", "billing"]
        environment = {"SCOPEGATE_PASSWORD": "pass-phrase"}
        result = await asyncio.to_thread(CliRunner().invoke, main, words, env=environment)
        assert [request.path for request in named.requests] == ["/subscriptions?limit=500", "/other?after=x"]
    assert result.exit_code == 0, result.output


def test_a_url_that_is_none_is_told_without_its_password() -> None:
    for url in ("nonsense", "http://user:pass-phrase@127.0.0.1:1/subscriptions", "http://user:pass-phrase@[::1/"):
        result = CliRunner().invoke(main, ["subscriptions", "list", "--url", url, "--user", "billing"])
        assert result.exit_code == 1
        assert result.output.startswith("no answer from ")
        assert "pass-phrase" not in result.output
