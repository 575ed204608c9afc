"""The commands and files of a page below docs/guide, so that tests run what readers copy."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.cli import client
from tests.support.gateway.gateway import warm_parent
from tests.support.gateway.process import PATIENCE
from tests.support.project.parts import ROOT

_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language, the name after it (a file, or what a test does with it), and its text."""

    language: str
    name: str
    text: str


class Guide:
    """A page with its blocks."""

    def __init__(self, name: str) -> None:
        self.text = (ROOT / "docs/guide" / name).read_text()
        self.blocks = [Block(*found) for found in _BLOCK.findall(self.text)]

    def named(self, name: str) -> str:
        """The text of the only block with this name."""
        (found,) = [block.text for block in self.blocks if block.name == name]
        return found


def ported(text: str, ports: Mapping[int, int]) -> str:
    """The text with free ports instead of those of a guide, all in one pass, and on the loopback interface only."""
    here = re.sub(r":(\d{4})\b", lambda found: f":{ports.get(int(found[1]), found[1])}", text)
    return here.replace("0.0.0.0", "127.0.0.1")


def shell(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run lines of bash in a folder, where `scopegate` is the command of this tree; any failure ends them."""
    control = warm_parent().control
    words = sys.executable, "-I", "-S", client.__file__, str(control)
    scopegate = f'scopegate() {{ {shlex.join(words)} "$@"; }}'
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{scopegate}\n{script}"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True,
        timeout=2 * PATIENCE, check=False, pass_fds=[control],
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done
