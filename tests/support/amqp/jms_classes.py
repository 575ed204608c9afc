"""Qpid JMS's classes, loaded and verified once for all its clients of the suite (spark/spark_classes.py says how).

With them a client takes half the processor time. The program is one whose classes are archived: a request and its
response over TLS. `python -m tests.support.amqp.jms_classes FOLDER`, run by tests/support/project/parts.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.amqp.foreign import java
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, Process, free_port
from tests.support.servers.certs import Authority
from tests.support.spark.spark_classes import NAME

POLICY = """
gateway: {{http: off}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{port}", sasl: [anonymous], tls: {{cert: "{cert}", key: "{key}"}}}}]
    addresses: [{{match: "chat/*", direct: balanced}}]
    access: [{{may: [send, receive]}}]
"""


def main(archive: Path, place: Path) -> None:
    """Let one client respond, and archive the classes of the one that asks."""
    authority, port, gateways = Authority(place), free_port(), Gateways()
    server = authority.server()
    gateways(POLICY.format(port=port, cert=server.cert, key=server.key))
    where = ["--url", f"amqps://127.0.0.1:{port}", "--address", "chat/a", "--cafile", str(authority.ca)]
    writing = f"-XX:ArchiveClassesAtExit={archive / NAME}", "-Xlog:cds*=off"
    responder = Process("jms-respond", [*java("JmsClient"), "respond", *where])
    try:
        responder.wait_ready(lambda: "attached" in responder.text(), "the client to attach")
        requester = Process("jms-request", [*java("JmsClient", *writing), "request", *where])
        assert requester.wait(PATIENCE) == 0, requester.text()
        assert responder.wait(PATIENCE) == 0, responder.text()
    finally:
        gateways.close()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(sys.argv[1]), Path(folder))
