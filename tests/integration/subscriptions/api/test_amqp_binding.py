"""The operations over AMQP: requests to `$subscriptions`, answered at a reply-to and over a link pair (CE-E2E-11)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from proton import Message

from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.amqp.proton_clients import Login, request
from tests.support.gateway.crossing import Outbox
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.pairs import Paired, Responses, attach
from tests.support.subscriptions.api import PATH, USERS, ApiClient, api_port, sink_ports, subscription_policy

SERVICE = "$subscriptions"


class Place(NamedTuple):
    """Where the gateway of this module is reached."""

    edge: int
    api: int
    sink: str

    def ask(self, subject: str, body: object = None, user: str = "billing", **properties: Any) -> tuple[str, Any, Any]:
        """Ask as a stock client; returns the status, the document and the other application properties."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        asked = Message(data, subject=subject, id="id-1", properties=properties, content_type="application/json")
        asked.inferred = True  # bytes are data
        (received,) = request(Login(self.edge, user, USERS[user]), SERVICE, [asked])
        answer = received.message
        assert answer.correlation_id == "id-1"
        assert answer.subject == subject
        reported = dict(answer.properties)
        document = json.loads(bytes(answer.body)) if answer.body is not None else None
        return reported.pop("status"), document, reported


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Place:
    folder = tmp_path_factory.mktemp("binding")
    document = subscription_policy(folder)
    scope = document.scope()
    scope["addresses"].append({"match": SERVICE, "service": "subscriptions", "manager": "orders"})
    scope["access"][1]["who"].append("anonymous")
    listener = {"sasl": ["plain", "anonymous"], "allow_plain_without_tls": True, "users": str(folder / "users.yaml")}
    scope["listen"][0].update(listener)
    start_module_gateway(document.text)
    return Place(document.edge, api_port(document), f"http://127.0.0.1:{sink_ports(document)[0]}/")


@pytest.mark.row("CE-3.4-1", "CE-3.2-1")
def test_all_operations_at_a_reply_to(place: Place) -> None:
    status, made, reported = place.ask("Create", {"id": "a", "protocol": "HTTP", "sink": place.sink})
    assert (status, made["protocolsettings"]["method"], reported["id"]) == ("ok", "POST", "a")
    api = ApiClient(place.api)
    assert api.request("GET", f"{PATH}/a").json == made  # one service behind both bindings
    assert place.ask("Retrieve", id="a")[:2] == ("ok", made)
    assert place.ask("Query")[:2] == ("ok", [made])
    assert place.ask("Status", id="a")[1]["revision"] == reported["revision"]
    stale = reported["revision"] - 1
    changed = {"protocol": "HTTP", "sink": place.sink + "other"}
    assert place.ask("Update", changed, id="a", revision=stale)[0] == "changed"
    status, now, later = place.ask("Update", changed, id="a", revision=reported["revision"])
    assert (status, now["sink"]) == ("ok", place.sink + "other")
    assert later["revision"] > reported["revision"]
    assert place.ask("Resume", id="a")[0] == "ok"
    status, exported, _ = place.ask("Export", id="a")
    assert (status, exported) == ("ok", api.request("GET", f"{PATH}/a/export").json)
    assert place.ask("Export", user="ops", id="a", secrets=True)[0] == "forbidden"
    assert place.ask("Import", exported)[0] == "conflict"
    assert place.ask("Import", {**exported, "positions": 5})[0] == "invalid"
    exported["subscription"]["id"] = "b"
    assert place.ask("Import", exported)[:2] == ("ok", {**now, "id": "b"})
    assert place.ask("Export", id="b")[1]["positions"] == exported["positions"]
    assert place.ask("Delete", id="b")[0] == "ok"
    assert place.ask("Discover")[1]["operations"] == ["create", "retrieve", "query", "update", "delete"]
    assert place.ask("Delete", id="a")[:2] == ("ok", now)
    assert place.ask("Retrieve", id="a")[0] == "notfound"
    assert place.ask("Query")[:2] == ("nocontent", None)


@pytest.mark.row("CE-3.4-1")
def test_errors_are_those_of_every_binding(place: Place) -> None:
    api = ApiClient(place.api)
    wrong = {"protocol": "SMTP", "filterz": 1}
    status, document, _ = place.ask("Create", wrong)
    assert status == "invalid"
    assert document == api.request("POST", PATH, wrong).json
    assert place.ask("Create", b"{")[0] == "invalid"
    assert place.ask("Create", b"x" * 70_000)[0] == "invalid"
    assert place.ask("Retrieve")[0] == "notfound"
    assert place.ask("Explode")[0] == "unsupported"
    whole = {"id": "b", "protocol": "HTTP", "sink": place.sink}
    assert place.ask("Create", whole)[0] == "ok"
    assert place.ask("Create", whole)[0] == "conflict"
    assert place.ask("Retrieve", user="shipping", id="b")[0] == "notfound"
    assert place.ask("Create", {**whole, "id": "c"}, user="ops")[0] == "forbidden"
    assert place.ask("Query", user="ops", limit=1)[2] == {}
    assert place.ask("Delete", user="ops", id="b")[0] == "ok"


@pytest.mark.row("CE-3.4-1")
def test_a_check_changes_nothing(place: Place) -> None:
    whole = {"id": "d", "protocol": "HTTP", "sink": place.sink}
    status, shown, _ = place.ask("Create", whole, dry=True)
    assert (status, shown["protocolsettings"]) == ("ok", {"method": "POST"})
    assert place.ask("Retrieve", id="d")[0] == "notfound"
    assert place.ask("Create", {**whole, "sink": 5}, dry=True)[0] == "invalid"
    made = place.ask("Create", whole, dry=False)
    exported = place.ask("Export", id="d")[1]
    assert place.ask("Update", {**whole, "sink": place.sink + "x"}, id="d", dry=True)[0] == "ok"
    assert place.ask("Import", {"subscription": {**whole, "id": "e"}, "positions": {}}, dry=True)[0] == "ok"
    for wrong in ("1", 1, None):
        assert place.ask("Update", {**whole, "sink": place.sink + "x"}, id="d", dry=wrong)[0] == "invalid", wrong
    for subject in ("Delete", "Resume", "Test", "Retrieve"):
        status, document, _ = place.ask(subject, id="d", dry=True)
        assert (status, document["mistakes"][0]["field"]) == ("invalid", "dry")
    assert place.ask("Export", id="d")[1] == exported
    assert place.ask("Retrieve", id="d")[1:] == made[1:]
    assert place.ask("Delete", id="d", revision=True)[0] == "changed", "true is not revision 1"
    assert place.ask("Delete", id="d")[0] == "ok"


@pytest.mark.row("CE-3.4-1")
def test_over_a_link_pair(place: Place) -> None:
    with Peer(place.edge) as peer:
        peer.start()
        answers = {half: attach(peer, half, SERVICE) for half in (SENDER, RECEIVER)}
        peer.flow(1, link_credit=10, delivery_count=0)
        paired = Paired(Outbox.adopt(peer), Responses(peer, answers[RECEIVER].handle))
        body = json.dumps({"id": "p", "protocol": "HTTP", "sink": place.sink}).encode()
        delivery = paired.requests.post(message(body, message_id="m", reply_to="$me", subject="Create"))
        answer = sections(paired.responses.take())
        assert answer["properties"]["correlation_id"] == "m"
        assert answer["application_properties"]["status"] == "ok"
        assert json.loads(answer["data"])["id"] == "p"
        assert paired.requests.outcome(delivery).name == "accepted"
        paired.requests.post(message(None, message_id="n", reply_to="$me", subject="Delete", app={"id": "p"}))
        assert sections(paired.responses.take())["application_properties"]["status"] == "ok"


def test_nothing_is_done_where_no_answer_can_go(place: Place) -> None:
    body = json.dumps({"id": "lost", "protocol": "HTTP", "sink": place.sink}).encode()
    with Peer(place.edge) as peer:
        peer.start()
        outbox = Outbox(peer, SERVICE)
        for reply_to in (None, "nowhere/at/all"):
            reported = {} if reply_to is None else {"reply_to": reply_to}
            assert outbox.send(message(body, message_id="m", subject="Create", **reported)).name == "rejected"
        peer.attach("r", RECEIVER, handle=1, source=frames.source(SERVICE))
        assert peer.until("detach", closed=True).error["condition"] == "amqp:not-allowed"
    assert ApiClient(place.api, "ops").request("GET", f"{PATH}/lost").status == 404
