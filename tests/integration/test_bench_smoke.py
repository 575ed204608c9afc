"""The bench can measure every case it promises: a small run whose figures mean nothing but exist."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from tests.bench import __main__ as bench

EXPECTED = {
    "loadgen": {"loadgen_self", "loadgen_self_10k"},
    "relays": {"direct_100", "direct_10k", "direct_latency", "relay_100", "relay_10k", "relay_latency"},
    "replies": {"cookie", "rewrite"},
    "kafka": {f"kafka_{job}{size}" for job in ("produce", "consume", "consume_settled") for size in ("", "_1k")},
    "sharing": {"kafka_50_consumers"},
    "latency": {"kafka_latency"},
    "scan": {"kafka_scan_100", "kafka_scan_1k", "kafka_scan_sealed"},
    "memory": {"memory_per_connection"},
    "start": {"start_to_ready"},
    "columns": {"filter_arrow", "filter_arrow_promoted", "rows_converted", "filter_column"},
    "filters": {"filter_matching", "filter_scanning", "filter_numbers", "filters_3", "filters_10", "filters_100"},
}
KAFKA = EXPECTED["kafka"] | EXPECTED["sharing"] | EXPECTED["latency"] | EXPECTED["scan"]
COMPARED = KAFKA | EXPECTED["replies"] | {"direct_100", "direct_10k", "relay_100", "relay_10k"}


@pytest.mark.parametrize("case", EXPECTED)
def test_case_is_measured(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "build" / "bench.json"
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "OUTPUT", output)
    code = bench.main(["--quick", "--only", case])
    report = json.loads(output.read_text())
    assert (code, report["run"]["not_measured"]) == (0, {})
    assert set(report) - {"run"} == EXPECTED[case]
    for name in EXPECTED[case]:
        assert report[name]["value"] > 0
        assert name not in COMPARED or math.isfinite(report[name]["ratio"])
    assert report["run"]["cores"] == os.cpu_count()
