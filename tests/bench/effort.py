"""How long the cases measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.bench.shapes import shapes


@dataclass(frozen=True)
class Effort:
    """How long to measure; `QUICK` only shows that everything can be measured."""

    rounds: int = 5
    seconds: float = 2.0
    warmup: float = 0.5
    connections: int = 5000
    records: int = 600_000
    scanned: int = 2_000_000
    spark: int = 1_000_000
    archived: int = 300_000
    long_rounds: int = 3
    """Of cases whose rounds take long, or whose figure varies little."""
    shapes: tuple[str, ...] = shapes.USUAL
    """What messages look like (`shapes`), where a case sends some."""

    def plan(self, **more: Any) -> dict[str, Any]:
        """A plan for the load generator."""
        return {"seconds": self.seconds, "warmup": self.warmup, **more}


BRIEF = Effort(rounds=3, seconds=1.5, warmup=0.3, records=300_000, scanned=500_000)
"""All targets at once in a few minutes (`targets`)."""

EACH = Effort(rounds=1, seconds=0.5, warmup=0.1, records=50_000, scanned=100_000, long_rounds=1)
"""Each of the recorded messages by itself: short turns, for there are fifty of them (`--shape each`)."""

QUICK = Effort(
    rounds=1, seconds=0.3, warmup=0.1, connections=100, records=5_000, scanned=5_000, spark=5_000, archived=5_000,
    long_rounds=1,
)  # fmt: skip
