"""What logs, metrics and remote containers see of what peers and this process are called (DESIGN: one redaction)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.support.amqp import frames
from tests.support.amqp.peer import RECEIVER, SENDER, Listener
from tests.support.gateway.crossing import connected
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways


@pytest.fixture
def fars(start_gateway: Gateways) -> Iterator[Callable[[str], Far]]:
    with Listener() as listener:
        yield lambda more: Far(start_gateway, listener, more)


def test_the_address_of_a_temporary_node_is_not_logged(fars: Callable[[str], Far]) -> None:
    """Whoever knows it may use it."""
    far = fars("")
    client = connected(far.edge)
    made = client.attach_receiver(None, source=frames.source(None, dynamic=True)).source["address"]
    assert made.startswith("$temp/")
    client.attach(f"to-{made}", SENDER, 2, target=frames.target(made)).until("attach")
    client.attach("not-there", SENDER, 3, target=frames.target(f"{made}-not")).until("detach")
    far.gateway.wait_log("link refused", link="not-there", address="$temp/…")
    far.gateway.wait_log("link attached", link="to-$temp/…", address="$temp/…")
    assert made.removeprefix("$temp/") not in far.gateway.process.text()


@pytest.mark.row("RA-1-1")
def test_links_to_a_container_are_numbered(fars: Callable[[str], Far]) -> None:
    """Neither where something is in memory nor what a peer of another scope calls its link."""
    far = fars(", replies: {address: answers}, pull: [{from: queue, to: echo}]").accept()
    peer = connected(far.edge)
    for handle, role in enumerate((SENDER, RECEIVER)):
        terminus = {"source": frames.source("far/x")} if role is RECEIVER else {"target": frames.target("far/x")}
        peer.attach(f"secret-{handle}", role, handle, **terminus)
    names = []
    for _ in range(3):
        attach = far.attach()
        far.agree(attach)
        names.append(attach.name)
    names.append(far.attach().name)
    assert sorted(re.sub(r"\d+-[0-9a-f]+$", "", name) for name in names) == ["link-", "link-", "pull-", "responses-"]
    assert all(int(name.split("-")[1]) < 100 for name in names)


def test_conditions_that_peers_make_up_are_one_label(fars: Callable[[str], Far]) -> None:
    far = fars("").accept()
    peer = connected(far.core)
    for number in range(3):
        peer.attach(f"{number}", RECEIVER, number, source=frames.source("far/x"))
        attach = far.attach()
        handle = far.agree(attach, source=None)
        far.peer.detach(handle, error=frames.error(f"vendor:{number}", "no"))
        assert peer.until("detach").error["condition"] == f"vendor:{number}"
    label = 'scopegate_links_refused_total{condition="other",scope="core"}'
    far.gateway.wait_metric(label, lambda value: value == 3)
    assert not any("vendor" in name for name in far.gateway.metrics())
