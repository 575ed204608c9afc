"""pytest plugin: the servers of the suite as fixtures (started once, when first asked for) and gateways.

A failed test's report ends with the tail of the log of every server that runs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

import pytest

from tests.support.certs import Authority
from tests.support.gateway import Gateways
from tests.support.kafka import KafkaBroker
from tests.support.process import Process, Server, sweep
from tests.support.servers import Artemis, Redis

S = TypeVar("S", bound=Server)


def pytest_sessionstart() -> None:
    """Start with the folders of earlier runs removed."""
    sweep()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the servers' last words to a failure."""
    report = yield
    if report.failed:
        report.sections += [(f"log of {process.name}", process.tail(15, 300)) for process in Process.running]
    return report


def served(server: S) -> Iterator[S]:
    """Yield a server and end it afterwards."""
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """The shared real broker; whoever stops or kills it starts it again. Use own topics."""
    yield from served(KafkaBroker())


@pytest.fixture
def own_kafka() -> Iterator[KafkaBroker]:
    """A real broker for one test, to be killed at will."""
    yield from served(KafkaBroker())


@pytest.fixture(scope="session")
def artemis() -> Iterator[Artemis]:
    """The shared ActiveMQ Artemis (admin/admin, queues on demand)."""
    yield from served(Artemis())


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    """The shared Redis."""
    yield from served(Redis())


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
