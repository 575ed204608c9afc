"""pytest plugin (`-p tests.support.rounds --rounds 20`): each test that was asked for, so many times in one run.

All rounds of a module share its servers, so what one of them leaves behind meets the next.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=1, help="run each test so many times")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if (rounds := metafunc.config.getoption("rounds")) > 1:
        metafunc.fixturenames.append("_round")
        metafunc.parametrize("_round", range(1, rounds + 1), ids=lambda number: f"round{number}")
