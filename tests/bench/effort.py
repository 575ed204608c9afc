"""How long the cases measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Effort:
    """How long to measure; `QUICK` only shows that everything can be measured."""

    rounds: int = 5
    seconds: float = 2.0
    warmup: float = 0.5
    connections: int = 5000
    records: int = 600_000
    scanned: int = 2_000_000

    def plan(self, **more: Any) -> dict[str, Any]:
        """A plan for the load generator."""
        return {"seconds": self.seconds, "warmup": self.warmup, **more}


QUICK = Effort(rounds=1, seconds=0.3, warmup=0.1, connections=100, records=5_000, scanned=5_000)
