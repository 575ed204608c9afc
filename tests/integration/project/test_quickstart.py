"""`scopegate quickstart`, the first thing anybody runs: it verifies itself, says what failed, and ends when asked."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.amqp.foreign import rhea_environment
from tests.support.browser.window import Browser
from tests.support.gateway.process import PATIENCE, Process, answers, free_port, fresh_folder, wait_until
from tests.support.project.parts import ROOT

EXAMPLE = (ROOT / "policies/examples/quickstart.yaml").read_text()
PORTS = ("5672", "5673", "8672", "8673", "8674", "8675")
SECONDS = 3 * PATIENCE


def policy(text: str = EXAMPLE) -> Path:
    """Return the example on free ports, as a file."""
    for port in PORTS:
        assert f":{port}" in text, f"the example no longer listens on {port}"
        text = text.replace(f":{port}", f":{free_port()}")
    path = fresh_folder("quickstart") / "policy.yaml"
    path.write_text(text)
    return path


def start(path: Path, *options: str, **env: str) -> Process:
    """Start the command on a policy."""
    command = [sys.executable, "-m", "gateway.cli.main", "quickstart", "--policy", str(path), *options]
    return Process("quickstart", command, env={"PYTHONPATH": str(ROOT), "TMPDIR": str(path.parent), **env})


def once(path: Path) -> tuple[int, str]:
    """Return exit code and output of a run that ends after the transcript."""
    process = start(path, "--once")
    try:
        return process.wait(SECONDS), process.text()
    finally:
        process.discard()


def serving(process: Process) -> None:
    """Wait until it has said how to attach."""
    process.wait_ready(lambda: "Ctrl-C ends it." in process.text(), "the quickstart to serve", SECONDS)


@pytest.fixture(scope="module")
def quickstart() -> Iterator[tuple[Process, Path]]:
    """A quickstart that serves, until the last of these tests ends it: each costs ten seconds of processor time."""
    path = policy()
    process = start(path)
    try:
        serving(process)
        yield process, path
    finally:
        process.discard()


@pytest.fixture
def transcript(quickstart: tuple[Process, Path]) -> str:
    """Return what it prints before it says how to attach; `--once` ends there, with 0 (test_install.py)."""
    text, verified, _ = quickstart[0].text().partition(" claims were verified.\n")
    assert verified
    return text


def test_it_verifies_every_step(transcript: str) -> None:
    for claim in (
        "the service has the client's message byte for byte",
        "it names the client's scope and address",
        "refused: rejected (amqp:unauthorized-access)",
        "it came home byte for byte",
        "all sections are equal: the client cannot tell the difference",
        "10,000 accepted",
        "all of them came back, each once",
        "in order in every partition",
        "10,000 records: the same bodies and keys at the same offsets",
        "it says what the consumer saw",
        "201: the gateway delivers from now on",
        "the service gets what it asked for, byte for byte and in order",
        "active, at least once, two delivered",
        "it answers whoever has the token",
        "every part is ready",
    ):
        assert f"ok  {claim}" in " ".join(transcript.split()).replace(" ok ", " ok  ")
    assert "FAILED" not in transcript


def test_it_is_plain_text_for_80_columns(transcript: str) -> None:
    assert transcript.replace(str(ROOT), "").isascii()
    assert "\x1b" not in transcript
    assert max(map(len, transcript.splitlines())) <= 80


def test_a_missing_kafka_rule_is_a_failed_step() -> None:
    code, text = once(policy(EXAMPLE.replace("events/", "elsewhere/")))
    assert code == 1
    assert "FAILED" in text
    assert "amqp:not-found" in text
    assert "cannot tell the difference" in text, "the chapter before it is not affected"


def test_a_request_without_its_cookie_is_a_failed_step_with_what_was_expected() -> None:
    """With `replies: rewrite` no request carries a cookie, whatever the service announces."""
    code, text = once(policy(EXAMPLE.replace("replies: auto", "replies: rewrite")))
    assert code == 1
    lines = [line.split() for line in text.splitlines()]
    assert any(line[:1] == ["FAILED"] for line in lines)
    assert any(line[:1] == ["expected"] for line in lines)
    assert any(line[:1] == ["got"] for line in lines)


def test_a_wrong_policy_is_reported_as_by_check() -> None:
    code, text = once(policy(EXAMPLE.replace("replies: auto", "replies: perhaps")))
    assert code == 1
    assert "policy.yaml:" in text
    assert "replies" in text


def test_a_taken_port_is_one_clear_line() -> None:
    path = policy()
    bind = next(line for line in path.read_text().splitlines() if "bind" in line).split('"')[1]
    with socket.create_server(("127.0.0.1", int(bind.rpartition(":")[2]))):
        code, text = once(path)
    assert code == 1
    complaint = next(line for line in text.splitlines() if bind in line)
    assert "scope edge" in complaint
    assert "--policy FILE" in complaint


def test_ctrl_c_in_a_terminal_ends_make_with_0(tmp_path: Path) -> None:
    """Make would answer a Ctrl-C of its own with an error."""
    command = shlex.join([sys.executable, "-m", "gateway.cli", "quickstart", "--policy", str(policy())])
    (tmp_path / "Makefile").write_text(f"run:\n\t@{command}\n")
    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ.update(PYTHONPATH=str(ROOT), TERM="xterm")
        os.execvp("make", ["make", "--no-print-directory", "-C", str(tmp_path)])
    shown = read_terminal(terminal, b"Ctrl-C ends it.")
    assert b"\x1b[32mok\x1b[0m" in shown, "a terminal gets colour"
    os.write(terminal, b"\x03")
    assert b"done." in read_terminal(terminal, b"done.")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(terminal)


def read_terminal(terminal: int, until: bytes) -> bytes:
    """Return what was shown up to and with `until`."""
    shown, deadline = b"", time.monotonic() + SECONDS
    while until not in shown:
        assert time.monotonic() < deadline, shown.decode(errors="replace")
        if select.select([terminal], [], [], 0.1)[0]:
            shown += read_some(terminal, shown)
    return shown


def read_some(terminal: int, shown: bytes) -> bytes:
    """Return what comes next; fails with what came before if the command has ended (Linux answers EIO then)."""
    try:
        return os.read(terminal, 65536)
    except OSError as error:
        pytest.fail(f"the command ended ({error}) after\n{shown.decode(errors='replace')}")


def example(text: str, start: str) -> str:
    """Return a printed example: from the line that starts so to the next empty one."""
    lines = [line.strip() for line in text.splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith(start))
    return "\n".join(lines[first : lines.index("", first)])


def test_the_printed_examples_work(quickstart: tuple[Process, Path]) -> None:
    text = quickstart[0].text()
    paths = (str(quickstart[1].parent), "gateway.log")
    assert max(len(line) for line in text.splitlines() if not any(path in line for path in paths)) <= 80
    log = Path(next(line.strip() for line in text.splitlines() if line.endswith("gateway.log")))
    before = log.read_text().count("link attached")
    node = Process("example", ["node", "-e", example(text, "// Node.js")], env=rhea_environment())
    try:
        wait_until(lambda: log.read_text().count("link attached") > before, "the receiver's attach")
        python = Process("example", [sys.executable, "-c", example(text, "# Python")])
        assert python.wait() == 0, python.text()
        python.discard()
        wait_until(lambda: "tea" in node.text(), "the event at the receiver")
    finally:
        node.discard()
    with Browser() as browser:
        browser.window(1440, 900)
        browser.open(next(line.strip() for line in text.splitlines() if "/#token=" in line))
        browser.wait_text("operate", "#who")
        browser.wait_text("svc/{name}", "main")


def test_a_second_one_says_that_the_first_serves(quickstart: tuple[Process, Path]) -> None:
    code, text = once(quickstart[1])
    assert code == 1
    assert "another quickstart" in text


def test_ctrl_c_ends_it_at_once(quickstart: tuple[Process, Path]) -> None:
    process, path = quickstart
    begin = time.monotonic()
    assert process.end(signal.SIGINT) == 0
    assert time.monotonic() - begin < 20
    assert "done." in process.text()
    nothing_serves(path)


def test_killing_it_leaves_no_gateway_behind() -> None:
    path = policy()
    process = start(path)
    try:
        process.wait_ready(lambda: answers(first_port(path)), "the gateway to serve", SECONDS)
        process.end(signal.SIGKILL)
    finally:
        process.discard()
    nothing_serves(path)


def first_port(path: Path) -> int:
    """Return the port of the first listener of a policy."""
    bind = next(line for line in path.read_text().splitlines() if "bind" in line).split('"')[1]
    return int(bind.rpartition(":")[2])


def nothing_serves(path: Path) -> None:
    """Wait until nobody listens any more at the first address of a policy."""
    wait_until(lambda: not answers(first_port(path)), "the gateway to end")
