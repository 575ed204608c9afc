"""Failed logins by address: after too many, further ones are refused for up to a second."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

FAILURES: Final = 5
"""Failed logins of one address per second after which further ones are refused."""
_KEPT: Final = 10_000
"""Addresses that are remembered."""


class TooManyFailures(Exception):
    """Too many logins from this address have failed within a second."""


class FailedLogins:
    """The last failures of each address."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds."""
        self._clock: Final = clock
        self._failures: Final[OrderedDict[str, deque[float]]] = OrderedDict()

    def admit(self, address: str) -> None:
        """Raise TooManyFailures if this address may not try now."""
        failures = self._failures.get(address)
        if failures is not None and len(failures) == FAILURES and self._clock() - failures[0] < 1:
            raise TooManyFailures

    def add(self, address: str) -> None:
        """A login from this address has failed."""
        self._failures.setdefault(address, deque(maxlen=FAILURES)).append(self._clock())
        if len(self._failures) > _KEPT:
            self._failures.popitem(last=False)
