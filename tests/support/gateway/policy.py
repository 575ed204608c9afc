"""Policies in tests: load text without a disk, and read the mistakes as short lines."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from policies.load.loader import load_policy
from policies.rules import CompiledPolicy
from policies.text.diagnostics import PolicyErrors

KEY = "Gx1vK8mQz0bT5rYd2WfLpNs7HcJ4uEaXoR9iVtBqDkM"  # as `scopegate keys new` makes them


def load_text(
    text: str, *, environ: Mapping[str, str] = {}, files: Mapping[str, bytes] = {}, with_secrets: bool = True
) -> CompiledPolicy:
    """Load a policy written in a test; `files` are the files beside it."""
    contents = {Path("etc/p.yaml"): textwrap.dedent(text).encode()}
    contents |= {Path("etc") / name: content for name, content in files.items()}

    def read_bytes(path: Path) -> bytes:
        if path not in contents:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return contents[path]

    return load_policy(Path("etc/p.yaml"), environ=environ, read_bytes=read_bytes, with_secrets=with_secrets)


def mistakes(text: str, *, environ: Mapping[str, str] = {}, files: Mapping[str, bytes] = {}) -> list[str]:
    """Every mistake as `line:column: key: message`."""
    with pytest.raises(PolicyErrors) as caught:
        load_text(text, environ=environ, files=files)
    return [str(problem).removeprefix("etc/p.yaml:") for problem in caught.value.problems]


def load_any(raw: bytes) -> CompiledPolicy | list[str]:
    """Load any bytes: a policy, or its mistakes, of which each has its place and is one line."""

    def read_bytes(path: Path) -> bytes:
        if path.name != "p":
            raise FileNotFoundError(2, "No such file or directory")
        return raw

    try:
        return load_policy(Path("p"), environ={}, read_bytes=read_bytes)
    except PolicyErrors as errors:
        problems = errors.problems
    assert problems
    assert all(problem.line > 0 and problem.column > 0 for problem in problems)
    assert all("\n" not in str(problem) for problem in problems)
    return [str(problem) for problem in problems]
