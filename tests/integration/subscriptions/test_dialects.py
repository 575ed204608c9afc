"""Filters of every dialect, from the API to the sink (CE-E2E-4)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateway.gateway import Gateways
from tests.support.subscriptions.api import ApiClient, api_port, sink_ports, subscription_policy

PATH = "/subscriptions"


class Dialects:
    """A gateway whose manager offers all dialects."""

    def __init__(self, port: int, sink: int) -> None:
        self.client = ApiClient(port)
        self.sink = f"http://127.0.0.1:{sink}"

    def ask(self, method: str, path: str, **members: Any) -> Any:
        return self.client.request(method, path, {"protocol": "HTTP", "sink": f"{self.sink}/x", **members})


@pytest.fixture(scope="module")
def dialects(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Dialects:
    offered = ["basic", "filters", "sql", "amqp-sql"]
    document = subscription_policy(tmp_path_factory.mktemp("dialects"), dialects=offered, limits={"unindexed": 1})
    start_module_gateway(document.text)
    return Dialects(api_port(document), sink_ports(document)[0])


EXACT = {"type": "exact", "property": "type", "value": "x"}


@pytest.mark.row("CE-3.2.1-10", "CE-3.2.3-1", "CE-3.2.3-3", "CE-3.2.3-4", "CE-3.2.3-5", "CE-3.2.3.1-2", "CE-3.2.3-7")
@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"filter": {"filters": []}}, "/filter/dialect"),
        ({"filter": {"dialect": 5, "filters": []}}, "/filter/dialect"),
        ({"filter": {"dialect": "jq", "expression": "."}}, "/filter/dialect"),
        ({"filter": {"basic": {"dialect": "basic"}}}, "/filter/dialect"),
        ({"filter": {"dialect": "basic"}}, "/filter/filters"),
        ({"filter": {"dialect": "basic", "filters": [], "conditions": []}}, "/filter/conditions"),
        ({"filter": {"dialect": "basic", "filters": [], "any": 1}}, "/filter/any"),
        ({"filter": {"dialect": "basic", "filters": [EXACT, {**EXACT, "type": "contains"}]}}, "/filter/filters/1/type"),
        ({"filter": {"dialect": "sql", "expression": "type ="}}, "/filter/expression"),
        ({"filter": {"dialect": "sql", "expression": "NOW() = 1"}}, "/filter/expression"),
        ({"filter": {"dialect": "amqp-sql", "expression": "a ="}}, "/filter/expression"),
        ({"filters": [{"not": {"sql": "type LIKE subject"}}]}, "/filters/0/not/sql"),
        ({"filters": [{"exact": {}}]}, "/filters/0/exact"),
        ({"filters": [], "filter": {"dialect": "basic", "filters": []}}, "/filters"),
        ({"types": [""]}, "/types/0"),
        ({"source": ""}, "/source"),
    ],
)
def test_mistakes_of_filters_on_create_and_update(dialects: Dialects, members: dict[str, Any], field: str) -> None:
    if dialects.client.request("GET", f"{PATH}/kept").status == 404:
        assert dialects.ask("POST", PATH, id="kept").status == 201
    for method, path in (("POST", PATH), ("PUT", f"{PATH}/kept")):
        answer = dialects.ask(method, path, **members)
        assert (answer.status, answer.json["error"]) == (400, "invalid")
        assert [each["field"] for each in answer.json["mistakes"]] == [field]
    assert not {"filter", "filters", "types", "source"} & dialects.client.request("GET", f"{PATH}/kept").json.keys()


@pytest.mark.row("CE-3.2.3.1-9")
def test_the_example_with_its_trailing_comma_is_no_json(dialects: Dialects) -> None:
    body = b'{"protocol": "HTTP", "filter": {"dialect": "basic", "filters": [{"type": "exact"},]}}'
    answer = dialects.client.request("POST", PATH, body)
    assert (answer.status, answer.json["error"]) == (400, "invalid")


@pytest.mark.row("CE-3.2.3.1-2")
@pytest.mark.parametrize("key", ["filters", "conditions"])
def test_the_object_keeps_the_key_that_came(dialects: Dialects, key: str) -> None:
    given = {"dialect": "basic", key: [EXACT]}
    answer = dialects.ask("POST", f"{PATH}?dry=1", filter=given)
    assert answer.status == 200
    assert answer.json["filter"] == given


def test_the_number_of_filters_that_cannot_be_looked_up_is_bounded(dialects: Dialects) -> None:
    first = dialects.ask("POST", PATH, id="slow", filters=[{"sql": "amount > 1"}])
    assert first.status == 201
    second = dialects.ask("POST", PATH, filters=[{"not": {"exact": {"type": "x"}}}])
    assert second.status == 400
    assert "exact, prefix or suffix" in second.json["mistakes"][0]["message"]
    assert dialects.ask("PUT", f"{PATH}/slow", filters=[{"sql": "amount > 2"}]).status == 200
    looked_up = [{"sql": "amount > 1"}, {"prefix": {"subject": "a"}}]
    assert dialects.ask("POST", PATH, filters=looked_up).status == 201
