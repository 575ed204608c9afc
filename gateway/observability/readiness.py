"""Readiness: each part reports its own; the gateway is ready when those that it needs to serve anybody are.

A load balancer asks whether to send clients here. A backend that is away is no reason to send them to another gateway,
which does not reach it either, unless the policy says so (`required`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

Part = Callable[[], tuple[bool, str]]
"""`() -> (ready, detail)`; must not block. The detail is for operators and contains no secret."""


class PartReport(TypedDict):
    """What `/readyz` shows of a part."""

    ready: bool
    required: bool
    """Whether the gateway is ready only with this part."""
    detail: str


class ReadinessReport(TypedDict):
    """What `/readyz` shows."""

    ready: bool
    parts: dict[str, PartReport]


class Readiness:
    """The parts by name, as `listeners`, `kafka/main`, `connector/edge/broker`, `state`."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[Part, bool]] = {}

    def add(self, name: str, part: Part, *, required: bool = True) -> None:
        """Include `part` in the report; replaces the part of the same name."""
        self._parts[name] = part, required

    def remove(self, name: str) -> None:
        """Remove a part, as after a reload without it."""
        self._parts.pop(name, None)

    def report(self) -> tuple[bool, ReadinessReport]:
        """Whether all that are required are ready, and what `/readyz` shows."""
        parts = {name: _ask(part, required) for name, (part, required) in self._parts.items()}
        ready = all(part["ready"] for part in parts.values() if part["required"])
        return ready, {"ready": ready, "parts": parts}


def _ask(part: Part, required: bool) -> PartReport:
    try:
        ready, detail = part()
    except Exception as error:
        ready, detail = False, f"asking failed: {type(error).__name__}"
    return {"ready": ready, "required": required, "detail": detail}
