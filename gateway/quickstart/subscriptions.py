"""Chapter 4: a subscription, made with one HTTP request, and the events that a service then gets (CE 3.2)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer

from gateway.quickstart.checks import PATIENCE, Checks, StepFailed
from gateway.quickstart.ports import Ports
from gateway.quickstart.terminal_output import TerminalOutput

_COLLECTION: Final = "/subscriptions"
_TOPIC: Final = "orders"
_WANTED: Final = "com.example.order.created"
_EVENTS: Final = (("order-1", _WANTED), ("return-1", "com.example.return.created"), ("order-2", _WANTED))


class PushedEvent(NamedTuple):
    """A request as the service got it."""

    id: str | None
    type: str | None
    body: bytes


def show(place: Ports, bootstrap: str, screen: TerminalOutput, checks: Checks) -> None:
    """Subscribe, write events, look at what the service gets and at the status; nothing where there is no API."""
    api, sink = place.binds.get("api"), place.binds.get("sink")
    if api is None or sink is None:
        return
    screen.heading("4  A topic pushes its events to a subscriber")
    with _service(sink) as got:
        proposal = {"protocol": "HTTP", "sink": f"http://{sink}/hook", "types": [_WANTED]}
        screen.step("team", f"POST {_COLLECTION}", json.dumps(proposal))
        status, made = _ask(api, "POST", _COLLECTION, proposal)
        checks.equal("201: the gateway delivers from now on", status, 201)
        screen.step("producer", f"topic {_TOPIC}", ", ".join(f"{id} ({kind})" for id, kind in _EVENTS))
        _write(bootstrap)
        _wait(got, 2)
        expected = [PushedEvent(id, kind, _body(id)) for id, kind in _EVENTS if kind == _WANTED]
        checks.equal("the service gets what it asked for, byte for byte and in order", got, expected)
        at = f"{_COLLECTION}/{made['id']}"
        _show_status(api, at, screen, checks)
        checks.equal("DELETE returns it as it was last", _ask(api, "DELETE", at), (200, made))


def _show_status(api: str, at: str, screen: TerminalOutput, checks: Checks) -> None:
    screen.step("team", f"GET {_COLLECTION}/ID/status", "how does it go?")
    deadline, status = time.monotonic() + PATIENCE, _ask(api, "GET", f"{at}/status")[1]
    while status["events"]["delivered"] < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        status = _ask(api, "GET", f"{at}/status")[1]
    summary = status["state"], status["guarantee"], status["events"]["delivered"]
    checks.equal("active, at least once, two delivered", summary, ("active", "at-least-once", 2))


def _ask(api: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    connection = HTTPConnection(api, timeout=PATIENCE)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {} if data is None else {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except OSError as error:
        raise StepFailed(f"{method} {path}", "an answer", error) from error
    finally:
        connection.close()


def _body(id: str) -> bytes:
    return json.dumps({"event": id}).encode()


def _write(bootstrap: str) -> None:
    """CloudEvents in binary mode, as an ordinary Kafka producer writes them (Kafka binding, 3.2)."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for id, kind in _EVENTS:
        attributes = {"specversion": "1.0", "id": id, "source": "/quickstart", "type": kind}
        headers: list[tuple[str, str | bytes | None]] = [(f"ce_{name}", value) for name, value in attributes.items()]
        headers.append(("content-type", b"application/json"))
        producer.produce(_TOPIC, _body(id), key="customer-01", headers=headers)
    if producer.flush(PATIENCE):
        raise StepFailed("the producer writes three events", "Kafka's acknowledgement", "none in time")


def _wait(got: list[PushedEvent], count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(got) < count and time.monotonic() < deadline:
        time.sleep(0.02)


@contextmanager
def _service(bind: str) -> Iterator[list[PushedEvent]]:
    """An HTTP server that keeps what it is sent."""
    got: list[PushedEvent] = []

    class Handler(BaseHTTPRequestHandler):
        """Answers every request with 204."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append(PushedEvent(self.headers["ce-id"], self.headers["ce-type"], body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """The terminal is for the quickstart."""

    host, _, port = bind.rpartition(":")
    server = HTTPServer((host, int(port)), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
