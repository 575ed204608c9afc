"""Which modules are broken, and which tests may notice: those that need no JVM and ask for what the modules do."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.parts import ROOT

ROOMS = (
    ("gateway/nodes/**/*.py", "gateway/routing/*.py", "gateway/connectors/*.py", "gateway/forwarding/*.py"),
    ("gateway/response/**/*.py",),
    ("bridges/kafka/**/*.py",),
    ("gateway/filters/**/*.py",),
)
"""Nodes, response routing, Kafka links, filters: mutants are drawn from these in equal shares."""

FOLDERS = ("unit", "property", "protocol", "integration")
LEFT_OUT = {
    "unit": "bench cli deploy docs examples pipeline_sentences spark_column walls",
    "property": "filter_spark",
    "integration": (
        "bench_smoke capability_matrix clients connector descriptors essential_tasks filter_command groups_processes "
        "groups_random install journal kafka_broker kafka_client_version kafka_faults kafka_memory kafka_security "
        "memory memory_load observability pairs_clients quickstart reload_secrets report security simulate "
        "spark_classes state state_redis stock_dialogues support two_networks "
        "pipeline_amqp_target pipeline_archive pipeline_cluster pipeline_command pipeline_counts pipeline_delta "
        "pipeline_disk pipeline_journey pipeline_kills pipeline_mistakes pipeline_pauses pipeline_sink "
        "pipeline_source pipeline_stopped pipeline_stream pipeline_tls process event_streams_clients filter_clients"
    ),
}
"""Tests of other things than the rooms do, of a JVM, or of minutes."""


def files_of_tests() -> Iterator[str]:
    """Yield the files of tests, quick folders first."""
    for folder in FOLDERS:
        left_out = {f"test_{name}" for name in LEFT_OUT.get(folder, "").split()}
        for path in sorted((ROOT / "tests" / folder).rglob("test_*.py")):
            if path.stem not in left_out:
                yield str(path.relative_to(ROOT))
