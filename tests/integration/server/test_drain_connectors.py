"""The orderly end and containers behind connectors: none is asked for more, and none is connected again at the end."""

from __future__ import annotations

import contextlib
import signal

from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.links import connected, receiving, sending
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Listener, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import wait_until


def ask_to_end(gateway: Gateway) -> None:
    """Send the signal, and wait until the gateway says that it drains."""
    gateway.process.send_signal(signal.SIGTERM)
    gateway.wait_log("draining")


def opens(gateway: Gateway) -> int:
    """How many connections clients have opened there."""
    return sum(line.get("event") == "connection open" for line in gateway.log())


def test_no_container_is_connected_again_while_a_silent_client_is_waited_for(start_gateway: Gateways) -> None:
    there, here = Document(), Document(drain="1s")
    far = start_gateway(there.text)
    here.connector(there.edge)
    gateway = start_gateway(here.text)
    wait_until(lambda: opens(far) == 1, "the connection to the container")
    with connected(here.edge):  # does not answer the close
        ask_to_end(gateway)
        assert gateway.process.wait() == 0
    assert opens(far) == 1
    assert [line for line in gateway.log() if line["level"] not in {"info", "debug"}] == []


def taken(far: Peer) -> Frame:
    """Accept the gateway's link from a queue, as the container."""
    attach = far.until("attach")
    termini = {name: frames.composite(name, **attach.fields[name]) for name in ("source", "target")}
    far.attach(attach.name, not attach.role, 0, initial_delivery_count=0, **termini)
    return attach


def test_a_container_that_comes_back_during_the_drain_is_asked_for_nothing(start_gateway: Gateways) -> None:
    document = Document(drain="60s")
    with Listener() as listener:
        document.connector(listener.port, pull=[{"from": "waiting", "to": "chat/pulled"}])
        gateway = start_gateway(document.text, ready=False)
        pulled = receiving(document.edge, "chat/pulled")
        far = listener.accept_started()
        taken(far)
        assert far.until("flow", handle=0).link_credit == 10
        holder, sender = receiving(document.edge, "chat/room"), sending(document.edge, "chat/room")
        sender.transfer(message(b"held"))
        held = holder.until("transfer").delivery_id
        ask_to_end(gateway)
        far.disconnect()
        again = listener.accept_started()
        taken(again)
        holder.disposition(held, "accepted")
        while (frame := again.receive()) is not None and frame.kind != "close":
            assert frame.kind != "flow" or not frame.link_credit, "new messages would be half done"
        for peer in (again, pulled, holder, sender):
            with contextlib.suppress(OSError):
                peer.close()
        assert gateway.process.wait() == 0
