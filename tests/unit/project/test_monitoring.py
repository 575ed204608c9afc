"""The alert rules and the dashboard of `deploy`: Prometheus' own tool checks the rules, and each has its cases."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import product

import pytest
from ruamel.yaml import YAML

from tests.support.project.monitoring import ALERTS, DASHBOARD, alert_rules, expressions, panels
from tests.support.project.parts import ROOT

CASES = ALERTS.with_name("alerts.test.yaml")


@pytest.mark.parametrize("command", [["check", "rules", ALERTS.name], ["test", "rules", CASES.name]])
def test_promtool_accepts_the_rules_and_their_cases(promtool: str, command: list[str]) -> None:
    done = subprocess.run([promtool, *command], cwd=ALERTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_each_rule_has_a_case_that_fires_and_one_that_is_quiet() -> None:
    names = [case["name"] for case in YAML(typ="safe").load(CASES.read_text())["tests"]]
    rules = [rule["alert"] for rule in alert_rules()]
    assert sorted(names) == sorted(f"{rule} {what}" for rule in rules for what in ("fires", "is quiet"))


def test_each_rule_says_what_is_wrong_and_what_to_do() -> None:
    for rule in alert_rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "description"}
        for command in re.findall(r"`scopegate ([a-z]+)", rule["annotations"]["description"]):
            assert command in ("check", "groups", "health", "links")


def test_panels_do_not_overlap_and_every_expression_is_one(promtool: str) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    columns = [(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])) for at in places]
    taken = [place for across, down in columns for place in product(across, down)]
    assert len(taken) == len(set(taken))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert all(panel["description"] and panel["title"] for panel in panels())
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "1m").replace("$__interval", "1m")}
        for number, expression in enumerate(expressions())
        if not expression.startswith("label_values(")
    ]
    folder = ROOT / "build" / "monitoring"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "panels.json"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
