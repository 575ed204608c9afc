"""Fixtures for tests of what connections hold."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No circle of references is found before the end of the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
