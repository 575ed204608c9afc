"""A gateway that manages subscriptions, and a client of its HTTP API; events come from topics of an embedded Kafka."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.amqp.sasl.user_file import make_entry
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway
from tests.support.gateway.process import PATIENCE, free_port
from tests.support.servers.embedded_kafka import EmbeddedKafka
from tests.support.servers.kafka import new_producer

USERS = {"billing": "secret-of-billing", "shipping": "secret-of-shipping", "ops": "secret-of-ops"}
PATH = "/subscriptions"
SINKS = 3
"""Places at which the policy of tests allows HTTP sinks."""
SALT = b"salt of this test"


@dataclass
class Answered:
    """An answer of the API."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's document."""
        return json.loads(self.body)


class ApiClient:
    """Requests of one user; None: without a login."""

    def __init__(self, port: int, user: str | None = "billing", *, tls: ssl.SSLContext | None = None) -> None:
        self.port = port
        self.tls = tls
        self.headers: dict[str, str] = {} if user is None else basic(user, USERS.get(user, "wrong"))

    def request(
        self, method: str, path: str = PATH, body: object = None, headers: Mapping[str, str] = {}
    ) -> Answered:
        """Ask once, on a connection of its own; `body` that is no bytes is sent as JSON."""
        if self.tls is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.tls)
        data = body if body is None or isinstance(body, bytes | Iterator) else json.dumps(body).encode()
        media = {} if body is None else {"content-type": "application/json"}
        try:
            chunked = isinstance(data, Iterator)
            connection.request(method, path, data, {**self.headers, **media, **headers}, encode_chunked=chunked)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answered(answer.status, found, answer.read())
        finally:
            connection.close()

    async def ask(self, method: str, path: str = PATH, body: object = None, **headers: str) -> Answered:
        """`request`, while the loop of the test goes on; `_` in names of headers stands for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await asyncio.to_thread(self.request, method, path, body, named)


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = PATIENCE) -> None:
    """Wait for what the API tells."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110  another process brings it about
            await asyncio.sleep(0.02)


def basic(user: str, password: str) -> dict[str, str]:
    """A login."""
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def write_users(path: Path, users: Iterable[str] = USERS) -> None:
    """A users file of these users of `USERS`."""
    entries = {name: make_entry(USERS[name], salt=SALT) for name in users}
    beside = path.with_suffix(".next")
    beside.write_text(json.dumps(entries) if entries else "{}")
    beside.replace(path)  # in one step: the gateway looks at the file by itself


def subscription_policy(folder: Path, *, topics: Mapping[str, int] = {"orders": 3}, **manager: Any) -> Document:
    """`events/{topic}` at HTTP paths under `/subscriptions`; sinks are HTTP servers on this machine."""
    write_users(folder / "users.yaml")
    document = Document()
    document.kafka("embedded", topics=dict(topics))
    scope = document.scope()
    scope["access"].append({"who": ["billing", "shipping"], "may": "subscribe", "on": "events/**"})
    scope["api"] = [
        {
            "bind": f"127.0.0.1:{free_port()}",
            "auth": ["basic"],
            "users": str(folder / "users.yaml"),
            "allow_basic_without_tls": True,
            "limits": {"user_requests": "10000/s"},
        }
    ]
    events = [f"events/{each}" for each in topics]
    sinks = [http_rule(free_port()) for _ in range(SINKS)]
    scope["subscriptions"] = [{"name": "orders", "events": events, "sinks": sinks, "manage": "ops", **manager}]
    return document


def http_rule(port: int) -> dict[str, Any]:
    """An entry of `sinks`: an HTTP server on this machine, which is not asked for its consent."""
    return {
        "protocol": "http", "to": f"http://127.0.0.1:{port}", "networks": ["127.0.0.0/8"], "handshake": "off",
    }  # fmt: skip


def sink_ports(document: Document) -> list[int]:
    """The ports of this machine at which the policy allows HTTP sinks."""
    rules = document.scope()["subscriptions"][0]["sinks"]
    return [int(rule["to"].rpartition(":")[2]) for rule in rules if rule["protocol"] == "http"]


def api_port(document: Document) -> int:
    """Where the API of a policy listens."""
    return int(str(document.scope()["api"][0]["bind"]).rpartition(":")[2])


class EventWriter:
    """Writes events to a topic of a broker, or of the gateway's embedded Kafka."""

    def __init__(self, where: Gateway | str) -> None:
        if isinstance(where, Gateway):
            kafka = EmbeddedKafka()
            kafka.found(where)
            where = kafka.bootstrap
        self._producer = new_producer(where, **{"linger.ms": 0})

    def write(
        self,
        topic: str,
        id: str,
        type: str = "com.example.order.created",
        key: str | None = None,
        *,
        wait: bool = True,
        **more: str,
    ) -> None:
        """One event in binary mode; `more` are other attributes, `data` its data; `wait` until all are written."""
        data = more.pop("data", "{}")
        attributes = {"specversion": "1.0", "id": id, "source": "/orders", "type": type, **more}
        headers = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
        self._producer.produce(
            topic, data.encode(), key=key, headers=[*headers, ("content-type", b"application/json")]
        )
        if wait:
            assert self._producer.flush(PATIENCE) == 0

    def plain(self, topic: str, value: bytes, **headers: str) -> None:
        """A record that is no event."""
        named = [(name, text.encode()) for name, text in headers.items()]
        self._producer.produce(topic, value, headers=named)
        assert self._producer.flush(PATIENCE) == 0


