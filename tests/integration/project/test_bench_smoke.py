"""The bench can measure every case it promises: a small run whose figures mean nothing but exist."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project.parts import ROOT


def shaped(*names: str) -> set[str]:
    """Figures that there are for synthetic messages and for those of clients."""
    return {name + shape for name in names for shape in ("", ":mix")}


_RATES = [f"kafka_{job}{size}" for job in ("produce", "consume", "consume_settled") for size in ("", "_1k")]
_RELAYS = "direct_100", "direct_10k", "direct_latency", "relay_100", "relay_10k", "relay_latency"
_CROSSING = "crossing_none", "crossing_cookie", "crossing_rewrite"
EXPECTED = {
    "loadgen": {"loadgen_self", "loadgen_self_10k"},
    "relays": shaped(*_RELAYS),
    "crossing": {f"{name}{end}:mix" for name in _CROSSING for end in ("", "_cpu")}
    | {"crossing_none", "crossing_none_cpu"},
    "replies": shaped("cookie", "cookie_cpu", "rewrite", "rewrite_cpu"),
    "kafka": shaped(*_RATES) | {"kafka_consume:application"},
    "sharing": shaped("kafka_50_consumers"),
    "latency": shaped("kafka_latency"),
    "scan": shaped("kafka_scan_100") | {"kafka_scan_1k", "kafka_scan_sealed"},
    "reply queue": {"reply_queue_0", "reply_queue_100", "reply_queue_1000"},
    "crowds": {"crowd_senders", "crowd_senders_held", "crowd_receivers", "crowd_receivers_held"},
    "memory": {"memory_per_connection"},
    "start": {"start_to_ready", "start_processor"},
    "columns": {"filter_arrow", "filter_arrow_promoted", "rows_converted", "filter_column"},
    "source": {"source_amqp", "source_amqp_sealed"},
    "archive": {"archive", "archive_partitions"},
    "filters": {"filter_matching", "filter_scanning", "filter_numbers", "filters_3", "filters_10", "filters_100"}
    | {f"filters_1000_{kind}" for kind in ("equal", "prefix", "property", "suffix")},
}
KAFKA = EXPECTED["kafka"] | EXPECTED["sharing"] | EXPECTED["latency"] | EXPECTED["scan"] | EXPECTED["source"]
SERVERS = "kafka", "sharing", "latency", "scan", "columns", "source", "archive"
"""They start a Kafka or a Spark of their own."""
LONG = *SERVERS, "crossing", "relays"
CASES = [pytest.param(case, marks=pytest.mark.soak if case in LONG else ()) for case in EXPECTED]
_LATENCIES = shaped("direct_latency", "relay_latency")
COMPARED = KAFKA | EXPECTED["replies"] | EXPECTED["crossing"] | (EXPECTED["relays"] - _LATENCIES)


@pytest.mark.parametrize("case", CASES)
def test_case_is_measured(case: str, tmp_path: Path) -> None:
    """In a process of its own: a case may start what lasts as long as its process (Spark's Java does)."""
    output = tmp_path / "bench.json"
    command = [sys.executable, "-m", "tests.bench", "--quick", "--only", case, "--output", str(output)]
    unmeasured = {name: value for name, value in os.environ.items() if name != "SCOPEGATE_COVERAGE"}
    ended = subprocess.run(command, cwd=ROOT, env=unmeasured, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads(output.read_text())
    assert report["run"]["not_measured"] == {}
    assert set(report) - {"run"} == EXPECTED[case]
    for name in EXPECTED[case]:
        assert report[name]["value"] > 0
        assert name not in COMPARED or math.isfinite(report[name]["ratio"])
    assert report["run"]["cores"] == os.cpu_count()
