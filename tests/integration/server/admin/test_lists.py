"""Lists of the admin API: what the policy has, what is known of its backends, and what was refused."""

from __future__ import annotations

import datetime
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.support.amqp import frames
from tests.support.amqp.members import requested_properties
from tests.support.amqp.peer import Peer
from tests.support.cli.admin import Admin
from tests.support.cli.commands import run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import free_port, wait_until
from tests.support.servers.certs import Authority

SECRET = "5ec2e7" * 12


@pytest.fixture(scope="module")
def admin(start_module_gateway: Gateways, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Admin:
    """A gateway with everything that can be listed."""
    users = tmp_path_factory.mktemp("users") / "users.yaml"
    assert run("users", "add", str(users), "alice", "--password-stdin", text="wonder-land\n").returncode == 0
    server = authority.server(file="admin-lists")
    document = Document()
    document.relay()
    document.kafka("embedded", topics={"orders": 2})
    document.add_listener(tls={"cert": str(server.cert), "key": str(server.key)}, sasl=["plain"], users=str(users))
    document.add_listener(sasl=["plain"], users=str(users), allow_plain_without_tls=True)
    document.connector(free_port(), name="far")
    document.scope()["bridge"] = [{"name": "copy", "from": "events/orders", "to": "chat/copy"}]
    document.scope()["access"] = [{"who": "*", "may": ["send", "receive"], "on": ["chat/**", "events/orders"]}]
    return Admin(start_module_gateway, document, env={"SCOPEGATE_TEST_KEY": SECRET}, ready=False)


def test_backends_and_rules_are_listed(admin: Admin) -> None:
    wait_until(lambda: admin.listed("/clusters")[0]["ready"], "the cluster")
    (cluster,) = admin.listed("/clusters")
    assert (cluster["id"], cluster["ready"]) == ("main", True)
    (bridge,) = admin.listed("/bridges")
    assert (bridge["id"], bridge["events"]["moved"]) == ("edge/copy", 0)
    (connector,) = admin.listed("/connectors")
    assert (connector["id"], connector["up"]) == ("edge/far", False)
    matches = {rule["match"]: (rule["kind"], rule["to"]) for rule in admin.listed("/addresses")}
    assert matches["chat/**"] == ("direct", "balanced")
    assert matches["svc/{name}"] == ("relay", "core")
    assert admin.listed("/addresses?limit=1&after=1") == admin.listed("/addresses")[1:2]


def test_topics_have_the_ends_of_their_partitions(admin: Admin) -> None:
    topics = wait_until(lambda: admin.listed("/topics"), "the topic to be known")
    assert topics == [{"id": "main/orders", "cluster": "main", "topic": "orders", "partitions": 2}]
    url = f"amqp://127.0.0.1:{admin.document.edge}"
    assert run("send", url, "events/orders", "--body", "one").returncode == 0
    status, found = admin.ask("GET", "/topics/main/orders")
    assert (status, sum(each["end"] for each in found["partitions"])) == (200, 1)
    assert admin.ask("GET", "/topics/main/none")[0] == 404


def test_groups_are_listed_and_shown(admin: Admin) -> None:
    names = ("--scope", "edge", "--address", "events/orders", "--group", "billing")
    with Peer(admin.document.edge) as member:
        member.start()
        member.attach_receiver("events/orders", properties=requested_properties("billing"))
        wait_until(lambda: [each["group"] for each in admin.listed("/groups")] == ["billing"], "the group")
        assert "orders  billing" in admin.run("groups").stdout
    assert admin.run("groups", "--scope", "edge").returncode == 2
    shown = admin.run("groups", *names)
    assert shown.returncode == 0, shown.stderr
    assert "waiting: 0" in shown.stdout
    nowhere = admin.run("groups", *names[:3], "chat/x", *names[4:])
    assert (nowhere.returncode, "is not an event log" in nowhere.stderr) == (1, True)
    assert admin.run("groups", *names, "--rebalance").returncode == 0
    assert admin.gateway.wait_log("admin action", action="rebalance group")["group"] == "billing"


def test_the_policy_its_keys_and_certificates_are_shown_without_secrets(admin: Admin) -> None:
    status, policy = admin.ask("GET", "/policy")
    assert (status, policy["file"]) == (200, str(admin.gateway.policy))
    assert policy["digest"] == admin.ask("GET", "/status")[1]["policy"]["digest"]
    assert policy["scopes"]["edge"]["connectors"] == ["far"]
    assert admin.listed("/keys") == [{"id": "one", "active": True, "age_days": None, "until": None}]
    (certificate,) = admin.listed("/certificates")
    until = datetime.datetime.fromisoformat(certificate["until"])
    assert certificate["days"] == (until - datetime.datetime.now(datetime.UTC)).days
    assert (certificate["use"], certificate["valid"]) == ("cert", True)
    paths = ("status", "policy", "keys", "certificates", "addresses", "clusters", "connectors", "bridges")
    assert not [path for path in paths if SECRET in str(admin.ask("GET", f"/{path}"))]


def test_refusals_name_the_line_of_the_policy(admin: Admin) -> None:
    before = admin.ask("GET", "/refusals")[1]["total"]
    line = admin.document.line_of(r"events/\{topic\}")
    with Peer(admin.document.edge) as peer:
        peer.start()
        for handle, address in enumerate(("events/secret", "nowhere")):
            peer.attach(f"link-{handle}", False, handle, target=frames.target(address))
            peer.until("detach", closed=True)
    plain = admin.document.scope()["listen"][2]["bind"]
    failed = run("send", f"amqp://mallory@{plain}", "chat/x", "--allow-plain-without-tls", "--body", "x",
                 env={"SCOPEGATE_PASSWORD": "no-rabbit"})  # fmt: skip
    assert failed.returncode == 1
    login, nowhere, secret = admin.listed("/refusals?limit=3")
    assert admin.ask("GET", "/refusals")[1]["total"] == before + 3
    assert (login["kind"], login["user"]) == ("login", "mallory")
    assert (nowhere["condition"], nowhere["policy"]) == ("amqp:not-found", "no address rule matches")
    assert secret["condition"] == "amqp:unauthorized-access"
    assert secret["policy"].startswith(f"{admin.gateway.policy}:")
    assert abs(int(secret["policy"].partition(";")[0].rpartition(":")[2]) - line) <= 1
    assert secret["policy"].endswith("; no access entry allows send")
    assert "no-rabbit" not in str(login)


RESERVED = ("$replies.edge", "$replies.edge/token", "$replies.core", "$replies.edgex", "$temp/name", "$temp")


def test_explain_answers_as_an_attach_at_reserved_addresses(admin: Admin) -> None:
    with Peer(admin.document.edge) as peer:
        peer.start()
        for handle, (address, receives) in enumerate(product(RESERVED, (False, True))):
            query = {"scope": "edge", "user": "anonymous", "address": address}
            said = admin.ask("GET", f"/explain?{urlencode({**query, 'action': 'receive' if receives else 'send'})}")[1]
            terminus = {"source": frames.source(address)} if receives else {"target": frames.target(address)}
            attach = peer.attach(f"reserved-{handle}", receives, handle, **terminus).until("attach")
            attached = (attach.source if receives else attach.target) is not None
            error = None if attached else peer.until("detach", closed=True).error["condition"]
            assert (said["allowed"], said["condition"]) == (attached, error), (address, receives)
    refused = {each["address"]: each["policy"] for each in admin.listed("/refusals?limit=20")}
    assert refused["$replies.edge"] == "the response address of this scope; no address rule decides"
    assert refused["$temp/…"] == "a temporary node; no address rule decides"
    assert refused["$replies.core"] == "no address rule matches"


def test_refusals_are_bounded(admin: Admin) -> None:
    with Peer(admin.document.edge) as peer:
        peer.start()
        for number in range(210):
            peer.attach(f"flood-{number}", False, 0, target=frames.target("nowhere"))
            peer.until("detach", closed=True)
            peer.detach(0)
    assert admin.ask("GET", "/refusals?limit=1000")[1]["total"] == 200


def test_files_without_certificates_are_told(start_gateway: Gateways, authority: Authority, tmp_path: Path) -> None:
    server = authority.server(file="admin-gone")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(Path(server.cert).read_bytes())
    key.write_bytes(Path(server.key).read_bytes())
    document = Document()
    document.add_listener(tls={"cert": str(cert), "key": str(key)})
    admin = Admin(start_gateway, document)
    cert.unlink()
    (found,) = admin.listed("/certificates")
    assert (found["file"], found["error"]) == (str(cert), "No such file or directory")
