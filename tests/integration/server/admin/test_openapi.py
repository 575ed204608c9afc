"""Every answer of the admin API has the shape that its description says: all keys, and no others."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from gateway.admin.openapi.operations import OPERATIONS, Operation
from gateway.admin.openapi.shapes import RefusedRequest
from tests.support.amqp import frames
from tests.support.amqp.peer import Peer
from tests.support.cli.admin_port import DASH, OPS, AdminPort
from tests.support.cli.commands import run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import free_port, wait_until
from tests.support.servers.certs import Authority

QUERIES = {
    "/explain": "?scope=edge&user=ann&address=chat/x&action=send",
    "/links": "?limit=1&direction=out",
}
GROUP = {"event-streams-consumer-group": "billing"}


@pytest.fixture(scope="module")
def admin(start_module_gateway: Gateways, authority: Authority) -> Iterator[AdminPort]:
    """A gateway that has something in every list, of which two clients are connected."""
    document = Document()
    document.scope()["listen"][0]["limits"] = {"idle_timeout": "0s"}  # the clients say nothing more
    document.relay()
    document.kafka("embedded", topics={"orders": 2})
    document.connector(free_port(), name="far")
    document.scope()["bridge"] = [{"name": "copy", "from": "events/orders", "to": "chat/copy"}]
    key = {"SCOPEGATE_TEST_KEY": "5ec2e7" * 12}
    admin = AdminPort(start_module_gateway, document, authority=authority, env=key, ready=False)
    wait_until(lambda: admin.listed("/clusters")[0]["ready"], "the cluster")
    assert run("send", f"amqp://127.0.0.1:{document.edge}", "events/orders", "--body", "one").returncode == 0
    with Peer(document.edge) as peer, Peer(document.edge) as starving:
        peer.start()
        peer.attach_receiver("events/orders", 0, properties=GROUP)
        peer.attach("refused", False, 1, target=frames.target("nowhere"))
        peer.until("detach", closed=True)
        starving.start()
        starving.attach_sender("chat/nobody")
        wait_until(lambda: admin.listed("/links?starved=true"), "a link that waits")
        assert admin.ask("POST", "/check")[0] == 200
        wait_until(lambda: [each["group"] for each in admin.listed("/groups")] == ["billing"], "the group")
        yield admin


def fits(operation: Operation, status: int, document: object) -> None:
    """Check an answer against its description."""
    text = json.dumps(document)
    if status == 409:
        assert operation.refused is not None
        operation.refused.model_validate_json(text)
    elif status >= 400:
        RefusedRequest.model_validate_json(text)
    elif operation.paged is not None and isinstance(document, dict) and "items" in document:
        assert document.keys() == {"items", "next", "total"}
        assert document["items"], "an example"
        for item in document["items"]:
            operation.paged.model_validate_json(json.dumps(item))
    else:
        assert status == operation.status
        assert issubclass(operation.answer or BaseModel, BaseModel)
        assert operation.answer is not None
        operation.answer.model_validate_json(text)


def path_of(admin: AdminPort, path: str) -> str:
    """A path with the ids of something that is there."""
    if "{cluster}" in path:
        return "/topics/main/orders"
    if "{id}" in path:
        items = admin.listed(path.partition("/{")[0])
        return path.replace("{id}", items[0]["id"])
    return path


@pytest.mark.parametrize("path", [path for method, path in OPERATIONS if method == "GET" and path != "/events"])
def test_what_is_read_has_its_shape(admin: AdminPort, path: str) -> None:
    operation = OPERATIONS["GET", path]
    status, document, _ = admin.at_port("GET", path_of(admin, path) + QUERIES.get(path, ""), token=DASH)
    assert status == 200, document
    if path == "/openapi.json":
        assert document["paths"].keys() == {each for _, each in OPERATIONS}
    else:
        fits(operation, status, document)
    for wrong in ("?no-such=1", "/no-such"):
        status, document, _ = admin.at_port("GET", path_of(admin, path) + wrong, token=DASH)
        assert status in (400, 404)
        fits(operation, status, document)


def test_what_is_changed_has_its_shape(admin: AdminPort) -> None:
    def changed(method: str, path: str, target: str | None = None, **how: object) -> None:
        status, document, _ = admin.at_port(method, target or path, **{"token": OPS, **how})  # type: ignore[arg-type]
        assert status < 400 or status == 409, document
        fits(OPERATIONS[method, path], status, document)

    changed("POST", "/check")
    changed("POST", "/reload")
    changed("POST", "/session", body={"token": OPS}, token=None)
    changed("DELETE", "/session")
    with Peer(admin.document.edge) as peer:
        peer.start()
        peer.attach_receiver("chat/ending")
        (link,) = admin.listed("/links?address=chat/ending")
        changed("DELETE", "/links/{id}", f"/links/{link['id']}")
        changed("DELETE", "/connections/{id}", f"/connections/{link['connection']}")
        with contextlib.suppress(AssertionError):
            peer.close()
    changed("POST", "/groups/rebalance", "/groups/rebalance?id=main/orders/billing")
    written = admin.gateway.policy.read_text()
    admin.gateway.policy.write_text("scopes: {")
    try:
        changed("POST", "/reload")
        changed("POST", "/check")
    finally:
        admin.gateway.policy.write_text(written)


def test_a_group_of_any_gateway_has_its_shape(admin: AdminPort) -> None:
    status, document, _ = admin.at_port("GET", "/groups?scope=edge&address=events/orders&group=other", token=DASH)
    fits(OPERATIONS["GET", "/groups"], status, document)
