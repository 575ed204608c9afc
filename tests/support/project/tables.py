"""Tables of which many lines are one test: each line that is wrong is named, as if it were a test of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Lines:
    """Collects what is wrong with which line."""

    def __init__(self) -> None:
        self._wrong: dict[str, str] = {}

    @contextmanager
    def line(self, name: object) -> Iterator[None]:
        """Go on with the next line whatever is wrong with this one."""
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            self._wrong[str(name)] = f"{type(error).__name__}: {error}"

    def check(self) -> None:
        """Fail with all lines that are wrong."""
        told = "\n".join(f"{name}\n    {error}" for name, error in self._wrong.items())
        assert not self._wrong, f"{len(self._wrong)} lines are wrong:\n{told}"
