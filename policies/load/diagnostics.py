"""Mistakes in a policy file: the mistake, its exact position, and what is allowed instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class Diagnostic:
    """One mistake or warning; lines and columns count from 1. `line` 0: it is in no place of the file."""

    file: str
    line: int
    column: int
    key: str
    message: str

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {key}{self.message}"


class PolicyErrors(Exception):
    """Every mistake of one policy file at once, in the order of the file."""

    def __init__(self, problems: Iterable[Diagnostic]) -> None:
        self.problems: tuple[Diagnostic, ...] = tuple(sorted(set(problems)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class Where:
    """The line of the policy file that decides something."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
