"""`make soak` draws by its seed, ends with its time, stops at the first failure and says how to repeat it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import __main__ as soaking
from tests.soak.steps import (
    FUZZERS,
    LARGE,
    WHOLE,
    Maker,
    Step,
    Steps,
    by_function,
    deep_property,
    fuzzer,
    soak_test,
    whole_test,
)
from tests.support.project.parts import ROOT


def doing(code: str) -> Maker:
    return lambda seed, seconds: Step("x", ("-c", code), {"SCOPEGATE_SEED": str(seed)})


def named(name: str) -> Maker:
    return lambda seed, seconds: Step(f"{name} {seed}", ())


MAKERS = {"a": [named("a1"), named("a2"), named("a3")], "b": [named("b1")], "empty": []}


def chosen_steps(seed: int, count: int) -> list[str]:
    steps = Steps(MAKERS, seed, 60)
    return [steps.draw().name for _ in range(count)]


def test_a_seed_stands_for_the_order_of_everything() -> None:
    assert chosen_steps(7, 20) == chosen_steps(7, 20) != chosen_steps(8, 20)


def test_kinds_come_equally_often_and_each_thing_before_any_comes_again() -> None:
    names = [name.split()[0] for name in chosen_steps(3, 12)]
    assert all({names[place][0], names[place + 1][0]} == {"a", "b"} for place in range(0, 12, 2))
    of_a = [name for name in names if name[0] == "a"]
    assert set(of_a[:3]) == set(of_a[3:]) == {"a1", "a2", "a3"}


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soaking, "LOGS", tmp_path)


def test_the_first_failure_ends_it_with_what_it_said_and_how_to_repeat_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = "import os; print('of', os.environ['SCOPEGATE_SEED']); raise SystemExit(3)"
    assert soaking.soak(Steps({"x": [doing(code)]}, 1, 60), 600, 600) == 1
    said = capsys.readouterr().out
    step = Steps({"x": [doing(code)]}, 1, 60).draw()
    seed = step.env["SCOPEGATE_SEED"]
    assert said.count("failed") == 1
    assert f"of {seed}\n" in said
    assert said.endswith(f"Do it again: SCOPEGATE_SEED={seed} .venv/bin/python -c {shlex.quote(code)}\n")


def test_it_goes_on_until_the_time_is_up_and_a_step_cut_short_is_no_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert soaking.soak(Steps({"x": [doing("import time; time.sleep(600)")]}, 1, 60), 1, 600) == 0
    assert capsys.readouterr().out.endswith("1 cut short\n")


def test_a_step_is_interrupted_so_that_it_stops_its_servers() -> None:
    code = "import time\ntry: print('ready', flush=True), time.sleep(600)\nexcept KeyboardInterrupt: print('stopped')"
    command = [sys.executable, "-c", code]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, start_new_session=True, preexec_fn=soaking.hear_interrupts
    )
    assert child.stdout
    assert child.stdout.readline() == b"ready\n"
    soaking.end(child)
    assert child.stdout.read() == b"stopped\n"


def test_a_step_with_a_time_of_its_own_is_left_out_where_less_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    whole = Steps({"x": [whole_test("t", 3600, {"SCOPEGATE_OUTAGE": "3000"})]}, 1, 60)
    assert soaking.soak(whole, 600, 600) == 0
    assert "whole t is left out: it may take 3600 s" in capsys.readouterr().out
    assert whole.draw().shown().startswith("SCOPEGATE_OUTAGE=3000 SCOPEGATE_SEED=")


def test_steps_say_their_seed_where_the_tests_look_for_it() -> None:
    assert soak_test("t")(7, 240).env == {"SCOPEGATE_SEED": "7", "SCOPEGATE_SECONDS": "60"}
    deep = deep_property(["tests/property/t[a]", "tests/property/t[a b]"])(7, 240)
    assert deep.shown().startswith("SCOPEGATE_HYPOTHESIS=deep .venv/bin/python -m pytest ")
    assert deep.shown().endswith(" --hypothesis-seed=7 'tests/property/t[a b]'")
    assert fuzzer("f", ("-m", "x", "{seed}", "{seconds}"))(7, 240).arguments == ("-m", "x", "7", "240")


def test_a_property_with_many_cases_is_drawn_as_often_as_another() -> None:
    assert by_function(["t::a[1]", "t::b", "t::a[2 [x]]"]) == [["t::a[1]", "t::a[2 [x]]"], ["t::b"]]


def test_what_it_names_exists() -> None:
    assert [name for name in LARGE if not (ROOT / name).is_file()] == []
    for name in WHOLE:
        path, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text()
    modules = [words[words.index("-m") + 1] for words in FUZZERS.values()]
    places = [ROOT / name.replace(".", "/") for name in modules]
    missing = [at for at in places if not at.with_suffix(".py").is_file() and not (at / "__main__.py").is_file()]
    assert missing == []
