"""One measured figure, and how both sides of a case are measured: interleaved, in one run, by median."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final

from tests.bench.shapes import shapes

UNDISTURBED = 0.2
"""Cores that processes outside the bench may take before a comparison of rates is meaningless."""

BUSY: Final = 0.9
"""Share of a core from which on the load generator, one process, is what a rate shows."""


@dataclass(frozen=True)
class Figure:
    """What `build/bench.json` holds per name; `ratio` is value over baseline."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    baseline_is: str = ""
    target: float | None = None
    at_most: bool = False
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Value over baseline, where there is one."""
        return self.value / self.baseline if self.baseline else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target. The target is for the ratio if there is one."""
        if self.target is None:
            return None
        measured = self.value if self.ratio is None else self.ratio
        return measured <= self.target if self.at_most else measured >= self.target

    @property
    def cpu_ratio(self) -> float | None:
        """Processor time for a message on the other side, over that on this one; None unless both were measured."""
        ours, *others = self._sides()
        theirs = next((side["cpu_us"] for side in others if side.get("cpu_us")), None)
        return theirs / ours["cpu_us"] if theirs and ours.get("cpu_us") else None

    @property
    def disturbed(self) -> bool:
        """Whether anything else ran on the machine during either side: then `met` is no verdict."""
        return any(side.get("others_cores", 0.0) > UNDISTURBED for side in self._sides())

    @property
    def generator_bound(self) -> bool:
        """Whether the load generator was busy all the time on either side: then a comparison is of itself."""
        compared = self.ratio is not None or self.target is not None
        return compared and any(side.get("loadgen_busy", 0.0) > BUSY for side in self._sides())

    def _sides(self) -> list[dict[str, Any]]:
        return [self.details, *(side for side in self.details.values() if isinstance(side, dict))]

    def as_json(self) -> dict[str, Any]:
        """The entry of `build/bench.json`."""
        return {**asdict(self), "ratio": self.ratio, "cpu_ratio": self.cpu_ratio, "met": self.met, **self._doubts()}

    def _doubts(self) -> dict[str, bool]:
        return {"disturbed": self.disturbed, "generator_bound": self.generator_bound}

    def line(self) -> str:
        """One line for people."""
        parts = [f"{self.name:26} {self.value:>12,.1f} {self.unit:9}"]
        if self.ratio is not None:
            parts.append(f"{self.ratio:7.2f} x {self.baseline:,.1f} ({self.baseline_is})")
        if self.target is not None:
            sign = "at most" if self.at_most else "at least"
            verdict = "met" if self.met else "MISSED"
            parts.append(f"{sign} {self.target:g}: {verdict}{' (DISTURBED)' if self.disturbed else ''}")
        if self.generator_bound:
            parts.append("LIMITED BY THE LOAD GENERATOR")
        if self.details.get("p50_us"):
            parts.append(f"p50 {self.details['p50_us']:,.0f} us p99 {self.details['p99_us']:,.0f} us")
        return "  ".join(parts)


def shaped(name: str, shape: str) -> str:
    """The name of a figure that was measured with messages of a shape."""
    return name if shape == shapes.SYNTHETIC else f"{name}:{shape}"


Sample = dict[str, float]


def interleaved(value: Callable[[], Sample], baseline: Callable[[], Sample], rounds: int) -> tuple[Sample, Sample]:
    """Measures both sides `rounds` times, changing who goes first; returns the medians of each."""
    ours: list[Sample] = []
    theirs: list[Sample] = []
    for number in range(rounds):
        sides = [(value, ours), (baseline, theirs)]
        for measure, results in sides if number % 2 == 0 else reversed(sides):
            results.append(measure())
    return medians(ours), medians(theirs)


def beside(
    name: str,
    shape: str,
    value: Callable[[], Sample],
    baseline: Callable[[], Sample],
    rounds: int,
    what: str,
    target: float,
) -> Iterator[Figure]:
    """The rate of a path as a share of another one's, and its processor time for a message, of the same gateway.

    The load generator may be the limit of both rates: what the gateway takes for a message compares them, too.
    """
    ours, theirs = interleaved(value, baseline, rounds)
    details: dict[str, Any] = {**ours, "baseline": theirs}
    yield Figure(shaped(name, shape), ours["rate"], "msg/s", theirs["rate"], what, target, details=details)
    details = {"others_cores": max(ours["others_cores"], theirs["others_cores"])}
    cost, other = ours["cpu_us"], theirs["cpu_us"]
    yield Figure(shaped(f"{name}_cpu", shape), cost, "us", other, what, 1 / target, at_most=True, details=details)


def medians(samples: list[Sample]) -> Sample:
    """The median of every key, the spread of the rate, and the worst disturbance."""
    result = {key: median(sample[key] for sample in samples) for key in samples[0]}
    rates = [sample["rate"] for sample in samples]
    others = max(sample["others_cores"] for sample in samples)
    return {**result, "lowest": min(rates), "highest": max(rates), "others_cores": others}
