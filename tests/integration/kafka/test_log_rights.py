"""Rights of users at an event log: per node, partition and group, the same for every way to attach (KM-21).

The policy grants addresses to users, and partitions and groups to the links at an address.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.cli.commands import run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways

PASSWORD = "a-phrase-for-all-of-them"
PARTITION, GROUP = Symbol("event-streams-partition"), Symbol("event-streams-consumer-group")
EVENT = b"\x00\x53\x73\xc0%c\x03\x40\x40\xa1%c%s\x00\x53\x75\xa0\x01x"
"""A message with an open `to`: to fill in are the size of the properties, the size of the address, and the address."""
DENIED, NOT_ALLOWED, NOT_FOUND = "amqp:unauthorized-access", "amqp:not-allowed", "amqp:not-found"


class Place(NamedTuple):
    """The listener, which authenticates by user name."""

    port: int

    def peer(self, user: str) -> Peer:
        peer = Peer(self.port).sasl_plain(user, PASSWORD)
        peer.negotiate()
        return peer


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, tmp_path_factory: pytest.TempPathFactory) -> Place:
    users = tmp_path_factory.mktemp("users") / "users.yaml"
    for name in ("everything", "part", "reader", "looker"):
        add_user(users, name)
    document = Document()
    document.kafka("embedded", topics={"orders": 3})
    scope = document.scope()
    scope["listen"][0] |= {"sasl": ["plain"], "users": str(users), "allow_plain_without_tls": True}
    log: dict[str, Any] = {"kafka": "main", "topic": "orders"}
    scope["addresses"] = [
        {"match": "all", **log},
        {"match": "part", **log, "binding": "client", "partitions": [0, 1], "groups": ["g1"]},
    ]
    scope["access"] = [
        {"who": "everything", "may": ["send", "receive"], "on": "**"},
        {"who": "part", "may": ["send", "receive"], "on": "part"},
        {"who": "reader", "may": "receive", "on": "all"},
        {"who": "looker", "may": "info", "on": "all"},
    ]
    start_module_gateway(document.text)
    return Place(document.edge)


def add_user(users: Path, name: str) -> None:
    added = run("users", "add", str(users), name, "--password-stdin", text=f"{PASSWORD}\n")
    assert added.returncode == 0, added.stderr


def answer(place: Place, user: str, role: bool, address: str, **requested: Any) -> str | None:
    """Attach; return the condition of the refusal, or None if the link was granted as requested."""
    names = {"partition": PARTITION, "group": GROUP}
    properties = {names[name]: Symbol(value) if name == "partition" else value for name, value in requested.items()}
    end = "source" if role is RECEIVER else "target"
    with place.peer(user) as peer:
        peer.attach("link", role, properties=properties or None, **{end: frames.composite(end, address=address)})
        answered = peer.expect("attach")
        if answered.fields[end] is None:
            return str(peer.expect("detach", closed=True).error["condition"])
        granted = answered.properties or {}
        assert {key: granted.get(key) for key in properties} == properties
        return None


NODES = [
    ("everything", SENDER, "all", None),
    ("everything", RECEIVER, "all", None),
    ("everything", RECEIVER, "all/$info", None),
    ("part", SENDER, "all", DENIED),
    ("part", RECEIVER, "all", DENIED),
    ("part", RECEIVER, "all/$info", DENIED),
    ("part", RECEIVER, "part/$info", None),
    ("reader", SENDER, "all", DENIED),
    ("reader", RECEIVER, "all", None),
    ("reader", RECEIVER, "all/$info", None),
    ("reader", RECEIVER, "part", DENIED),
    ("looker", SENDER, "all", DENIED),
    ("looker", RECEIVER, "all", DENIED),
    ("looker", RECEIVER, "all/$info", None),
    ("looker", RECEIVER, "part/$info", DENIED),
]
PARTS: list[tuple[str, bool, str, dict[str, str], str | None]] = [
    ("part", SENDER, "part", {"partition": "1"}, None),
    ("part", SENDER, "part", {"partition": "2"}, NOT_ALLOWED),
    ("part", SENDER, "part", {"partition": "3"}, NOT_FOUND),
    ("part", SENDER, "part", {}, NOT_ALLOWED),
    ("part", RECEIVER, "part", {"partition": "1"}, None),
    ("part", RECEIVER, "part", {"partition": "2"}, NOT_ALLOWED),
    ("part", RECEIVER, "part", {"partition": "3"}, NOT_FOUND),
    ("part", RECEIVER, "part", {}, NOT_ALLOWED),
    ("part", RECEIVER, "part", {"group": "g1", "partition": "1"}, None),
    ("part", RECEIVER, "part", {"group": "g1", "partition": "2"}, NOT_ALLOWED),
    ("part", RECEIVER, "part", {"group": "g2", "partition": "1"}, NOT_FOUND),
    ("everything", SENDER, "all", {"partition": "2"}, None),
    ("everything", RECEIVER, "all", {"group": "g2", "partition": "2"}, None),
]


@pytest.mark.parametrize(("user", "role", "address", "condition"), NODES)
def test_rights_per_node(place: Place, user: str, role: bool, address: str, condition: str | None) -> None:
    assert answer(place, user, role, address) == condition


@pytest.mark.row("ES-4-10")
@pytest.mark.parametrize(("user", "role", "address", "requested", "condition"), PARTS)
def test_rights_per_partition_and_group(
    place: Place, user: str, role: bool, address: str, requested: dict[str, str], condition: str | None
) -> None:
    assert answer(place, user, role, address, **requested) == condition


@pytest.mark.row("AT-2.2.2-2")
@pytest.mark.parametrize(
    ("user", "address", "requested"),
    [("part", "all", {}), ("reader", "all", {}), ("looker", "all", {}), ("part", "part", {"partition": "2"})],
)
def test_a_denial_is_the_same_over_the_anonymous_terminus(
    place: Place, user: str, address: str, requested: dict[str, str]
) -> None:
    """The same condition and text; the next event's offset shows that the refused message is not in the log."""
    properties = {PARTITION: Symbol(requested["partition"])} if requested else None
    with place.peer(user) as peer, place.peer("everything") as owner:
        owner.attach_receiver("all", properties={PARTITION: Symbol("2")})
        owner.flow(0, link_credit=1)
        owner.attach_sender("all", 1, properties={PARTITION: Symbol("2")})
        peer.attach("direct", SENDER, 0, target=frames.target(address), properties=properties)
        peer.expect("attach", target=None)
        direct = peer.expect("detach", closed=True).error
        peer.detach(0)
        peer.attach("relay", SENDER, 1, properties=properties)
        peer.until("flow")
        to = address.encode()
        peer.transfer(EVENT % (len(to) + 5, len(to), to), 1)
        reported = peer.until("disposition", first=0, settled=True).state["error"]
        assert reported["condition"] == direct["condition"] == (NOT_ALLOWED if requested else DENIED)
        assert reported["description"] == direct["description"]
        owner.transfer(b"\x00\x53\x75\xa0\x05later", 1)
        assert owner.until("transfer").payload.endswith(b"later")
