"""What operators are told of a connector without a connection."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from gateway.amqp.sasl.client import SaslClient
from gateway.amqp.sasl.frames import SASL_HEADER
from gateway.amqp.transport.tls import client_context
from gateway.connectors.connector import Connector
from gateway.connectors.failures import Failures, why, why_no_login
from policies.model.scopes.connect import ConnectorSection
from policies.values.units import Endpoint
from tests.support.servers.certs import Authority

RESET = ConnectionResetError(104, "Connection reset by peer")


def alert(name: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {name}] (_ssl.c:1006)")
    error.reason = name
    return error


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        (alert("SSLV3_ALERT_CERTIFICATE_EXPIRED"), "the container ended TLS with the alert 'certificate expired'"),
        (alert("TLSV1_ALERT_UNKNOWN_CA"), "the container ended TLS with the alert 'unknown ca'"),
        (RESET, "[Errno 104] Connection reset by peer"),
        (None, "connection lost"),
        (ConnectionResetError(), "connection lost"),  # asyncio says no more of an end within the handshake
    ],
)
def test_a_certificate_is_named_with_its_end(tmp_path: Path, error: Exception | None, begins: str) -> None:
    authority = Authority(tmp_path)
    for expired, says in ((True, "expired on"), (False, "valid until")):
        pair = authority.expired() if expired else authority.client("gate")
        context = client_context(ca=authority.ca, cert=pair.cert, key=pair.key)
        assert context.expires is not None
        assert (context.expires < dt.datetime.now(dt.UTC)) is expired
        text = why(error, context, opened=False)
        assert text.startswith(f"{begins}; ")
        assert f"{pair.cert} ({says} {context.expires:%Y-%m-%d %H:%M} UTC); replace the file and reload" in text
    assert "client certificate, which this connector does not have" in why(error, client_context(), opened=False)


@pytest.mark.parametrize(
    "error",
    [ConnectionRefusedError(111, "Connection refused"), alert("CERTIFICATE_VERIFY_FAILED"), TimeoutError()],
)
def test_other_reasons_say_nothing_of_certificates(error: Exception) -> None:
    assert why(error, client_context(), opened=False) == (str(error) or "timed out")


def test_a_container_whose_certificate_is_not_accepted_is_told_in_a_sentence() -> None:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] … (_ssl.c:1006)")
    error.verify_message = "certificate has expired"
    told = "the container's certificate is not accepted: certificate has expired"
    assert why(error, client_context(), opened=False) == told


@pytest.mark.parametrize("server", [b"HTTP/1.1", SASL_HEADER + b"junk" * 4], ids=["header", "frames"])
def test_a_failed_login_is_told_in_a_sentence(server: bytes) -> None:
    client = SaslClient(["PLAIN"], "u", "p", tls=True)
    client.receive(server)
    assert client.reason in ("protocol-header", "malformed")
    assert why_no_login(client.reason).startswith("authentication failed: the container ")


def test_nothing_is_guessed_on_plain_tcp_or_once_a_connection_was_open() -> None:
    assert why(None, None, opened=False) == why(None, client_context(), opened=True) == "connection lost"


def test_a_reason_is_new_once_for_each_endpoint_until_a_connection_is_open() -> None:
    failures, (one, two) = Failures(), (Endpoint(False, "a", 1), Endpoint(False, "b", 1))
    assert [failures.is_new(each, "away") for each in (one, two, one, two)] == [True, True, False, False]
    assert [failures.is_new(one, reason) for reason in ("refused", "away", "refused")] == [True, False, False]
    failures.clear()
    assert failures.is_new(one, "refused")
    assert sum(failures.is_new(one, f"reason {number}") for number in range(1000)) == 1000, "bounded"


class Watching:
    """A bridge at the container; one that fails has a bug of ours."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.told = fails, list[str]()

    def opened(self, engine: object) -> None:
        self._tell("opened")

    def closed(self) -> None:
        self._tell("closed")

    def _tell(self, what: str) -> None:
        if self.fails:
            raise RuntimeError("a bug that the test has made")
        self.told.append(what)


async def test_a_bridge_that_fails_costs_neither_the_others_nor_the_next_connection() -> None:
    failed: list[str] = []
    model = ConnectorSection.model_validate({"name": "broker", "to": "amqp://127.0.0.1:5672"})
    report: Any = SimpleNamespace(
        disconnected=lambda connection: None, connection_opened=lambda connection, **ids: None,
        log=structlog.get_logger(), increment=lambda *_: None, task_failed=lambda name, _: failed.append(name)
    )
    hub: Any = SimpleNamespace(loop=asyncio.get_running_loop())
    connector = Connector(
        "edge", model, container_id="c", hub=hub, report=report, node_scope=None, routes=False  # type: ignore[arg-type]
    )
    watchers = [Watching(), Watching(fails=True), Watching()]
    for each in watchers:
        connector.watch(each)
    engine = SimpleNamespace(offered=(), remote_container="c", begin=lambda then: then())
    connection: Any = SimpleNamespace(engine=engine, loss=None)
    connector.opened(connection)
    connector.closed(connection, None)
    assert [each.told for each in watchers] == [["opened", "closed"], [], ["opened", "closed"]]
    assert failed == ["connector:broker"] * 2
    assert connector._ended.is_set(), "the next connection is made"
