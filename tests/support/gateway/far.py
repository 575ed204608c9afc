"""A scripted container at the far end of a connector, and the gateway that connects to it."""

from __future__ import annotations

import itertools
from typing import Any

from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.peer import RECEIVER, Listener
from tests.support.gateway.crossing import SUPPORTED
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports, wait_until

POLICY = """
gateway: {{id: gw-replies, http: "127.0.0.1:{http}", log: json, drain: 1s, state: "{state}", lease: 5m}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "far/**", relay: core}}
      - {{match: "one-way/**", relay: core, address: "far/x", replies: none}}
      - {{match: "q/**", direct: balanced}}
      - {{match: asked, service: echo}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    connect:
      - {{name: far, to: "amqp://127.0.0.1:{far}", backoff: {{min: 20ms, max: 50ms}}{more}}}
    addresses:
      - {{match: "far/**", relay: far}}
      - {{match: "renamed/{{name}}", relay: far, address: "far/{{name}}"}}
      - {{match: "in/{{name}}", relay: edge, address: "q/{{name}}"}}
      - {{match: "here/**", direct: balanced}}
      - {{match: echo, service: echo}}
      - {{match: asked, relay: edge}}
    bridge: [{bridge}]
    access: [{{who: "*", may: [send, receive], on: {open}}}]
"""
ENV = {"SCOPEGATE_TEST_KEY": "k" * 43}


class Far:
    """The scripted container, with one session, and the gateway that connects to it."""

    def __init__(
        self,
        gateways: Gateways,
        listener: Listener,
        more: str,
        bridge: str = "",
        state: str = "memory",
        *,
        open: str = '"**"',
    ) -> None:
        """`open` is where everybody may send and receive in the scope of the connector."""
        self.edge, self.core, http = ports(3)
        places = {"edge": self.edge, "core": self.core, "http": http, "far": listener.port}
        policy = POLICY.format(**places, more=more, bridge=bridge, state=state, open=open)
        self.gateway: Gateway = gateways(policy, env=ENV, ready=False)
        self.listener = listener
        self.handles = itertools.count()

    def accept(self, *offered: str, desired: tuple[str, ...] = ()) -> Far:
        """Play the container's part of the opening, and wait until the gateway takes it for open."""
        self.begin_open(*offered, desired=desired)
        self.peer.expect("begin")
        self.peer.begin(remote_channel=0)
        wait_until(self.gateway.is_ready, "the connector to be open")
        return self

    def begin_open(self, *offered: str, desired: tuple[str, ...] = ()) -> None:
        """Play the container's part of the opening."""
        self.offered = offered
        far = self.peer = self.listener.accept()
        far.expect_header(frames.SASL_HEADER).send_raw(frames.SASL_HEADER)
        far.send("sasl_mechanisms", sasl_server_mechanisms=["ANONYMOUS"]).expect("sasl_init")
        far.send("sasl_outcome", code=0).expect_header().send_raw(frames.AMQP_HEADER)
        self.opened = far.expect("open")
        said = {"offered_capabilities": list(offered), "desired_capabilities": list(desired)}
        far.open(container_id="far", **{name: value for name, value in said.items() if value})

    def attach(self) -> Frame:
        """Return the gateway's next attach."""
        return self.peer.until("attach")

    def agree(self, attach: Frame, **other: Any) -> int:
        """Accept a link of the gateway's and return its handle here."""
        handle = next(self.handles)
        termini = {name: frames.composite(name, **attach.fields[name]) for name in ("source", "target")}
        self.peer.attach(attach.name, not attach.role, handle, **{**termini, **other})
        return handle

    def take(self, attach: Frame, capable: bool = False, credit: int = 200) -> int:
        """Accept a link on which the gateway sends, with credit, which it knows of from here on."""
        address = attach.target["address"]
        capabilities = [SUPPORTED] if capable else None
        handle = self.agree(attach, target=frames.target(address, capabilities=capabilities))
        self.peer.flow(handle, link_credit=credit, delivery_count=0).heard()
        return handle

    def respond_at(self, address: str) -> int:
        """Make the dynamic node for responses; return the handle to send them on."""
        attach = self.attach()
        assert attach.role is RECEIVER
        assert attach.source["dynamic"] is True
        assert attach.source["address"] is None
        return self.agree(attach, source=frames.source(address, dynamic=True))

    def refuse(self, attach: Frame) -> None:
        """Refuse a link of the gateway's."""
        end = "source" if attach.role is RECEIVER else "target"
        handle = self.agree(attach, **{end: None})
        self.peer.detach(handle, error=frames.error("amqp:not-implemented", "no"))

    def transfer(self, attach: Frame) -> bytes:
        """Return the next message on a link."""
        return bytes(self.peer.until("transfer", handle=attach.handle).payload)
