"""When the certificates that a policy names end; their files are read once for each policy that comes into force.

A file that changes is watched, and leads to a reload.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.config.certificates import certificate_files, read_times
from gateway.observability.counters import Labels, Reading
from gateway.tasks import off_loop

if TYPE_CHECKING:
    from policies.rules import CompiledPolicy


class CertificateExpiries:
    """By the place in the policy: the end of the first certificate of a file that ends."""

    def __init__(self) -> None:
        self._ends: dict[Labels, float] = {}
        self._turn = 0

    async def read(self, policy: CompiledPolicy) -> None:
        """Read the files of this policy, in a thread; a later call wins."""
        self._turn = turn = self._turn + 1
        ends = await off_loop(_ends, policy)
        if turn == self._turn:
            self._ends = ends

    def samples(self) -> Iterator[Reading]:
        """The gauges, for metrics."""
        for labels, end in self._ends.items():
            yield "certificate_expiry_timestamp_seconds", labels, end


def _ends(policy: CompiledPolicy) -> dict[Labels, float]:
    found: Final[dict[Labels, float]] = {}
    for file in certificate_files(policy):
        times = read_times(file.path)
        ends = [] if isinstance(times, str) else [each.until.timestamp() for each in times]
        found[("where", file.where), ("use", file.use)] = min(ends, default=math.nan)
    return found
