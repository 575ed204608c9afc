"""What every attach of this bridge shares."""

from __future__ import annotations

from typing import Any

from gateway.amqp.link.link import Link


def wanted(link: Any) -> bool:
    """Whether the peer still waits for the answer to its attach; it may have left while Kafka was asked.

    Links inside the gateway (relays, the anonymous terminus) may be answered at any time.
    """
    return not isinstance(link, Link) or (not link.gone and any(other is link for other in link.engine.links))
