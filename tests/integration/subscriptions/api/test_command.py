"""`scopegate subscriptions`: a client of the API, and a subscription tried on the events of a topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import main
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.servers.embedded_kafka import EmbeddedKafka
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
    assert "events/orders: 2 of 4 events match (4 records)" in result.output
    assert "id=id-1 type=a" in result.output
    assert tried(types=["c"]).exit_code == 1
    wrong = tried(filterz=1)
    assert (wrong.exit_code, wrong.stderr.splitlines()[0][:9]) == (2, "/filterz:")
    assert CliRunner().invoke(main, words).exit_code == 2  # embedded: nobody knows where
