"""Mistakes in a policy file: the mistake, its exact position, and what is allowed instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Loc = tuple[str | int, ...]
"""The place of a value in a policy file: the keys and list indexes that lead to it."""
_LISTED = 50
"""Names that a message lists at most."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake or warning about the value at `loc`, or about its key (`at_key`).

    A check sets no more than that; `Tree.locate` adds the position: file, line and column (which count from 1; line 0
    if the mistake is at no place of the file), and the path of the key as messages show it.
    """

    loc: Loc
    message: str
    at_key: bool = False
    warning: bool = False
    file: str = ""
    line: int = 0
    column: int = 0
    key: str = ""

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """A key that sorts diagnostics in the order of the file; equal for those that print the same text."""
        return self.file, self.line, self.column, self.key, self.message

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {key}{self.message}"


class PolicyErrors(Exception):
    """Every mistake of one policy file at once, in the order of the file."""

    def __init__(self, problems: Iterable[Diagnostic]) -> None:
        unique = {problem.order: problem for problem in problems}
        self.problems: tuple[Diagnostic, ...] = tuple(unique[order] for order in sorted(unique))
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """The line of the policy file that decides something."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def listed(names: Sequence[str]) -> str:
    """Names for a message; of very many, the first."""
    shown = ", ".join(names[:_LISTED])
    return f"{shown} and {len(names) - _LISTED} more" if len(names) > _LISTED else shown or "none yet"
