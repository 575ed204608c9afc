"""The bench can measure every case it promises: a small run whose figures mean nothing but exist."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.bench.bench_gateway import BenchGateway
from tests.bench.kafka.links import KINDS
from tests.bench.running import module
from tests.support.gateway.process import UNMEASURED, fresh_folder
from tests.support.project.parts import ROOT
from tests.support.servers.certs import Authority


def shaped(*names: str) -> set[str]:
    """Figures that there are for synthetic messages and for those of clients."""
    return {name + shape for name in names for shape in ("", ":mix")}


def with_cost(names: set[str]) -> set[str]:
    """The figures of rates, and of the processor time for a message beside each."""
    return names | {"_cpu:".join(parts) if len(parts := name.split(":")) > 1 else f"{name}_cpu" for name in names}


_TLS = "tls_direct", "tls_relay", "tls_produce", "tls_consume"
_RATES = [f"kafka_{job}{size}" for job in ("produce", "consume", "consume_settled") for size in ("", "_1k")]
_COUNTED = {"kafka_counted", "kafka_counted_1k"}
_RELAYS = "direct_100", "direct_10k", "direct_latency", "relay_100", "relay_10k", "relay_latency"
_CROSSING = "crossing_none", "crossing_cookie", "crossing_rewrite"
EXPECTED = {
    "loadgen": {"loadgen_self", "loadgen_self_10k"},
    "relays": shaped(*_RELAYS),
    "crossing": with_cost({f"{name}:mix" for name in _CROSSING} | {"crossing_none"}),
    "artemis": {f"artemis_{name}{shape}" for name in ("cpu", "rate") for shape in ("", ":jms")},
    "replies": shaped("cookie", "cookie_cpu", "rewrite", "rewrite_cpu"),
    "kafka": shaped(*_RATES)
    | {"kafka_consume:application", "kafka_produce_10k:mix", "kafka_consume_10k:mix"}
    | _COUNTED,
    "journal": with_cost(shaped("journal_counts", "journal_sample_1", "journal_sample_100")),
    "sharing": shaped("kafka_50_consumers"),
    "links": with_cost(shaped("link_group", "link_durable", "link_shared", "link_filter")),
    "tls": with_cost(shaped(*_TLS) | {"tls_cookie:mix", "tls_rewrite:mix"}),
    "watched": with_cost(shaped("watched_direct", "watched_relay", "watched_kafka")),
    "idle": shaped(*(f"idle_{path}_{name}" for path in ("direct", "crossing", "kafka") for name in ("p50", "p99"))),
    "latency": shaped("kafka_latency"),
    "transactions": {f"transactions_{size}{cost}" for size in (1, 100, 10_000) for cost in ("", "_cpu")},
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
_OF_KAFKA = "kafka", "journal", "sharing", "links", "tls", "idle", "watched", "latency", "scan", "source"
KAFKA = {figure for case in _OF_KAFKA for figure in EXPECTED[case]}
_MORE = "artemis", "links", "tls", "idle", "watched", "latency", "scan", "columns", "source", "archive"
SERVERS = "kafka", "journal", "transactions", "sharing", *_MORE
"""They start a Kafka or a Spark of their own."""
LONG = *SERVERS, "crossing", "relays", "crowds", "memory", "replies", "reply queue", "start"
"""They take seconds, most of them with a gateway and generators of load; one gateway is below, with consumers."""
SHORT = [case for case in EXPECTED if case not in LONG]
CASES = [pytest.param(case, marks=pytest.mark.soak if case in LONG else ()) for case in EXPECTED]
_LATENCIES = shaped("direct_latency", "relay_latency")
Measured = Callable[[str], dict[str, Any]]
COMPARED = (KAFKA - _COUNTED) | EXPECTED["replies"] | EXPECTED["crossing"] | (EXPECTED["relays"] - _LATENCIES)


@pytest.fixture(scope="module")
def measured() -> Measured:
    """Measures cases in a process of their own: a case may start what lasts as long as its process (Spark's Java does).

    Those of `make test` in one go, for each process costs as much as a small case.
    """
    reports: dict[str, dict[str, Any]] = {}

    def report(case: str) -> dict[str, Any]:
        if case not in reports:
            cases = [case] if case in LONG else SHORT
            reports.update(dict.fromkeys(cases, run(*cases)))
        return reports[case]

    return report


def run(*cases: str) -> dict[str, Any]:
    """The report of a small run."""
    output = fresh_folder("bench") / "bench.json"
    command = [sys.executable, "-m", "tests.bench", "--quick", "--only", *cases, "--output", str(output)]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **UNMEASURED}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report: dict[str, Any] = json.loads(output.read_text())
    expected: set[str] = set().union(*(EXPECTED[case] for case in cases))
    assert set(report) - {"run"} == expected
    assert report["run"]["not_measured"] == {}
    assert report["run"]["cores"] == os.cpu_count()
    return report


@pytest.mark.parametrize("case", CASES)
def test_case_is_measured(case: str, measured: Measured) -> None:
    report = measured(case)
    for name in EXPECTED[case]:
        assert report[name]["value"] > 0
        assert name not in COMPARED or math.isfinite(report[name]["ratio"])


def test_consumers_of_each_kind_read_to_the_end(tmp_path: Path) -> None:
    """What the cases `links` and `tls` ask of the load generator, with a Kafka that is there at once."""
    authority = Authority(tmp_path)
    with closing(BenchGateway("embedded", tls=authority.server(), topics="t: 1")) as gateway:
        send = {"kind": "send", "send_to": gateway.edge, "send_address": "events/t", "seconds": 0.1, "warmup": 0.0}
        sent = generated(send | {"shape": "jms/text", "in_flight": 50})  # the embedded Kafka keeps 5 MB
        assert sent["not_accepted"] == 0
        for more in (*KINDS.values(), {"tls": str(authority.ca)}):
            where = gateway.places("tls" in more)["edge"]
            node = {"receive_address": f"{more.get('node', 'events')}/t", "receive_from": where}
            options = {key: value for key, value in more.items() if key not in ("node", "sql")}
            plan = {"kind": "receive", "count": sent["total"], "earliest": True, **node, **options}
            assert generated(plan)["total"] >= sent["total"] > 0, more


def generated(plan: dict[str, Any]) -> dict[str, Any]:
    """What the load generator says of a plan."""
    found: dict[str, Any] = json.loads(module("load.loadgen", json.dumps(plan)))
    return found
