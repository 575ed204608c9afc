"""Which modules are broken, and which tests may notice: those that need no JVM and ask for what the modules do."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.project.parts import ROOT

ROOMS = (
    ("gateway/nodes/**/*.py", "gateway/routing/*.py", "gateway/connectors/*.py", "gateway/forwarding/*.py"),
    ("gateway/response/**/*.py",),
    ("bridges/kafka/**/*.py",),
    ("gateway/filters/**/*.py",),
)
"""Nodes, response routing, Kafka links, filters: mutants are drawn from these in equal shares."""

FOLDERS = ("unit", "property", "protocol", "integration")
LEFT_OUT = {
    "unit": (
        "bridges/spark/column bridges/spark/errors gateway/cli/cli project/deploy suite/bench suite/examples "
        "project/docs project/walls"
    ),
    "property": (
        "bridges/spark/column"
    ),
    "integration": (
        "amqp/all_capabilities amqp/clients amqp/descriptors amqp/stock_dialogues connectors/dialing "
        "event_streams/clients filters/clients filters/command groups/processes groups/random held/budget "
        "held/load kafka/broker kafka/client_version kafka/consume/memory kafka/faults kafka/security "
        "nodes/clients_of_pairs observability/journal observability/metrics project/bench_smoke project/install "
        "project/quickstart project/support routing/two_networks server/essential_tasks server/process "
        "server/reload/secrets server/security spark/amqp_target spark/archive/archive spark/archive/cluster "
        "spark/archive/counts spark/archive/delta spark/archive/disk spark/archive/kills spark/archive/pauses "
        "spark/archive/stopped spark/archive/tls spark/command spark/journey spark/mistakes spark/report "
        "spark/simulate spark/sink spark/source spark/spark_classes spark/stream state/redis state/shared"
    ),
}
"""Tests of other things than the rooms do, of a JVM, or of minutes."""


def files_of_tests() -> Iterator[str]:
    """Yield the files of tests, quick folders first."""
    for folder in FOLDERS:
        tier, left_out = ROOT / "tests" / folder, LEFT_OUT.get(folder, "").split()
        for path in sorted(tier.rglob("test_*.py")):
            place = path.relative_to(tier)
            if f"{place.parent}/{place.stem.removeprefix('test_')}" not in left_out:
                yield str(path.relative_to(ROOT))
