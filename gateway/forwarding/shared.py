"""What all bridges of a gateway share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.observability.link_events import LinkEvents
    from gateway.state.leases.manager import Leases
    from gateway.state.termini.store import Termini


class Shared:
    """Leases, positions and reports of the bridges."""

    def __init__(self, leases: Leases, termini: Termini, report: LinkEvents) -> None:
        self.leases: Final = leases
        self.termini: Final = termini
        self.report: Final = report
