"""A gateway from the warm parent ends as one that was started by itself: same exit code, output and exit handlers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import UNMEASURED
from tests.support.gateway.warm import IMPORTS
from tests.support.project.parts import ROOT

PROGRAM = """
import atexit, sys, threading, time
from tests.support.gateway.warm import end_with
def main():
    atexit.register(print, "handlers")
    threading.Thread(target=lambda: (release.wait(), print("thread"))).start()
    print("main")
    try:
        {ending}
    finally:
        release.set()
class Imported:
    __del__ = lambda self: print("gone")
imported, release = Imported(), threading.Event()
{call}
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **UNMEASURED}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def ended(ending: str, call: str) -> tuple[int, str, str]:
    """Exit code, output and the last line of the errors of a program with this ending."""
    program = PROGRAM.format(ending=ending, call=call)
    done = run(program)
    return done.returncode, done.stdout, "".join(done.stderr.splitlines()[-1:])


@pytest.mark.parametrize(
    "ending", ["pass", "sys.exit()", "sys.exit(0)", "sys.exit(3)", "sys.exit('why')", "raise ValueError('why')"]
)
def test_a_program_ends_as_it_would_by_itself_but_takes_nothing_to_pieces(ending: str) -> None:
    code, out, error = ended(ending, "main()")
    assert out.split() == ["main", "thread", "handlers", "gone"]
    assert ended(ending, "end_with(main)") == (code, out.replace("gone\n", ""), error)


@pytest.mark.parametrize(
    ("name", "says"), [("_RECOVERED", "1.5"), ("_NO_SUCH", "AttributeError"), ("asyncio", "no constant")]
)
def test_a_child_has_the_constants_that_its_environment_names(name: str, says: str) -> None:
    """Others are as they were; what is no number of seconds, or is not there, is refused."""
    program = (
        "import gateway.tasks as g; from tests.support.gateway.warm import CONSTANTS as C, _become\n"
        f"_become([], {{C: '{{\"gateway.tasks.{name}\": 1.5}}'}}, '.', []); print(g._RECOVERED, g._LONGEST_PAUSE)"
    )
    done = run(program)
    assert says in done.stdout + done.stderr
    assert (done.returncode, done.stdout) == ((0, "1.5 30.0\n") if name == "_RECOVERED" else (1, ""))


def test_a_gateway_finds_imported_what_it_needs(start_gateway: Gateways, tmp_path: Path) -> None:
    """Else hundreds import it again, with probes: a third of a second for each."""
    document = Document(journal={"kafka": "main"})
    document.relay(replies="rewrite")
    document.kafka("embedded", topics={"log": 1, "scopegate.journal": 1})
    imports = tmp_path / "imports"
    start_gateway(document.text, env={"SCOPEGATE_TEST_KEY": "k" * 43, IMPORTS: str(imports)}).stop()
    assert imports.read_text().split() == []
