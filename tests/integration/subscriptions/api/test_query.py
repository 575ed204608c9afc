"""Lists of subscriptions: whose, which, and by pages (CE-E2E-3)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.subscriptions.api import PATH, ApiClient, api_port, sink_ports, subscription_policy

COUNT = 250


class Filled:
    """A gateway where `billing` has 250 subscriptions, and `shipping` three."""

    def __init__(self, document: Document) -> None:
        self.port = api_port(document)
        sink = f"http://127.0.0.1:{sink_ports(document)[0]}/"
        for user, count in (("billing", COUNT), ("shipping", 3)):
            for number in range(count):
                body = {"id": f"{user}-{number:03}", "protocol": "HTTP", "sink": f"{sink}{number}"}
                assert self.client(user).request("POST", PATH, body).status == 201

    def client(self, user: str) -> ApiClient:
        return ApiClient(self.port, user)

    def ids(self, user: str, query: str = "") -> list[str]:
        """What a list has."""
        found: list[dict[str, Any]] = self.client(user).request("GET", PATH + query).json
        return [each["id"] for each in found]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Filled:
    document = subscription_policy(tmp_path_factory.mktemp("query"))
    start_module_gateway(document.text)
    return Filled(document)


@pytest.mark.row("CE-3.2.4.3-1", "CE-3.2.4.3-3", "CE-3.2.4.3-6")
def test_all_of_ones_own_are_listed(filled: Filled) -> None:
    assert filled.ids("billing") == [f"billing-{number:03}" for number in range(COUNT)]
    assert filled.ids("shipping") == [f"shipping-{number:03}" for number in range(3)]
    assert filled.ids("ops") == filled.ids("billing") + filled.ids("shipping")


@pytest.mark.row("CE-3.2.4.3-5")
def test_pages_follow_their_links(filled: Filled) -> None:
    client, path, found = filled.client("billing"), f"{PATH}?limit=99", list[str]()
    sizes = []
    while True:
        answer = client.request("GET", path)
        found += [each["id"] for each in answer.json]
        sizes.append(len(answer.json))
        if "link" not in answer.headers:
            break
        link = re.fullmatch(r'<(.*)>; rel="next"', answer.headers["link"])
        assert link is not None
        path = link[1]
    assert found == filled.ids("billing")
    assert sizes == [99, 99, 52]


@pytest.mark.row("CE-3.2.4.3-5")
def test_lists_are_filtered(filled: Filled) -> None:
    assert len(filled.ids("billing", "?protocol=HTTP")) == COUNT
    assert filled.client("billing").request("GET", f"{PATH}?protocol=KAFKA").status == 204
    assert len(filled.ids("billing", "?state=active&limit=7")) == 7
    assert filled.client("billing").request("GET", f"{PATH}?state=ended").status == 204


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=x", "limit=9999999", "protocol=SMTP", "state=asleep", "colour=red"]
)
def test_a_wrong_query_is_a_mistake(filled: Filled, query: str) -> None:
    answer = filled.client("billing").request("GET", f"{PATH}?{query}")
    assert (answer.status, answer.json["error"]) == (400, "invalid")
    assert answer.json["mistakes"][0]["field"] == "?" + query.partition("=")[0]


@pytest.mark.row("CE-3.2.4.3-4")
def test_an_empty_list_has_no_content(filled: Filled) -> None:
    answer = filled.client("billing").request("GET", f"{PATH}?after=z")
    assert (answer.status, answer.body) == (204, b"")
    assert filled.client("billing").request("GET", f"{PATH}?after=z&empty=1").json == []
