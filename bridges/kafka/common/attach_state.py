"""Whether a link to a topic still waits for the answer to its attach."""

from __future__ import annotations

from gateway.amqp.link.link import Link
from gateway.links.link import NodeLink


def still_attached(link: NodeLink) -> bool:
    """Whether the peer still waits for the answer; it may have left while Kafka was asked.

    Links inside the gateway (relays, the anonymous terminus) may be answered at any time.
    """
    return not isinstance(link, Link) or (not link.gone and any(other is link for other in link.engine.links))
