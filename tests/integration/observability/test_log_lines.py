"""What the log says when connections and links come and go: who, how protected, how long, how much."""

from __future__ import annotations

import socket
import ssl
import struct

from tests.support.amqp.links import passes, receiving
from tests.support.amqp.peer import Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until
from tests.support.servers.certs import Authority


def test_an_open_names_mechanism_tls_and_product_and_an_end_says_how_long_and_how_much(
    start_gateway: Gateways, authority: Authority
) -> None:
    document = Document()
    document.scope()["addresses"] = [{"match": "chat/**", "direct": "balanced"}]
    server = authority.server(file="log-lines")
    secured = document.add_listener(tls={"cert": str(server.cert), "key": str(server.key)})
    gateway = start_gateway(document.text)
    context = ssl.create_default_context(cafile=str(authority.ca))
    sender = Peer(secured, tls=context)
    sender.start(properties={"product": "proton\x07", "version": "9.9;password=s3cret", "secret-of-the-app": "s3cret"})
    opened = gateway.wait_log("connection open", product="proton? 9.9;password=…")
    assert (opened["mechanism"], opened["tls"], opened["user"]) == ("ANONYMOUS", "TLSv1.3", "anonymous")
    receiver = receiving(document.edge, "chat/a", credit=10)
    sender.attach_sender("chat/a")
    sender.until("flow", handle=0)
    for number in range(3):
        passes(sender, receiver, number)
    sender.detach(0, closed=True)
    ended = gateway.wait_log("link ended", direction="in", address="chat/a")
    assert ended["counts"] == {"transfers": 3, "accepted": 3}
    assert 0 < ended["seconds"] < 600
    sender.close()
    closed = gateway.wait_log("connection closed", connection=opened["connection"])
    assert closed["bytes_in"] > 300 > 0 < closed["bytes_out"]
    assert closed["seconds"] >= ended["seconds"]
    assert "s3cret" not in gateway.process.text()


def test_a_probe_of_the_port_leaves_no_line(start_gateway: Gateways, authority: Authority) -> None:
    """Load balancers connect and close every few seconds."""
    document = Document()
    server = authority.server(file="probed")
    secured = document.add_listener(tls={"cert": str(server.cert), "key": str(server.key)})
    gateway = start_gateway(document.text)
    gateway.wait_log("serving")
    before = len(gateway.log())
    for _ in range(3):
        socket.create_connection(("127.0.0.1", secured)).close()
    with socket.create_connection(("127.0.0.1", secured)) as reset:  # closed by a reset, not a FIN
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for _ in range(3):
        socket.create_connection(("127.0.0.1", document.edge)).close()
    accepted = 'scopegate_connections_closed_total{scope="edge"}'
    wait_until(lambda: gateway.metrics().get(accepted, 0) >= 3, "the probes to be counted")
    context = ssl.create_default_context(cafile=str(authority.ca))
    with Peer(secured, tls=context) as peer:  # its end would be a line
        peer.start()  # the probes before it have been seen
        after = gateway.log()[before:]
    assert [line["event"] for line in after if line["event"] != "connection open"] == []
    assert gateway.metrics()["scopegate_tls_failures_total"] == 0


def test_a_reload_names_the_parts_that_it_changed(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    gateway.reload()
    assert gateway.wait_log("policy reloaded")["parts"] == []
    document.scope()["access"][0]["may"] = ["send"]
    document.data["gateway"]["drain"] = "1s"
    before = len(gateway.log())
    gateway.hup(document.text)
    changed = gateway.wait_log("policy reloaded", after=before, parts=["gateway.drain", "scopes.edge.access"])
    assert changed["digest"]
