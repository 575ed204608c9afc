"""Tests that run on both event loops: asyncio's own, and uvloop, on which the gateway runs."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

_FACTORIES = {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


def on_both_loops(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test of asyncio once on each loop; its fixtures must not be of a loop."""

    @functools.wraps(test)
    def run(loop: str, **fixtures: Any) -> None:
        async def body() -> None:
            await test(**fixtures)

        with asyncio.Runner(loop_factory=_FACTORIES[loop]) as runner:
            runner.run(body())

    signature = inspect.signature(test)
    loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), loop])  # type: ignore[attr-defined]
    del run.__wrapped__  # type: ignore[attr-defined]
    return pytest.mark.parametrize("loop", list(_FACTORIES))(run)
