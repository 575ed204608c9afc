"""A client certificate that expires while its connection is open (docs/policy.md, Tls of a listener)."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

from tests.support.amqp.links import passes
from tests.support.amqp.peer import Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until
from tests.support.servers.certs import Authority, Pair


def client(authority: Authority, pair: Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.ca)
    context.load_cert_chain(pair.cert, pair.key)
    return context


def opened(port: int, context: ssl.SSLContext) -> Peer | None:
    """A connection with a session; None: the certificate has been refused."""
    try:
        peer = Peer(port, tls=context).sasl("EXTERNAL", b"")
        peer.negotiate()
    except (AssertionError, OSError):
        return None
    return peer


def test_a_certificate_that_expires_keeps_its_connection(start_gateway: Gateways, tmp_path: Path) -> None:
    authority, document = Authority(tmp_path), Document()
    cert, key = authority.server()
    tls = {"cert": str(cert), "key": str(key), "client_ca": str(authority.ca), "require_client_cert": True}
    document.scope()["listen"][0] |= {"sasl": ["external"], "tls": tls}
    gateway = start_gateway(document.text)
    for seconds in (3, 12, 50):  # a slow machine needs more than a few seconds for two connections
        pair, end = authority.passing("app", seconds)
        context = client(authority, pair)
        one, two = opened(document.edge, context), opened(document.edge, context)
        if one is not None and two is not None:
            break
    assert one is not None
    assert two is not None
    wait_until(lambda: dt.datetime.now(dt.UTC) > end + dt.timedelta(seconds=1), "the certificate to expire")
    assert opened(document.edge, context) is None
    one.attach_receiver("chat/x")
    one.flow(0, link_credit=10)
    two.attach_sender("chat/x")
    two.until("flow", handle=0)
    passes(two, one)
    gateway.reload(document.text)
    passes(two, one, 1)
