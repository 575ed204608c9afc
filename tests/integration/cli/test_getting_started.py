"""docs/guide/getting-started.md: its policy, and its commands from the first to the last, on free ports."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli.commands import run
from tests.support.cli.guides import Guide, ported, shell
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports, socket_folder
from tests.support.project import dockerfile

GUIDE = Guide("getting-started.md")


class Reader:
    """Somebody who follows the guide in a folder, on other ports than its own."""

    def __init__(self, start: Gateways) -> None:
        self.amqp, http = ports(2)
        self.folder = socket_folder("started")
        self.folder.chmod(0o700)
        self.policy = self.folder / "first.yaml"
        self.where = f'gateway: {{http: "127.0.0.1:{http}", admin: {{listen: "unix:{self.folder}/admin.sock"}}}}\n'
        self.write(GUIDE.named("first.yaml"))
        self.gateway: Gateway = start(self.policy)

    def write(self, text: str) -> None:
        """Write the guide's policy, with free ports."""
        self.policy.write_text(self.where + self.ported(text))

    def ported(self, text: str) -> str:
        """The text with this gateway's ports and folders."""
        return ported(text, {5672: self.amqp}).replace("//localhost", f"//127.0.0.1:{self.amqp}")

    def does(self, block: str) -> str:
        """Run a block of the guide; return what it printed."""
        place = {"SCOPEGATE_ADMIN": f"unix:{self.folder}/admin.sock"}
        return shell(self.ported(GUIDE.named(block)), self.folder, **place).stdout


def test_the_policy_has_eight_lines_and_no_mistake(tmp_path: Path) -> None:
    text = GUIDE.named("first.yaml")
    assert text.count("\n") == 8
    (tmp_path / "first.yaml").write_text(text)
    done = shell(GUIDE.named("check"), tmp_path)
    assert done.stdout.startswith("ok: 1 scope, 1 listener, "), done.stderr


def test_the_installation_is_what_the_image_does() -> None:
    """`test_install.py` runs these steps from the lock files."""
    build, _ = dockerfile.stages()
    steps = [value for name, value in build if name == "RUN"]
    for line in GUIDE.named("install").splitlines()[:2]:
        words = line.replace("~/", "/opt/").split()
        assert any(all(word in step.split() for word in words) for step in steps), line


def test_every_command_of_the_guide(start_gateway: Gateways) -> None:
    reader = Reader(start_gateway)
    assert GUIDE.named("run") == "scopegate run first.yaml\n"
    assert sorted(reader.does("stream").splitlines()) == ["coffee", "first event", "tea"]
    assert reader.does("queue") == "a letter\n"
    explained = reader.does("ask")
    assert "allowed" in explained
    assert "ready" in explained
    reader.does("user")
    changed = GUIDE.named("first.yaml")
    for name in ("listen.yaml", "access.yaml"):
        key = GUIDE.named(name).split(":")[0]
        (line,) = [line for line in changed.splitlines(keepends=True) if line.startswith(f"{key}:")]
        changed = changed.replace(line, GUIDE.named(name))
    before = len(reader.gateway.log())
    reader.write(changed)
    reader.gateway.wait_log("policy reloaded", after=before)
    reader.does("login")
    refused = run("send", f"amqp://127.0.0.1:{reader.amqp}", "events/orders", "--body", "x")
    assert refused.returncode == 1
    kept = run("receive", f"amqp://127.0.0.1:{reader.amqp}", "events/orders", "--from", "earliest", "--user", "alice",
               env={"SCOPEGATE_PASSWORD": "secret-of-alice"})  # fmt: skip
    assert "from alice" in kept.stdout.splitlines()
