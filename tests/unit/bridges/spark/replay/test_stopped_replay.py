"""A replay to a topic that was told to stop ends at once, whoever is away."""

from __future__ import annotations

import threading

import pytest

from bridges.kafka.produce.replayer import ReplayTarget
from bridges.spark.errors import PipelineError, Stopped
from bridges.spark.jobs.replay import _check_end

NOBODY = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}
TARGET = ReplayTarget(NOBODY, "again", 1, 1_000_000, "n", "orders", "the id of the topic")


def test_a_stopped_replay_does_not_ask_kafka() -> None:
    stop = threading.Event()
    with pytest.raises(PipelineError, match=r"127\.0\.0\.1:1"):
        _check_end(TARGET, NOBODY, stop, 3)
    stop.set()
    with pytest.raises(Stopped, match=r"^stopped after 3 events: run the same command to continue$"):
        _check_end(TARGET, NOBODY, stop, 3)
