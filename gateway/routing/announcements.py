"""What containers and nodes support: response annotations (RA 2.1, 2.2), and what a link announced (AT 2.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.errors import NOT_IMPLEMENTED, AmqpError
from gateway.links.link_context import RESPONSE_ADDRESS_SUPPORTED

if TYPE_CHECKING:
    from gateway.links.link import MessageTarget
    from gateway.links.link_context import LinkContext


def supports_annotations(target: MessageTarget) -> bool:
    """Whether responses to requests that are sent to `target` follow their annotations: both say so."""
    return RESPONSE_ADDRESS_SUPPORTED in target.target.capabilities and target.announcement_counts


class ReceiverKind(NamedTuple):
    """What the attach of a sender needs to know of a receiver (RA-2.2-4)."""

    context: LinkContext
    supports: bool
    """Its target announced support of response annotations."""


def kind_of(link: MessageTarget) -> ReceiverKind:
    """The kind of a receiver; there are few kinds."""
    return ReceiverKind(link.context, supports_annotations(link))


class RequiredCapabilities(NamedTuple):
    """Capabilities and properties that a link announced because some destination supports them: all used ones must."""

    capabilities: frozenset[str] = frozenset()
    properties: frozenset[Any] = frozenset()

    def missing(self, capabilities: Iterable[str], properties: Mapping[Any, Any] | None) -> AmqpError | None:
        """The error if a destination lacks one of them (AT-2.2.1-4)."""
        lacks = [*(self.capabilities - set(capabilities)), *(self.properties - set(properties or ()))]
        if not lacks:
            return None
        return AmqpError(NOT_IMPLEMENTED, f"this destination does not support {', '.join(sorted(lacks))}")
