"""docs/guide/operations.md: two gateways of its policy, drained and upgraded, with rotated keys and users."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cli.commands import run
from tests.support.cli.guides import Guide, ported, shell
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports, socket_folder
from tests.support.project.parts import ROOT
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis

GUIDE = Guide("operations.md")
LOGIN = {"SCOPEGATE_PASSWORD": "secret-of-orders"}


class Machine:
    """One of the machines of the guide, with the gateway's policy, keys and users in a folder."""

    def __init__(self, backends: dict[str, str], id: str) -> None:
        self.folder = socket_folder("operations")
        self.folder.chmod(0o700)
        self.policy = self.folder / "gateway.yaml"
        self.edge, core, http = ports(3)
        self._ports = {5672: self.edge, 5673: core, 8672: http}
        self._here = {
            **backends,
            "id: gw-1": f'id: {id}\n  admin: {{listen: "unix:{self.folder}/admin.sock"}}',
            "10s": "100ms",
        }
        self.write(GUIDE.named("gateway.yaml"))

    def write(self, text: str) -> None:
        """Write the policy with this machine's ports and the suite's servers; in one step, as editors do."""
        text = ported(text, self._ports)
        for guide, here in self._here.items():
            text = text.replace(guide, here)
        beside = self.policy.with_name("next.yaml")
        beside.write_text(text)
        beside.replace(self.policy)

    def does(self, block: str) -> str:
        """Run a block of the guide; return what it printed."""
        done = shell(GUIDE.named(block), self.folder, SCOPEGATE_ADMIN=f"unix:{self.folder}/admin.sock")
        return done.stdout + done.stderr

    def copy(self, other: Machine) -> None:
        """Take keys and users from another machine."""
        for file in (*other.folder.glob("keys/*"), other.folder / "users.yaml"):
            here = self.folder / file.relative_to(other.folder)
            here.parent.mkdir(exist_ok=True)
            here.write_bytes(file.read_bytes())


def served(machine: Machine, topic: str) -> None:
    """A client with a login gets its event into the topic."""
    url = f"amqp://orders@127.0.0.1:{machine.edge}"
    sent = run("send", url, f"events/{topic}", "--body", "an event", env=LOGIN)
    assert sent.returncode == 0, sent.stderr


@pytest.fixture
def machines(kafka_broker: KafkaBroker, redis_server: Redis) -> tuple[Machine, Machine]:
    backends = {"kafka1:9092,kafka2:9092": kafka_broker.bootstrap, "redis://redis:6379/0": redis_server.url}
    first, second = Machine(backends, "gw-1"), Machine(backends, "gw-2")
    assert "ok: 2 scopes" in first.does("prepare")
    second.copy(first)
    return first, second


def rotate(first: Machine, gateway: Gateway) -> None:
    """The three steps of a new key."""
    first.does("new-key")
    text = GUIDE.named("gateway.yaml")
    old = '    "2026-11": {file: keys/2026-11}\n'
    for step in (
        text.replace(old, old + GUIDE.named("ring.yaml")),
        text.replace(old, old + GUIDE.named("ring.yaml")).replace('active: "2026-11"', 'active: "2026-12"'),
        text.replace(old, GUIDE.named("ring.yaml")).replace('active: "2026-11"', 'active: "2026-12"'),
    ):
        first.write(step)
        first.does("reload")
    assert gateway.process.alive


def test_the_commands_of_the_guide(
    machines: tuple[Machine, Machine], start_gateway: Gateways, kafka_broker: KafkaBroker
) -> None:
    first, second = machines
    gateways = [start_gateway(each.policy) for each in machines]
    topic = kafka_broker.create_topic(partitions=1)
    for each in machines:
        served(each, topic)
    gateways[0].wait_log("serving")  # it is ready before its admin API
    assert "ready" in first.does("look")
    before = len(gateways[0].log())
    first.does("user")
    gateways[0].wait_log("policy reloaded", after=before, reason="changed file")
    before = len(gateways[0].log())
    removed, *left = first.does("no-user").splitlines()
    assert removed == "billing is no longer in users.yaml"
    assert "orders" in left
    assert "billing" not in left
    gateways[0].wait_log("policy reloaded", after=before, reason="changed file")
    rotate(first, gateways[0])
    served(first, topic)
    first.does("drain")
    assert gateways[0].process.wait() == 0
    served(second, topic)
    gateways[0].restart()
    assert first.does("ready") == "ready\n"
    served(first, topic)


def strings() -> str:
    """All source texts of the product, for names that the guide says it has."""
    return "".join(path.read_text() for top in ("gateway", "bridges") for path in Path(ROOT / top).rglob("*.py"))


def test_log_lines_metrics_and_figures_of_the_guide_exist() -> None:
    source = strings()
    lines = {text for row in re.findall(r"log: (.*?) \|", GUIDE.text) for text in re.findall(r"`([a-zA-Z ,-]+)`", row)}
    assert len(lines) > 5
    assert [line for line in lines - {"reason"} if f'"{line}"' not in source] == []
    metrics = set(re.findall(r"`scopegate_(\w+?)(?:_total)?[`{]", GUIDE.text))
    assert len(metrics) > 7
    missing = [name for name in metrics if not re.search(rf'"{name}"|_{name.rpartition("_")[2]}"', source)]
    assert missing == []
    benchmarks = (ROOT / "docs/benchmarks.md").read_text()
    figures = re.findall(r"\d+,\d{3}|\d+\.\d KiB", GUIDE.text.partition("## Sizing")[2].partition("##")[0])
    assert len(figures) == 4
    assert [figure for figure in figures if figure not in benchmarks] == []
