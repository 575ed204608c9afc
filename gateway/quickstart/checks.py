"""Checks of the quickstart: each prints `ok`, and the first difference ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from gateway.quickstart.terminal_output import TerminalOutput, cut

PATIENCE: Final = 60.0
"""Seconds that a step may take: a busy machine is slow, and nobody waits for a step that works."""

_SHOWN: Final = 300


T = TypeVar("T")


class StepFailed(Exception):
    """A step whose result is not the expected one."""

    def __init__(self, claim: str, expected: object, got: object) -> None:
        super().__init__(claim)
        self.claim, self.expected, self.got = claim, _shown(expected), _shown(got)


class Checks:
    """Compares and prints results; `count` is the number of successful checks."""

    def __init__(self, screen: TerminalOutput) -> None:
        self._screen: Final = screen
        self.count = 0

    def equal(self, claim: str, got: object, expected: object) -> None:
        """Print `claim` if both are equal, else raise."""
        if got != expected:
            raise StepFailed(claim, expected, got)
        self._held(claim)

    def nothing(self, claim: str, faults: list[str], *, expected: str) -> None:
        """Print `claim` if there are no faults, else raise."""
        if faults:
            more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            raise StepFailed(claim, expected, faults[0] + more)
        self._held(claim)

    def _held(self, claim: str) -> None:
        self.count += 1
        self._screen.ok(claim)


def attempt(what: str, expected: str, call: Callable[[], T], *errors: type[Exception]) -> T:
    """The result of `call`; one of `errors` is a failed step."""
    try:
        return call()
    except errors as error:
        raise StepFailed(what, expected, error) from error


def _shown(value: object) -> str:
    return cut(str(value) if isinstance(value, str | Exception) else repr(value), _SHOWN)
