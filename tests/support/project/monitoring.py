"""Metrics that the dashboard and the alert rules of `deploy` name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML

from tests.support.project.parts import ROOT

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "scopegate.json"
_METRIC = re.compile(r"\b(?:scopegate|process)_[a-z_]+[a-z]\b")


def alert_rules() -> list[dict[str, Any]]:
    """The alert rules."""
    groups = YAML(typ="safe").load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """The panels of the dashboard that show something."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def expressions() -> Iterator[str]:
    """Every expression of both."""
    yield from (rule["expr"] for rule in alert_rules())
    for panel in panels():
        yield from (target["expr"] for target in panel["targets"])
    dashboard = json.loads(DASHBOARD.read_text())
    yield from (each["expr"] for each in dashboard["annotations"]["list"])
    yield from (each["definition"] for each in dashboard["templating"]["list"] if "definition" in each)


def named_metrics() -> set[str]:
    """The metrics in these expressions."""
    return {name for expression in expressions() for name in _METRIC.findall(expression)}
