"""pytest plugin: the servers of the suite as fixtures and gateways.

One Kafka, one Artemis and one Redis serve all workers (tests/support/servers/keeper.py): use topics, queues and keys
that nobody else uses. A failed test's report ends with the tail of the log of every server that runs.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import LOGS, Process, Server, end_of, sweep
from tests.support.project.commands import program
from tests.support.project.parts import ROOT, folder
from tests.support.servers import keeper
from tests.support.servers.certs import Authority
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.keeper import Keeper
from tests.support.servers.object_store import ObjectStore
from tests.support.servers.servers import DATABASES, Artemis, Redis

S = TypeVar("S", bound=Server)


_KEEPER = pytest.StashKey[Keeper]()
_shared_logs: dict[str, Path] = {}


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start with the folders of earlier runs removed, and with a keeper for what all workers share."""
    sweep()
    if keeper.VARIABLE not in os.environ:
        LOGS.mkdir(parents=True, exist_ok=True)
        session.config.stash[_KEEPER] = Keeper(LOGS / f"{os.getpid()}-keeper.log", ROOT)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the keeper that was started here."""
    if _KEEPER in config.stash:
        config.stash[_KEEPER].close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the servers' last words to a failure."""
    report = yield
    if report.failed:
        report.sections += [(f"log of {process.name}", process.tail(15, 300)) for process in Process.running]
        report.sections += [
            (f"log of {name}, shared", end_of(log.read_text(errors="replace"), 15, 300))
            for name, log in _shared_logs.items()
        ]
    return report


def served(server: S) -> Iterator[S]:
    """Yield a server and end it afterwards, at once: nobody needs what it would put in order."""
    try:
        yield server
    finally:
        server.kill()


def shared(name: str) -> dict[str, Any]:
    """Return what is known of a server that all workers share; from now on its log is in reports of failures."""
    reported = keeper.ask(name)
    _shared_logs[name] = Path(reported["log"])
    return reported


@pytest.fixture(scope="session")
def promtool() -> str:
    """The program that checks what Prometheus is given."""
    return program("promtool")


@pytest.fixture(scope="session")
def cesql_tck() -> Path:
    """The folder with the test cases of CESQL."""
    return folder("cesql-tck")


@pytest.fixture(scope="session")
def kafka_broker() -> KafkaBroker:
    """The shared real broker. Use own topics."""
    reported = shared("kafka")
    return KafkaBroker.at(reported["port"], Path(reported["data"]))


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """A server with the S3 API, in memory. Use own prefixes."""
    yield from served(ObjectStore())


@pytest.fixture(scope="module")
def module_kafka() -> Iterator[KafkaBroker]:
    """A real broker for one module."""
    yield from served(KafkaBroker())


@pytest.fixture
def own_kafka(module_kafka: KafkaBroker) -> KafkaBroker:
    """A real broker that nobody else uses meanwhile, to be stopped and killed at will; what is in it stays."""
    if module_kafka.process is None or not module_kafka.process.alive:
        module_kafka.start()
    return module_kafka


@pytest.fixture(scope="session")
def artemis() -> Artemis:
    """The shared ActiveMQ Artemis (admin/admin, queues on demand). Use own addresses."""
    return Artemis.at(shared("artemis")["port"])


@pytest.fixture(scope="session")
def redis_server() -> Redis:
    """A database of the shared Redis that this worker alone uses."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return Redis.at(shared("redis")["port"], worker % DATABASES)


def started() -> Iterator[Gateways]:
    """Yield a factory of gateways and stop what it started."""
    gateways = Gateways()
    try:
        yield gateways
    finally:
        gateways.close()


@pytest.fixture
def start_gateway() -> Iterator[Gateways]:
    """`start_gateway(policy) -> Gateway`: ends with the test."""
    yield from started()


@pytest.fixture(scope="module")
def start_module_gateway() -> Iterator[Gateways]:
    """`start_module_gateway(policy) -> Gateway`: one gateway for the tests of a module."""
    yield from started()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The run's certificate authority: `authority.ca` is trusted, `authority.server()` issues."""
    return Authority(tmp_path_factory.mktemp("tls"))
