"""pytest plugin (`-p tests.support.plugins.rounds --rounds 20`): runs each selected test that many times.

All rounds of a module share its servers, so the next one finds whatever a round leaves behind.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=1, help="run each test so many times")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if (rounds := metafunc.config.getoption("rounds")) > 1:
        metafunc.fixturenames.append("_round")
        metafunc.parametrize("_round", range(1, rounds + 1), ids=lambda number: f"round{number}")
