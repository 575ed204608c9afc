"""Whether a receiver understands response annotations: what its container and its target say of that (RA 2.1, 2.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.routing.link_context import RESPONSE_ADDRESS_SUPPORTED

if TYPE_CHECKING:
    from gateway.nodes.link import MessageTarget


def supports_annotations(target: MessageTarget) -> bool:
    """Whether responses to requests that are sent to `target` follow their annotations: both say so."""
    return RESPONSE_ADDRESS_SUPPORTED in target.target.capabilities and target.announcement_counts
