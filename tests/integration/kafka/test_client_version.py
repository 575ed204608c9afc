"""Another version of confluent-kafka works and is slower: `check`, the log and a metric say so (found as E)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridges.kafka.bridge import client_slowness
from bridges.kafka.common.librdkafka import slowness
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import free_port
from tests.support.project.parts import ROOT

OTHER = """
import confluent_kafka
from confluent_kafka import cimpl
cimpl.version = confluent_kafka.version = lambda: "9.9"
"""
SAID = (
    "Kafka records are handled one by one, which is about half as fast: this version of confluent-kafka is 9.9, and "
    "the fast path knows only 2.16.1; install confluent-kafka==2.16.1"
)
POLICY = """
gateway: {{http: "127.0.0.1:{http}"}}
kafka: {{main: {{}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{port}"}}]
    addresses: [{{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}]
"""


@pytest.fixture
def other(tmp_path: Path) -> dict[str, str]:
    """The environment of a process whose client is of another version."""
    (tmp_path / "sitecustomize.py").write_text(OTHER)
    return {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


def slow_client_warnings(gateway: Gateway) -> list[dict[str, Any]]:
    return [line for line in gateway.log() if line.get("event") == "kafka client is slow"]


def test_check_says_so(other: dict[str, str], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(http=free_port(), port=free_port()))
    command = [sys.executable, "-m", "gateway.cli.main", "check", str(policy)]
    env = {**os.environ, **other}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, f"warning: {SAID}" in done.stderr.splitlines()) == (0, True), done.stderr


def test_log_and_metrics_say_so(other: dict[str, str], start_gateway: Gateways) -> None:
    gateway = start_gateway(POLICY.format(http=free_port(), port=free_port()), env=other)
    (line,) = slow_client_warnings(gateway)
    assert (line["level"], line["reason"]) == ("warning", SAID)
    assert gateway.metrics()['scopegate_kafka_client_slow{cluster="main"}'] == 1


def test_the_known_version_is_fast(start_gateway: Gateways) -> None:
    assert client_slowness() is None
    gateway = start_gateway(POLICY.format(http=free_port(), port=free_port()))
    assert slow_client_warnings(gateway) == []
    assert gateway.metrics()['scopegate_kafka_client_slow{cluster="main"}'] == 0


def test_a_build_that_hides_its_library_is_named() -> None:
    said = slowness(False)
    assert said is not None
    assert "this build of confluent-kafka 2.16.1 does not show librdkafka's functions" in said
