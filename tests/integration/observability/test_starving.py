"""A client that waits for credit is logged once, is counted, and is logged again when it may send."""

from __future__ import annotations

from typing import Any

from gateway.observability.link_events import LinkEvents
from gateway.observability.metrics import Metrics
from gateway.server.metrics.starving import StarvingSenders
from tests.support.amqp.links import connected, receiving
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.warm import shortened

SOON = {"gateway.server.metrics.starving.PATIENCE": 2.0, "gateway.server.metrics.starving._LOOK": 0.2}


def test_a_sender_without_credit_is_named_with_its_rule(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text, env=shortened(SOON))
    starved = 'scopegate_links_starved{rule="chat/**",scope="edge"}'
    assert gateway.metrics()[starved] == 0
    sender = connected(document.edge)
    sender.attach_sender("chat/nobody-reads")
    line = gateway.wait_log("sender starves", address="chat/nobody-reads")
    assert (line["level"], line["rule"], line["user"], line["seconds"]) == ("warning", "chat/**", "anonymous", 2.0)
    assert gateway.metrics()[starved] == 1
    _receiver = receiving(document.edge, "chat/nobody-reads")
    gateway.wait_log("sender has credit again", address="chat/nobody-reads")
    gateway.wait_metric(starved, lambda value: value == 0)
    assert len([each for each in gateway.log() if each.get("event") == "sender starves"]) == 1


class _Link:
    """A link whose credit a test sets."""

    incoming = open = True
    decision: Any = None
    target: Any = type("Target", (), {"dynamic": False})
    scope, user, name, address = "edge", "someone", "l", "chat/x"
    engine: Any = type("Engine", (), {"peer": type("Peer", (), {"connection": "c"})})
    granted = counted = transfers = 0


async def test_many_starving_senders_are_a_few_lines(capsys: Any) -> None:
    now = 0.0
    report, links = LinkEvents(Metrics()), [_Link() for _ in range(50)]
    starving = StarvingSenders(report, lambda: now)
    starving._senders = lambda: iter(links)  # type: ignore[method-assign,assignment,return-value]
    await starving.look()
    now = 9.0
    await starving.look()
    assert starving.counts().total() == 0
    now = 11.0
    links[0].transfers = 1
    await starving.look()
    assert starving.counts().total() == 49
    await starving.look()
    lines = [line for line in capsys.readouterr().out.splitlines() if "sender starves" in line]
    assert len(lines) == 21
    assert "links=29" in lines[-1].replace(" ", "").replace("\x1b[0m", "") or "29" in lines[-1]
