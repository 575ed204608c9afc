"""How many subscriptions are in each state. Pure.

The numbers are kept with every change: `/readyz` is asked every few seconds, and must not walk over all subscriptions.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.model.values import SinkProtocol


class CountedState(NamedTuple):
    """What a subscription counts as; `reason` is None unless it is held or has stopped."""

    protocol: SinkProtocol
    state: DeliveryState
    reason: Reason | None


class StateCounts:
    """The states of a manager's subscriptions, by id, and their numbers."""

    def __init__(self) -> None:
        self._states: Final[dict[str, CountedState]] = {}
        self._numbers: Final[Counter[CountedState]] = Counter()

    def set(self, id: str, state: CountedState | None) -> None:
        """Count a subscription under `state` from now on; None: it exists no more."""
        before = self._states.pop(id, None)
        if before is not None:
            self._numbers[before] -= 1
        if state is not None:
            self._states[id] = state
            self._numbers[state] += 1

    def by_state(self) -> Counter[tuple[SinkProtocol, DeliveryState]]:
        """The number of subscriptions by protocol and state."""
        found: Counter[tuple[SinkProtocol, DeliveryState]] = Counter()
        for (protocol, state, _), number in self._numbers.items():
            found[protocol, state] += number
        return +found

    def by_reason(self) -> Counter[Reason]:
        """The number of subscriptions that are held or have stopped, by reason."""
        found: Counter[Reason] = Counter()
        for (_, _, reason), number in self._numbers.items():
            if reason is not None:
                found[reason] += number
        return +found
