"""Instructions for attaching other clients to the gateway that the quickstart leaves running."""

from __future__ import annotations

from typing import Final

from gateway.quickstart.console import address
from gateway.quickstart.ports import Ports
from gateway.quickstart.server import Server
from gateway.quickstart.terminal_output import TerminalOutput

_PYTHON: Final = """\
# Python: one event (pip install python-qpid-proton)
from proton import Message
from proton.utils import BlockingConnection
connection = BlockingConnection("{edge}")
sender = connection.create_sender("events/orders")
sender.send(Message(body="tea"))
"""
_NODE: Final = """\
// Node.js: what comes in from now on (npm install rhea)
const to = {{host: "{host}", port: {port}, username: "me"}};
const c = require("rhea").connect(to);
c.on("message", ({{message}}) => console.log(message.body));
c.open_receiver("events/orders");
"""


def show(place: Ports, server: Server, bootstrap: str, screen: TerminalOutput) -> None:
    """Addresses, URLs and lines to copy."""
    screen.heading("It goes on serving: attach your own clients")
    screen.table(
        [
            ("AMQP, scope edge", f"amqp://{place.edge}", "events/orders  svc/...  chat/..."),
            ("AMQP, scope core", f"amqp://{place.core}", "services/..."),
            ("Kafka", bootstrap, "topic orders"),
            ("HTTP", f"http://{place.http}", "/readyz  /healthz  /metrics"),
        ]
    )
    if (console := address(place)) is not None:
        screen.gap()
        screen.say("Its console, for a browser on this machine:")
        screen.code(console)
    host, _, port = place.edge.rpartition(":")
    for example in (_PYTHON.format(edge=place.edge), _NODE.format(host=host, port=port)):
        screen.gap()
        screen.code(example)
    screen.gap()
    screen.say("Its policy and its log:")
    screen.code(f"{place.policy}\n{server.log}")
    screen.gap()
    screen.say("Ctrl-C ends it.")
