"""A reload that takes away the right to a link whose attach still waits for a container, or for a partition."""

from __future__ import annotations

from tests.support.amqp import frames
from tests.support.amqp.links import connected
from tests.support.amqp.members import Member, requested_properties
from tests.support.amqp.peer import RECEIVER, SENDER, Listener, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.groups import group_state
from tests.support.gateway.process import wait_until

NOTHING = [{"who": "*", "may": ["info"], "on": "**"}]
GONE = "amqp:unauthorized-access"


def answered(far: Peer) -> None:
    """Play the container's part of the opening."""
    far.expect_header(frames.SASL_HEADER).send_raw(frames.SASL_HEADER)
    far.send("sasl_mechanisms", sasl_server_mechanisms=["ANONYMOUS"]).expect("sasl_init")
    far.send("sasl_outcome", code=0).expect_header().send_raw(frames.AMQP_HEADER)
    far.expect("open")
    far.open().expect("begin")
    far.begin(remote_channel=0)


def test_an_attach_that_waits_for_a_container(start_gateway: Gateways) -> None:
    with Listener() as listener:
        document = Document()
        document.connector(listener.port)
        gateway = start_gateway(document.text, ready=False)
        far = listener.accept()
        answered(far)
        wait_until(gateway.is_ready, "the connector to be open")
        with far, connected(document.edge) as client:
            client.attach("waits", SENDER, target=frames.target("queues/x"))
            client.attach("waits too", RECEIVER, handle=1, source=frames.source("queues/y"))
            asked = [far.until("attach") for _ in range(2)]
            document.scope()["access"] = NOTHING
            gateway.reload(document.text)
            for name, missing in (("waits", {"target": None}), ("waits too", {"source": None})):
                refused = client.pick("attach", name=name, **missing)  # either may be refused first
                client.pick("detach", handle=refused.handle, error=GONE)
            for each in asked:  # the container answers what is wanted no more
                termini = {"source": frames.source("there"), "target": frames.target("there")}
                far.attach(each.name, not each.role, each.handle, **termini)
            assert {far.until("detach").handle for _ in asked} == {each.handle for each in asked}
            client.detach(0).detach(1).begin(1).expect("begin", remote_channel=1)
    assert gateway.metrics().get("scopegate_task_failures_total", 0) == 0


def test_an_attach_that_waits_for_a_partition_of_a_group(start_gateway: Gateways) -> None:
    document = Document()
    document.kafka("embedded", topics={"log": 1})
    document.scope()["addresses"][-1].update(surplus="pend", pending_timeout="10m")
    gateway = start_gateway(document.text)
    owner = Member(document.edge, "events/log", requested_properties("g"))
    owner.attached()
    waits = Member(document.edge, "events/log", requested_properties("g"))
    wait_until(lambda: group_state(gateway, "events/log", "g")["waiting"] == 1, "the second link to wait")
    document.scope()["access"] = NOTHING
    gateway.reload(document.text)
    owner.ended(GONE)
    waits.refused(GONE)
    waits.quiet()
    assert gateway.metrics().get("scopegate_task_failures_total", 0) == 0
