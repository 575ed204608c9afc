"""The bench as a whole: each case by itself, a failed one is named, and what was measured is written (found as E)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench import __main__ as bench
from tests.bench import against, targets
from tests.bench.bench_gateway import TREE, script
from tests.bench.cases.catalogue import CASES
from tests.bench.effort import EACH
from tests.bench.figures import Figure
from tests.bench.shapes import shapes
from tests.support.gateway.gateway import SCOPEGATE
from tests.support.gateway.process import UNMEASURED
from tests.support.project.parts import ROOT


@pytest.mark.parametrize("cases", [("source", "cookies"), ("cookies", "source")], ids="-".join)
def test_a_failed_case_is_named_and_the_others_are_written(
    cases: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`source` needs a Kafka, and here is no Java for one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for name, value in {"PATH": str(tmp_path), **UNMEASURED}.items():
        monkeypatch.setenv(name, value)
    output = tmp_path / "bench.json"
    assert bench.main(["--quick", "--only", *cases, "--output", str(output)]) == 1
    said = capfd.readouterr()
    report = json.loads(output.read_text())
    assert list(report["run"]["not_measured"]) == ["source"]
    assert set(report) == {"cookie_sign_verify", "cookie_seal_open", "run"}
    assert "NOT MEASURED" in said.out
    assert said.err.splitlines()[-1] == "not measured: source"


@pytest.mark.parametrize(
    ("details", "bound"),
    [
        ({"loadgen_busy": 0.5, "one": {"loadgen_busy": 0.3}}, False),
        ({"loadgen_busy": 0.97, "one": {"loadgen_busy": 0.3}}, True),
        ({"loadgen_busy": 0.5, "one": {"loadgen_busy": 0.97}}, True),
    ],
)
def test_a_figure_says_when_the_load_generator_is_the_limit(details: dict[str, Any], bound: bool) -> None:
    figure = Figure("name", 2.0, "msg/s", 1.0, "one", 1.5, details=details)
    assert figure.generator_bound is bound
    assert figure.as_json()["generator_bound"] is bound
    assert ("LIMITED BY THE LOAD GENERATOR" in figure.line()) is bound
    assert not Figure("loadgen_self", 2.0, "msg/s", details={"loadgen_busy": 1.0}).generator_bound  # it is the ceiling


def test_each_message_by_itself_is_measured_in_short_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fifty messages with the usual rounds took more than eight hours."""
    asked: dict[str, list[str]] = {}

    def measured(name: str, *how: str) -> tuple[list[dict[str, Any]], None]:
        asked[name] = list(how)
        return [], None

    monkeypatch.setattr(bench, "measured", measured)
    output = ["--output", str(tmp_path / "bench.json")]
    assert bench.main(["--shape", "each", *output]) == 0
    assert set(asked) == set(bench.SHAPED) <= set(CASES)
    assert all(how == ["--each", *(f"--shape={name}" for name in shapes.names())] for how in asked.values())
    turns = len(shapes.names()) * EACH.rounds * (EACH.seconds + EACH.warmup)
    assert turns < 60, "seconds of measuring for one side of one figure of each message"
    asked.clear()
    bench.main(["--shape", "jms", "--only", "relays", *output])
    assert asked == {"relays": ["--shape=jms"]}


def test_targets_are_printed_with_both_sides_and_processor_time() -> None:
    both = {"cpu_us": 4.0, "others_cores": 0.0, "bare": {"cpu_us": 3.0, "others_cores": 0.5}}
    figures = [
        Figure("kafka_produce:mix", 5.0, "rec/s", 10.0, "bare", 0.45, details=both),
        Figure("idle_direct_p99:mix", 130.0, "us", 100.0, "empty", 1.2, at_most=True),
        Figure("link_group_cpu:mix", 4.0, "us", 3.0, "plain", 1.2, at_most=True),
        Figure("journal_sample_100:mix", 5.0, "msg/s", 10.0, "without"),
        Figure("artemis_cpu:jms", 10.0, "us", 40.0, "Artemis", 1.0, at_most=True),
    ]
    lines = targets.table([each.as_json() for each in figures]).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["kafka_produce:mix", "5.0", "rec/s", "10.0", "0.500", "0.750", "at", "least", "0.45", "met,", "disturbed"],
        ["idle_direct_p99:mix", "130.0", "us", "100.0", "1.300", "at", "most", "1.2", "MISSED"],
        ["artemis_cpu:jms", "10.0", "us", "40.0", "0.250", "at", "most", "1", "met"],
    ]


def figure(name: str, value: float, unit: str, cost: float | None = None) -> dict[str, Any]:
    return Figure(name, value, unit, details={} if cost is None else {"cpu_us": cost, "loop_us": 2.0}).as_json()


def test_two_commits_are_compared_in_turns(tmp_path: Path) -> None:
    sides: list[str] = []

    def measure(case: str, env: dict[str, str]) -> list[dict[str, Any]]:
        assert case == "relays"
        sides.append("there" if env == {TREE: str(tmp_path)} else "here")
        if sides[-1] == "here":
            return [figure("rate", 90.0 + len(sides), "msg/s", 4.0), figure("time", 30.0, "us"), figure("new", 1, "s")]
        return [figure("rate", 100.0, "msg/s", 5.0), figure("time", 15.0, "us"), figure("old", 1, "s")]

    found = against.compare(["relays"], tmp_path, measure, times=3)
    assert sides == ["here", "there", "there", "here", "here", "there"]
    assert list(found) == ["rate", "time"]
    assert found["rate"]["here"] == [91.0, 94.0, 95.0]
    assert (found["rate"]["speed"], found["rate"]["cpu_speed"]) == (0.94, 1.25)
    assert against.line("rate", found["rate"]).endswith("speed 0.94, by processor time 1.25, of its loop 1.00")
    assert (found["time"]["speed"], found["time"]["cpu_speed"]) == (0.5, None)


def test_what_is_not_of_a_gateway_is_not_compared_with_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--against", "HEAD", "--only", "cookies"]) == 2
    assert capsys.readouterr().err.startswith("cookies: --against compares crossing, crowds, journal, kafka,")


def test_a_gateway_of_another_commit_is_started_as_its_project_says(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project.scripts]\nscopegate = "gateway.other:start"\n')
    assert script(tmp_path) == "from gateway.other import start; start()"
    assert script(ROOT) == SCOPEGATE
