"""Loads policy files from this machine: hands the pure loader the environment and the disk."""

from __future__ import annotations

import os
from pathlib import Path

from policies.load import load_policy
from policies.rules import CompiledPolicy


def load(path: Path, *, with_secrets: bool = True) -> CompiledPolicy:
    """The policy at `path`; raises `policies.problems.PolicyErrors` with every mistake."""
    return load_policy(path, environ=os.environ, read_bytes=Path.read_bytes, with_secrets=with_secrets)
