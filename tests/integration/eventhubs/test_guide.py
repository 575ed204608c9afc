"""docs/guide/from-event-hubs.md: its policy, its commands and its programs, on free ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli.commands import run as run_scopegate
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, ports
from tests.support.project.parts import ROOT

GUIDE = (ROOT / "docs/guide/from-event-hubs.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


@pytest.mark.row("EH-12", part="the guide")
def test_the_guide(start_gateway: Gateways, tmp_path: Path) -> None:
    amqp, http = ports(2)
    (policy,), (commands,), (connection,) = blocks("yaml"), blocks("sh"), blocks("text")
    export, check, run = commands.splitlines()
    key = subprocess.check_output(["sh", "-c", f"{export}; printf %s \"$SHOP_KEY\""], text=True)
    assert len(key) == 44
    text = policy.replace("5672", str(amqp)).replace("8080", str(http))
    (tmp_path / "hubs.yaml").write_text(text)
    environment = {**os.environ, "SHOP_KEY": key, "PYTHONPATH": str(ROOT)}

    def output(*command: str) -> str:
        return subprocess.check_output(command, text=True, env=environment, cwd=tmp_path, timeout=2 * PATIENCE)

    def scopegate(command: str) -> str:
        done = run_scopegate(*command.removeprefix("scopegate ").split(), env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    scopegate(check)
    assert run == "scopegate run hubs.yaml"
    start_gateway(text, env={"SHOP_KEY": key})
    environment["CONNECTION"] = connection.strip().replace("5672", str(amqp)).replace("<SHOP_KEY>", key)
    send, receive = blocks("python")
    told = [output(sys.executable, "-c", each) for each in (send, receive)]
    assert told == ["sent to orders\n", "0 first event\n1 second event\n"]
    (explain,) = re.findall(r"`(scopegate explain [^`]*)`", GUIDE)
    assert "allowed" in scopegate(explain)
