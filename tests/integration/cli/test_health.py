"""`scopegate health`, backends that the policy requires, and the wait between SIGTERM and the drain."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.support.amqp.peer import Peer
from tests.support.cli.commands import run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import NO_SUCH_PROXY, free_port, wait_until


@pytest.mark.parametrize("backend", ["kafka", "connector"])
def test_a_backend_that_is_away_makes_unready_only_where_the_policy_says_so(
    start_gateway: Gateways, backend: str
) -> None:
    document = Document()
    if backend == "kafka":
        document.kafka(f"127.0.0.1:{free_port()}")
        entry, name = document.data["kafka"]["main"], "kafka/main"
    else:
        document.connector(free_port())
        entry, name = document.scope()["connect"][0], "connector/edge/broker"
    gateway = start_gateway(document.text, ready=False)
    wait_until(lambda: gateway.get("/readyz")[0] == 200, "an answer")
    found = run("health", str(gateway.policy))
    assert (found.returncode, found.stdout) == (0, "ready\n")
    assert found.stderr.startswith(f"{name}: ")
    assert found.stderr.endswith("(not required)\n")
    entry["required"] = True
    gateway.reload(document.text)
    found = run("health", str(gateway.policy))
    assert (found.returncode, found.stdout) == (1, "not ready\n")
    assert "(not required)" not in found.stderr
    assert json.loads(gateway.get("/readyz")[1])["parts"][name]["required"] is True
    assert run("health", "--live", str(gateway.policy)).stdout == "alive\n"


def test_health_asks_where_it_is_told(start_gateway: Gateways) -> None:
    gateway = start_gateway(Document().text)
    assert gateway.http is not None
    assert run("health", "--http", gateway.http).stdout == "ready\n"
    nobody = f"127.0.0.1:{free_port()}"
    assert run("health", "--http", gateway.http, env=NO_SUCH_PROXY).stdout == "ready\n"
    found = run("health", "--http", nobody)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith(f"no answer from http://{nobody}: ")
    assert run("health", "--http", nobody, str(gateway.policy)).returncode == 2


def test_health_needs_a_port_and_no_secrets(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("gateway: {http: off}\nkeys: {active: a, ring: {a: {env: NOT_SET}}}\nscopes: {edge: }\n")
    found = run("health", str(policy))
    assert (found.returncode, found.stderr) == (1, f"{policy}: gateway.http is off: this gateway answers nobody\n")


def test_it_serves_on_until_balancers_have_noticed(start_gateway: Gateways) -> None:
    document = Document(drain_delay="10m")  # longer than a test may stand still
    gateway = start_gateway(document.text)
    gateway.process.send_signal(signal.SIGTERM)
    wait_until(lambda: gateway.get("/readyz")[0] == 503, "/readyz to say it")
    assert not _shut_down(gateway)
    with Peer(document.edge) as late:  # clients whose balancer has not noticed are still served
        late.start()
    assert not _shut_down(gateway)
    gateway.kill()


def test_it_drains_after_the_delay(start_gateway: Gateways) -> None:
    gateway, began = start_gateway(Document(drain_delay="500ms").text), time.monotonic()
    gateway.stop()
    assert time.monotonic() - began > 0.49
    events = [line["event"] for line in gateway.log()]
    assert events.index("waiting before the drain") < events.index("draining")


def _shut_down(gateway: Gateway) -> bool:
    return any(line["event"] == "draining" for line in gateway.log())
