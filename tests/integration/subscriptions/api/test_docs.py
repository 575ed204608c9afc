"""The commands of docs/subscriptions.md, as they are printed, against a running gateway."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator

import pytest
import yaml

from tests.support.gateway.gateway import Gateways
from tests.support.gateway.policy import KEY, load_text
from tests.support.project.parts import ROOT
from tests.support.servers.http_sink import http_sink
from tests.support.subscriptions.api import USERS, api_port, sink_ports, subscription_policy

PAGE = (ROOT / "docs/subscriptions.md").read_text()
EXPECTED = [201, 200, 200, 200, 200, 200, 200, 200, 200]
"""The statuses of the page's commands, in their order."""


def commands() -> Iterator[str]:
    """Every command of the page's shell blocks."""
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        yield from re.findall(r"^curl .*?(?=^curl |\Z)", block, re.DOTALL | re.MULTILINE)


def test_the_policy_of_the_page_is_a_policy() -> None:
    text = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
    document = yaml.safe_load(text)
    assert document["scopes"]["edge"]["subscriptions"][0]["name"] == "orders"
    files = dict.fromkeys(("users.yaml", "api.pem", "api.key"), b"{}")
    assert load_text(text, environ={"SCOPEGATE_KEY": KEY}, files=files).model.scopes["edge"].subscriptions


@pytest.mark.row("CE-3.3-1")
async def test_the_commands_of_the_page_work(
    tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways
) -> None:
    document = subscription_policy(tmp_path_factory.mktemp("docs"))
    start_gateway(document.text)
    place = f"http://127.0.0.1:{api_port(document)}"
    async with http_sink(port=sink_ports(document)[0]) as sink:
        statuses = []
        for command in commands():
            line = command.replace("https://API", place).replace("https://SINK", sink.url)
            words = shlex.split(line.replace("PASSWORD", USERS["billing"]))
            called = [words[0], "-s", "-o", "/dev/null", "-w", "%{http_code}", *words[1:]]
            process = await asyncio.create_subprocess_exec(*called, stdout=asyncio.subprocess.PIPE)
            out, _ = await process.communicate()
            statuses.append(int(out))
    assert statuses == EXPECTED
