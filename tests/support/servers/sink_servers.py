"""Real servers that subscriptions push to: mosquitto and nats-server, each a process on free ports."""

from __future__ import annotations

import shutil
import subprocess

from tests.support.gateway.process import Process, Server, answers, free_port, fresh_folder
from tests.support.project.commands import program
from tests.support.servers.certs import Pair


class Mosquitto(Server):
    """An MQTT broker, versions 3.1.1 and 5; anonymous, or with one user; `tls_port` where it has a certificate."""

    def __init__(self, *settings: str, user: str | None = None, password: str = "", pair: Pair | None = None) -> None:
        self.port, self.tls_port = free_port(), free_port()
        folder = fresh_folder("mosquitto")
        lines = [f"listener {self.port} 127.0.0.1", *settings]
        if user is None:
            lines.append("allow_anonymous true")
        else:
            users = folder / "users"
            tool = shutil.which("mosquitto_passwd") or "mosquitto_passwd"
            subprocess.run([tool, "-b", "-c", str(users), user, password], check=True, capture_output=True)
            lines += ["allow_anonymous false", f"password_file {users}"]
        if pair is not None:
            lines += [f"listener {self.tls_port} 127.0.0.1", f"certfile {pair.cert}", f"keyfile {pair.key}"]
        self._file = folder / "mosquitto.conf"
        self._file.write_text("\n".join([*lines, "user root", ""]))
        self.start()

    def start(self) -> None:
        """Start the broker and wait for its port."""
        self.process = Process("mosquitto", [program("mosquitto"), "-c", str(self._file)])
        self.process.wait_ready(lambda: answers(self.port), "mosquitto to listen")


class NatsServer(Server):
    """A NATS server with JetStream; anonymous, or with the given configuration."""

    def __init__(self, configuration: str = "") -> None:
        self.port = free_port()
        folder = fresh_folder("nats")
        self._file = folder / "nats.conf"
        store = f'jetstream {{ store_dir: "{folder}" }}'
        self._file.write_text(f"listen: 127.0.0.1:{self.port}\n{store}\n{configuration}\n")
        self.start()

    def start(self) -> None:
        """Start the server and wait for its port."""
        self.process = Process("nats", [program("nats-server"), "-c", str(self._file)])
        self.process.wait_ready(lambda: answers(self.port), "nats-server to listen")
