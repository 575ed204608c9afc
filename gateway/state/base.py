"""The protocol of shared state."""

from __future__ import annotations

from typing import Protocol

from gateway.state.counters.store import CounterStore
from gateway.state.subscriptions.store import SubscriptionStore
from gateway.state.termini.store import Termini


class State(Protocol):
    """Shared state; `run` is a task of the supervisor while the gateway serves."""

    @property
    def store(self) -> CounterStore:
        """Counts and values that expire; its `run` is a task of its own."""

    @property
    def termini(self) -> Termini:
        """Termini that outlive their links."""

    @property
    def subscriptions(self) -> SubscriptionStore:
        """Subscriptions of all managers; its `run` is a task of its own."""

    def ready(self) -> tuple[bool, str]:
        """Whether it is available, and a line for `/readyz`; does not block."""

    async def run(self) -> None:
        """Keep the connection and the result of `ready` up to date, until cancelled."""

    async def close(self) -> None:
        """Close it."""
