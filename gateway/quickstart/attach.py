"""How to attach one's own clients to the gateway that the quickstart leaves running."""

from __future__ import annotations

from typing import Final

from gateway.quickstart.place import Place
from gateway.quickstart.screen import Screen
from gateway.quickstart.server import Server

_PYTHON: Final = """\
Python (python-qpid-proton):
  from proton import Message
  from proton.utils import BlockingConnection
  BlockingConnection("{edge}").create_sender("events/orders").send(Message(body="tea"))
"""
_NODE: Final = """\
Node.js (rhea):
  const c = require("rhea").connect({{host: "{host}", port: {port}, username: "anonymous"}});
  c.on("message", e => console.log(e.message.body)); c.open_receiver("events/orders");
"""


def show(place: Place, server: Server, bootstrap: str, screen: Screen) -> None:
    """Addresses, URLs and lines to copy."""
    screen.heading("It goes on serving. Attach your own clients")
    screen.table(
        [
            ("AMQP, scope edge", f"amqp://{place.edge}", "events/orders, svc/<name>, chat/**, news/**"),
            ("AMQP, scope core", f"amqp://{place.core}", "services/<name>"),
            ("Kafka", bootstrap, "topic orders"),
            ("HTTP", f"http://{place.http}", "/readyz  /healthz  /metrics"),
            ("log", str(server.log), ""),
        ]
    )
    host, _, port = place.edge.rpartition(":")
    screen.gap()
    screen.code(_PYTHON.format(edge=place.edge))
    screen.gap()
    screen.code(_NODE.format(host=host, port=port))
    screen.gap()
    screen.say(f"The policy: {place.policy}")
    screen.say("Ctrl-C ends it.")
