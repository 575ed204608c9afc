"""The other real servers of the suite: ActiveMQ Artemis and Redis, each a process on free ports."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess

from tests.support.gateway.process import PATIENCE, Process, Server, answers, free_port, fresh_folder, run_tool
from tests.support.project.commands import program
from tests.support.project.parts import folder

ACCEPTOR = (
    "tcp://127.0.0.1:{port}?protocols=AMQP;amqpCredits=1000;amqpLowCredits=300;amqpDuplicateDetection=false"
)
OPTIONS = (
    "--user admin --password admin --require-login --host 127.0.0.1 --no-autotune --no-web "
    "--no-hornetq-acceptor --no-mqtt-acceptor --no-stomp-acceptor --disable-persistence --silent"
)
# Otherwise an unknown address is MULTICAST: what is sent before a receiver attaches is accepted and lost.
ANYCAST = (
    "<default-address-routing-type>ANYCAST</default-address-routing-type>"
    "<default-queue-routing-type>ANYCAST</default-queue-routing-type>"
)

DATABASES = 64
"""Of a Redis: each worker has one of its own."""


class Artemis(Server):
    """An AMQP broker that creates queues on demand and strips delivery annotations; admin/admin."""

    user = "admin"
    password = "admin"
    options = OPTIONS

    def __init__(self) -> None:
        self._at(free_port())
        self._instance = fresh_folder("artemis") / "instance"
        self._create()
        self.start()

    @classmethod
    def at(cls, port: int) -> Artemis:
        """Return the one that runs at a port, in the hands of another process."""
        broker = cls.__new__(cls)
        broker._at(port)
        return broker

    def _at(self, port: int) -> None:
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.url = f"amqp://{self.address}"

    def _create(self) -> None:
        script = str(folder("artemis") / "bin" / "artemis")
        run_tool("artemis-create", [script, "create", str(self._instance), *self.options.split()])
        file = self._instance / "etc" / "broker.xml"
        file.write_text(self._patched(file.read_text()))

    def _patched(self, xml: str) -> str:
        acceptor = f'<acceptor name="amqp">{ACCEPTOR.format(port=self.port)}</acceptor>'
        xml = re.sub(r"(?s)(<acceptors>).*(</acceptors>)", rf"\1{acceptor}\2", xml)
        xml = xml.replace('<address-setting match="#">', f'<address-setting match="#">{ANYCAST}')
        # A busy test machine is neither a full disk nor a deadlock.
        xml = re.sub(r"<max-disk-usage>\d+", "<max-disk-usage>-1", xml)
        return xml.replace("<critical-analyzer>true", "<critical-analyzer>false")

    def start(self) -> None:
        """Start the broker and wait until it speaks AMQP."""
        environment = {"JAVA_ARGS": "-Xms64M -Xmx256M -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
        command = [str(self._instance / "bin" / "artemis"), "run"]
        self.process = Process("artemis", command, env=environment)
        self.process.wait_ready(lambda: amqp_header(self.port), "an AMQP header of Artemis")


def amqp_header(port: int) -> bool:
    """Tell whether the peer on a port answers the SASL header with one."""
    header = b"AMQP\x03\x01\x00\x00"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
            peer.sendall(header)
            return peer.recv(8) == header
    except OSError:
        return False


class Redis(Server):
    """A redis-server, append-only file synced every second; `url` and `command` mean one of its databases."""

    def __init__(self) -> None:
        self._at(free_port(), 0)
        self._folder = fresh_folder("redis")
        self.start()

    @classmethod
    def at(cls, port: int, database: int) -> Redis:
        """Return the one that runs at a port, in the hands of another process, with a database of our own."""
        server = cls.__new__(cls)
        server._at(port, database)
        return server

    def _at(self, port: int, database: int) -> None:
        self.port, self._database = port, str(database)
        self.url = f"redis://127.0.0.1:{port}/{database}"

    def start(self) -> None:
        """Start the server and wait for its port."""
        settings = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._folder)]
        settings += ["--databases", str(DATABASES)]
        durable = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
        self.process = Process("redis", [program("redis-server"), *settings, *durable])
        self.process.wait_ready(lambda: answers(self.port), "Redis to listen")

    def start_empty(self) -> None:
        """Start it again, after `kill`, without its files."""
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        self.start()

    def command(self, *words: str) -> str:
        """Return what `redis-cli` prints for a command; not `FLUSHALL`, which empties other workers' databases, too."""
        assert "FLUSHALL" not in words, "other workers have databases of the same server: use empty()"
        tool = program("redis-server").replace("redis-server", "redis-cli")
        client = [tool, "-p", str(self.port), "-n", self._database, *words]
        return subprocess.run(client, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.strip()

    def empty(self) -> None:
        """Remove everything in our database."""
        self.command("FLUSHDB")
