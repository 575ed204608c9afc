"""The commands that the demonstration of the pipeline shows can be copied into a shell."""

from __future__ import annotations

import shlex

from bridges.spark.quickstart.walkthrough import _line


def test_a_command_of_a_folder_with_a_space_can_be_copied() -> None:
    words = ["archive", "/home/me/my work/archive", "--filter", "priority = 7"]
    assert shlex.split(_line(words)) == ["scopegate", "pipeline", *words]
    assert _line(["verify", "/plain"]) == "scopegate pipeline verify /plain"
