"""A replay to an AMQP address takes the options of a peer only: those of a reader would select nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridges.spark.archive.read import ArchiveSelection
from bridges.spark.errors import PipelineError
from bridges.spark.jobs.replay import replay_to_address

PEER = {"url": "amqp://127.0.0.1:1", "address": "again"}


@pytest.mark.parametrize("option", ["filter", "startingOffsets", "endingTimestamp", "columns", "failOnDataLoss"])
def test_what_would_select_nothing_is_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(PipelineError, match=rf"^format scopegate: unknown option {option} \(there is: url, address, "):
        replay_to_address(tmp_path, ArchiveSelection(("orders",)), {**PEER, option: "latest"})
