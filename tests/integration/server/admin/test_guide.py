"""docs/guide/admin.md: its commands, and the request of its API, against a gateway with one client."""

from __future__ import annotations

import re
import shlex
import subprocess

from tests.support.amqp.peer import Peer
from tests.support.cli.commands import run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import socket_folder
from tests.support.project.parts import ROOT

GUIDE = (ROOT / "docs/guide/admin.md").read_text()
LINES = re.findall(r"^    ((?:scopegate|curl) .*)$", GUIDE, re.MULTILINE)


def test_every_command_of_the_guide_works(start_gateway: Gateways) -> None:
    folder = socket_folder("guide")
    folder.chmod(0o700)
    place = folder / "admin.sock"
    document = Document(admin={"listen": f"unix:{place}"})
    start_gateway(document.text).wait_log("serving")  # it is ready before its admin API
    with Peer(document.edge) as peer:
        peer.start()
        peer.attach_receiver("chat/room")
        for line in LINES:
            name, *arguments = (word.replace("/run/scopegate/admin.sock", str(place)) for word in shlex.split(line))
            if name == "scopegate":
                done = run(*arguments, env={"RUNTIME_DIRECTORY": str(folder)})
            else:
                done = subprocess.run([name, "--silent", "--fail", *arguments], capture_output=True, text=True)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            assert done.stdout, line
    assert len(LINES) >= 12
