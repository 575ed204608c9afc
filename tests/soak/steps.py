"""What `make soak` draws from: soak tests, deep properties, fuzzers and large forms of tests of `make test`.

A fuzzer is a command of Python that ends with another code than 0 when it has found something; `{seconds}` and `{seed}`
in it are filled in. Add yours to `FUZZERS`.
"""

from __future__ import annotations

import random
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.fuzz.targets import NAMES
from tests.support.project.parts import ROOT

PYTEST: Final = ("-m", "pytest", "--quiet", "-p", "no:cacheprovider")
FUZZERS: Final[dict[str, tuple[str, ...]]] = {
    "engine": ("-X", "faulthandler", "-m", "tests.support.amqp.engine_fuzz", "50000", "{seed}"),
    **{name: ("-m", "tests.fuzz", "--target", name, "--within", "{seconds}", "--seed", "{seed}") for name in NAMES},
}
ENGINE: Final = "tests/property/gateway/amqp/engine/test_engine_fuzz.py"
"""Not drawn deep: it is the small form of the fuzzer `engine`."""
LARGE: Final[dict[str, dict[str, str]]] = {
    "tests/integration/held/test_load.py": {"SCOPEGATE_MEMORY": "1GiB"},
    "tests/integration/transactions/test_random.py": {"SCOPEGATE_TRANSACTIONS": "1000"},
}
"""Tests whose environment makes them larger than `make test` can wait for."""
WHOLE: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "tests/integration/subscriptions/faults/test_kills.py::test_kills_in_drawn_phases_lose_nothing": (
        900,
        {"SCOPEGATE_KILLS": "200"},
    ),
    "tests/integration/subscriptions/faults/test_away.py::test_a_long_outage_of_a_usual_sink_costs_nothing": (
        4500,
        {"SCOPEGATE_OUTAGE": "3600"},
    ),
    "tests/integration/transactions/test_size.py::test_a_transaction_of_very_many_posts": (
        1800,
        {"SCOPEGATE_POSTS": "10000000"},
    ),
    "tests/integration/project/test_image.py::test_the_image_serves_without_any_privilege": (1200, {}),
}
"""Soak tests that also run once as a whole, which is longer than a share: the seconds that each may take."""


@dataclass(frozen=True)
class Step:
    """One thing to try: a command of Python with its environment; the same again does the same."""

    name: str
    arguments: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    seconds: int | None = None
    """What it may take, where that is not its share: it is left out where less is left."""

    def shown(self) -> str:
        """The command that does it again, for a shell in the project's folder."""
        env = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        return " ".join([*env, ".venv/bin/python", *map(shlex.quote, self.arguments)])


Maker = Callable[[int, int], Step]
"""Makes a step of a seed and the seconds it may take."""


def collected(*arguments: str) -> list[str]:
    """The ids of the tests that pytest would run."""
    command = [sys.executable, *PYTEST, "--collect-only", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("tests/")]
    if done.returncode or not found:
        raise SystemExit(f"pytest cannot collect {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
    return found


def soak_test(test: str) -> Maker:
    """A test with the marker `soak`; those that draw or last take what they need from tests/support/plugins/seed.py."""

    def make(seed: int, seconds: int) -> Step:
        env = {"SCOPEGATE_SEED": str(seed), "SCOPEGATE_SECONDS": str(seconds // 4)}
        return Step(f"soak {test}", (*PYTEST, "-s", test), env)

    return make


def deep_property(cases: Sequence[str]) -> Maker:
    """One case of a property with a hundred times as many examples; case and examples are drawn by the seed."""
    env = {"SCOPEGATE_HYPOTHESIS": "deep"}

    def make(seed: int, seconds: int) -> Step:
        test = cases[seed % len(cases)]
        return Step(f"deep {test}", (*PYTEST, f"--hypothesis-seed={seed}", test), env)

    return make


def by_function(tests: Sequence[str]) -> list[list[str]]:
    """The cases of each function: one with hundreds of them comes up no more often than another."""
    found: dict[str, list[str]] = {}
    for test in tests:
        found.setdefault(test.partition("[")[0], []).append(test)
    return list(found.values())


def fuzzer(name: str, arguments: Sequence[str]) -> Maker:
    """One of `FUZZERS`."""

    def make(seed: int, seconds: int) -> Step:
        return Step(f"fuzz {name}", tuple(word.format(seed=seed, seconds=seconds) for word in arguments))

    return make


def large_test(test: str, env: dict[str, str]) -> Maker:
    """One of `LARGE`."""
    return lambda _seed, _seconds: Step(f"large {test}", (*PYTEST, "-s", test), env)


def whole_test(test: str, seconds: int, env: dict[str, str]) -> Maker:
    """One of `WHOLE`."""
    return lambda seed, _: Step(
        f"whole {test}", (*PYTEST, "-s", test), {**env, "SCOPEGATE_SEED": str(seed)}, seconds
    )


def all_makers() -> dict[str, list[Maker]]:
    """Everything there is to draw, by its kind; kinds come up equally often."""
    return {
        "soak": [soak_test(test) for test in collected("-m", "soak")],
        "deep": [deep_property(cases) for cases in by_function(collected("--ignore", ENGINE, "tests/property"))],
        "fuzz": [fuzzer(name, arguments) for name, arguments in FUZZERS.items()],
        "whole": [whole_test(test, *about) for test, about in WHOLE.items()],
        "large": [large_test(test, env) for test, env in LARGE.items()],
    }


class Deck:
    """Things in random order, each once before any comes again."""

    def __init__(self, things: Sequence[Maker], drawing: random.Random) -> None:
        self._things, self._random = things, drawing
        self._left: list[Maker] = []

    def draw(self) -> Maker:
        """The next one."""
        if not self._left:
            self._left = self._random.sample(self._things, len(self._things))
        return self._left.pop()


class Steps:
    """The order of things that a seed stands for; it does not depend on how long each takes."""

    def __init__(self, makers: dict[str, list[Maker]], seed: int, seconds: int) -> None:
        self._random, self._seconds = random.Random(seed), seconds
        self._decks = [Deck(things, self._random) for things in makers.values() if things]
        self._kinds: list[Deck] = []

    def draw(self) -> Step:
        """The next step: each kind comes once before any comes again."""
        if not self._kinds:
            self._kinds = self._random.sample(self._decks, len(self._decks))
        return self._kinds.pop().draw()(self._random.randrange(1 << 32), self._seconds)
