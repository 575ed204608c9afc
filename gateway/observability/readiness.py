"""Readiness: each part reports its own; the gateway is ready when all of them are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

Part = Callable[[], tuple[bool, str]]
"""`() -> (ready, detail)`; must not block. The detail is for operators and contains no secret."""


class PartReport(TypedDict):
    """What `/readyz` shows of a part."""

    ready: bool
    detail: str


class ReadinessReport(TypedDict):
    """What `/readyz` shows."""

    ready: bool
    parts: dict[str, PartReport]


class Readiness:
    """The parts by name, as `listeners`, `kafka/main`, `connector/edge/broker`, `state`."""

    def __init__(self) -> None:
        self._parts: dict[str, Part] = {}

    def add(self, name: str, part: Part) -> None:
        """Include `part` in the report; replaces the part of the same name."""
        self._parts[name] = part

    def remove(self, name: str) -> None:
        """Remove a part, as after a reload without it."""
        self._parts.pop(name, None)

    def report(self) -> tuple[bool, ReadinessReport]:
        """Whether all are ready, and what `/readyz` shows."""
        parts = {name: _ask(part) for name, part in self._parts.items()}
        ready = all(part["ready"] for part in parts.values())
        return ready, {"ready": ready, "parts": parts}


def _ask(part: Part) -> PartReport:
    try:
        ready, detail = part()
    except Exception as error:
        ready, detail = False, f"asking failed: {type(error).__name__}"
    return {"ready": ready, "detail": detail}
