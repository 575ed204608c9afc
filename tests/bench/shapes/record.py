"""Records `recorded.json`: messages as stock client libraries send them. Run by hand when a library is to be renewed.

`python -m tests.bench.shapes.record --python PYTHON --rust PROGRAM --go PROGRAM`: Python of an environment with
azure-eventhub and uamqp, and the programs that `cargo build` and `go build` make of `clients/rust` and `clients/go`.
proton is that of this environment; Qpid JMS and rhea are the parts of the suite. What is not given keeps its recording.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from cproton_ffi import ffi, lib
from proton import Handler, Message, symbol
from proton.reactor import Container

from tests.bench.shapes.shapes import RECORDED
from tests.support.amqp.foreign import JAVA, rhea_environment
from tests.support.gateway.process import free_port
from tests.support.project.commands import program
from tests.support.project.parts import folder

CLIENTS: Final = Path(__file__).parent / "clients"
ADDRESS: Final = "events/orders"
COMMON: Final = ("data", "data-1k", "properties-3", "properties-20", "key", "string", "map", "full")
JMS: Final = (
    "bytes", "bytes-1k", "properties-3", "properties-20", "key", "text", "text-1k", "map", "full", "non-persistent",
)  # fmt: skip
EVENT_HUBS: Final = ("data", "data-1k", "properties-3", "properties-20", "key", "full")
THREE: Final[dict[str | symbol, Any]] = {"region": "eu-1", "size": 17, "urgent": True}
TWENTY: Final[dict[str | symbol, Any]] = {f"name-{n:02}": f"value-{n:02}" for n in range(1, 21)}


class Sink(Handler):
    """A listener that accepts every message and keeps its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.port: Final = free_port()
        self.messages: list[bytes] = []
        self._listener: Any = None

    def on_reactor_init(self, event: Any) -> None:
        self._listener = event.container.listen(f"127.0.0.1:{self.port}")

    def on_connection_remote_open(self, event: Any) -> None:
        event.connection.open()

    def on_session_remote_open(self, event: Any) -> None:
        event.session.open()

    def on_link_remote_open(self, event: Any) -> None:
        event.link.target.copy(event.link.remote_target)
        event.link.source.copy(event.link.remote_source)
        event.link.open()
        event.link.flow(100)

    def on_delivery(self, event: Any) -> None:
        delivery = event.delivery
        if delivery.readable and not delivery.partial:
            self.messages.append(event.link.recv(delivery.pending))
            event.link.advance()
            delivery.update(delivery.ACCEPTED)
            delivery.settle()

    def on_link_remote_close(self, event: Any) -> None:
        event.link.close()

    def on_session_remote_close(self, event: Any) -> None:
        event.session.close()

    def on_connection_remote_close(self, event: Any) -> None:
        event.connection.close()
        self._listener.close()


def sent(command: Callable[[int], list[str]], env: dict[str, str] | None = None) -> list[bytes]:
    """What a program sends to a listener on the port that its command gets."""
    sink = Sink()
    server = threading.Thread(target=Container(sink).run, daemon=True)
    server.start()
    subprocess.run(command(sink.port), check=True, timeout=60, env=env)
    server.join(10)
    return sink.messages


def jms() -> list[bytes]:
    """Qpid JMS."""
    with TemporaryDirectory() as place:
        classes = f"{place}:{folder('jms')}/*"
        subprocess.run([program("javac"), "-cp", classes, "-d", place, str(CLIENTS / "Shapes.java")], check=True)
        java = [program("java"), *JAVA, "-cp", classes, "Shapes"]
        return sent(lambda port: [*java, f"amqp://127.0.0.1:{port}", ADDRESS])


def rhea() -> list[bytes]:
    """rhea."""
    client = [program("node"), str(CLIENTS / "shapes.js")]
    return sent(lambda port: [*client, str(port), ADDRESS], rhea_environment())


def event_hubs(python: str, transport: str) -> list[bytes]:
    """azure-eventhub over one of its transports."""
    command = [python, str(Path(__file__).parent / "event_hubs.py"), transport]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [bytes.fromhex(line) for line in printed.split()]


def proton_python() -> list[bytes]:
    """`proton.Message` of python-qpid-proton; a body of bytes is an amqp-value unless it is `inferred`."""
    full = Message(b"x" * 100, inferred=True, durable=True, priority=7, ttl=3600, id="order-00000017")
    full.address, full.subject, full.reply_to, full.correlation_id = ADDRESS, "created", "answers/7", 17
    full.content_type, full.creation_time, full.group_id = symbol("application/json"), 1_700_000_000, "customer-7"
    key = Message(b"x" * 100, inferred=True)
    key.annotations = {symbol("event-streams-group-key"): "customer-7"}
    messages = (
        Message(b"x" * 100, inferred=True),
        Message(b"x" * 1000, inferred=True),
        Message(b"x" * 100, inferred=True, properties=THREE),
        Message(b"x" * 100, inferred=True, properties=TWENTY),
        key,
        Message("x" * 100),
        Message(dict(THREE)),
        full,
        Message(b"x" * 100),
    )
    return [message.encode() for message in messages]


def proton_c() -> Iterator[bytes]:
    """`pn_message` of proton's C library, with a body of data and what is set beside it."""
    for size, properties in ((100, 0), (1000, 0), (100, 3), (100, 20)):
        message = lib.pn_message()
        lib.pn_message_set_inferred(message, True)
        _put_binary(lib.pn_message_body(message), b"x" * size)
        if properties:
            _put_map(lib.pn_message_properties(message), THREE if properties == 3 else TWENTY)
        yield _encoded(message)
    message = lib.pn_message()
    lib.pn_message_set_inferred(message, True)
    _put_binary(lib.pn_message_body(message), b"x" * 100)
    lib.pn_message_set_durable(message, True)
    lib.pn_message_set_address(message, ADDRESS.encode())
    lib.pn_message_set_subject(message, b"created")
    yield _encoded(message)


def _encoded(message: Any) -> bytes:
    buffer = bytearray(4096)
    size = lib.pn_message_encode_py(message, ffi.from_buffer(buffer), len(buffer))
    if size < 0:
        raise SystemExit(f"proton did not encode the message: {size}")
    return bytes(buffer[:size])


def _bytes(data: bytes) -> Any:
    kept = ffi.new("char[]", data)
    _kept.append(kept)
    return ffi.new("pn_bytes_t *", (len(data), kept))[0]


_kept: list[Any] = []


def _put_binary(data: Any, content: bytes) -> None:
    lib.pn_data_put_binary(data, _bytes(content))


def _put_map(data: Any, values: dict[Any, Any]) -> None:
    lib.pn_data_put_map(data)
    lib.pn_data_enter(data)
    for name, value in values.items():
        lib.pn_data_put_string(data, _bytes(name.encode()))
        if isinstance(value, bool):
            lib.pn_data_put_bool(data, value)
        elif isinstance(value, int):
            lib.pn_data_put_int(data, value)
        else:
            lib.pn_data_put_string(data, _bytes(value.encode()))
    lib.pn_data_exit(data)


def main() -> None:
    """Records what it is given the programs for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.shapes.record", description=__doc__)
    for name in ("python", "rust", "go"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    found = {
        "proton-c": (("data", "data-1k", "properties-3", "properties-20", "full"), list(proton_c())),
        "proton-python": ((*COMMON, "binary"), proton_python()),
        "jms": (JMS, jms()),
        "rhea": (COMMON, rhea()),
    }
    for client in ("go", "rust"):
        if command := getattr(options, client):
            found[{"go": "go-amqp", "rust": "fe2o3-amqp"}[client]] = (COMMON, sent(_url(command)))
    if options.python:
        found["eventhub-pyamqp"] = (EVENT_HUBS, event_hubs(options.python, "pyamqp"))
        found["eventhub-uamqp"] = (EVENT_HUBS, event_hubs(options.python, "uamqp"))
    recorded: dict[str, str] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for client, (names, messages) in found.items():
        shapes = zip(names, messages, strict=True)
        recorded |= {f"{client}/{name}": message.hex() for name, message in shapes}
    RECORDED.write_text(json.dumps(recorded, indent=0) + "\n")


def _url(command: str) -> Callable[[int], list[str]]:
    return lambda port: [command, f"amqp://127.0.0.1:{port}", ADDRESS]


if __name__ == "__main__":
    main()
