"""Files that would take all memory are no policies, and nothing that a policy names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.config.policy import load
from policies.text.diagnostics import PolicyErrors

POLICY = """
keys: {active: one, ring: {one: {file: key}}}
scopes: {edge: {listen: [{bind: "127.0.0.1:5672"}]}}
"""
NEVER_ENDS = Path("/dev/zero")


@pytest.mark.parametrize("endless", [False, True], ids=["sparse", "endless"])
@pytest.mark.parametrize("name", ["policy.yaml", "key"])
def test_a_file_that_takes_all_memory_is_a_mistake(tmp_path: Path, name: str, endless: bool) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    large = tmp_path / name
    if endless:
        large.unlink(missing_ok=True)
        large.symlink_to(NEVER_ENDS)
    else:
        large.touch()
        os.truncate(large, 70 << 20)
    with pytest.raises(PolicyErrors) as raised:
        load(tmp_path / "policy.yaml")
    text = str(raised.value)
    assert name in text
    assert "cannot be read: larger than 64 MiB" in text
