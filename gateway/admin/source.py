"""What the handlers use of the gateway (`gateway.server.admin.administration` adapts it)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.admin.credit import CreditWaits
    from gateway.admin.documents.common import Document
    from gateway.amqp.transport.connection import Connection
    from gateway.observability.roster import Roster


class AdminSource(Protocol):
    """The running gateway, as the admin API sees and changes it."""

    @property
    def connections(self) -> Roster[Connection]: ...
    @property
    def waits(self) -> CreditWaits: ...
    def status(self) -> Document: ...
    def audit(self, who: str, action: str, **about: object) -> None:
        """Log a change and who made it."""
