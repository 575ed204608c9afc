"""Results of checks, before they get their position in the file."""

from __future__ import annotations

from dataclasses import dataclass

from policies.load.tree import Loc


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake (or warning) about the value at `loc`, or about its key."""

    loc: Loc
    message: str
    at_key: bool = False
    warning: bool = False
