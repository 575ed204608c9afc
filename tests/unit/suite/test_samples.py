"""What tests read of `/metrics` is what Prometheus' own parser reads."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.observability.metrics import Metrics
from tests.support.gateway.gateway import samples

RULES = ["events/{topic}", "a b} 1", 'quo"ted, x="y"', "back\\slash\\n", "two\nlines", "\u2028é"]


def parsed(exposition: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
            if labels:
                found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


@pytest.mark.parametrize("rule", RULES)
def test_samples_are_those_of_prometheus_parser(rule: str) -> None:
    metrics = Metrics()
    for number, scope in enumerate(("edge", "core")):
        counters = metrics.links(scope, rule)
        counters.deliveries_in += 3 + number
        counters.accepted += 2
    exposition = metrics.exposition().decode()
    found = samples(exposition)
    assert found == parsed(exposition)
    assert found["scopegate_deliveries_total"] == 7
